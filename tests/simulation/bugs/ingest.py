"""Bugs in ingest: lists, watches, gates."""

from tests.simulation.planted import Bug, edit

RESTORED = (16, 17, 45, 49)
"""Seeds in which the cluster is restored."""

BUGS = (
    Bug(
        "deletes-from-a-cut-list",
        "services.ingest.shell",
        edit(
            """
            self._asked.pop(kind)
""",
            """
            self._asked.pop(kind)
            listed = Watched(listed.revision, listed.events[: len(listed.events) * 2 // 3])
""",
        ),
        by=("no-pod-lost",),
    ),
    Bug(
        "watch-resumed-too-late",
        "services.ingest.shell",
        edit(
            """
        self._since = owner.state.revision
""",
            """
        self._since = owner.state.revision and owner.state.revision + 9
""",
        ),
        by=("conservation", "no-pod-lost"),
    ),
    Bug(
        "lifted-gate-not-noticed",
        "services.ingest.core.pods.pods",
        edit(
            """
    changed = other_sig | other_gang | (table.gated[slots] != event.gated)
""",
            """
    changed = other_sig | other_gang
""",
        ),
        by=("no-pod-lost",),
    ),
    Bug(
        "only-first-of-many-deletes-published",
        "services.ingest.core.pods.pods",
        edit(
            """
    forget(state, slots, is_finished=event.finished)
""",
            """
    forget(state, slots[:1], is_finished=event.finished)
""",
        ),
        by=("no uid leads to them", "rows, "),
    ),
    Bug(
        "restored-cluster-not-noticed",
        "services.ingest.shell",
        edit(
            """
        if revision >= self._newest and not self._is_restored:
""",
            """
        if revision >= 0:
""",
        ),
        by=("conservation", "no-pod-lost", "no-ghosts", "outcome-is-true"),
        first=RESTORED,
    ),
    Bug(
        "undone-binds-kept",
        "services.ingest.core.pods.pods",
        edit(
            """
            _forget_old(state, seen, slots)
""",
            """
            pass
""",
        ),
        by=("conservation", "no-pod-lost", "outcome-is-true"),
        first=RESTORED,
    ),
)
