"""Bugs around the API: definite outcomes, fences, ownership of binds."""

from tests.simulation.planted import Bug, edit

BUGS = (
    Bug(
        "unassigned-read-taken-as-failed",
        "services.binding.core.transitions",
        edit(
            """
    (Phase.READING, "shown_unassigned"): Phase.REPEAT,
""",
            """
    (Phase.READING, "shown_unassigned"): Phase.ABANDONED,
""",
        ),
        edit(
            """
    (Phase.ASKED, "unknown"): Phase.REPEAT,
""",
            """
    (Phase.ASKED, "unknown"): Phase.READ,
""",
        ),
        by=("definite",),
    ),
    Bug(
        "release-before-outcome",
        "services.binding.core.transitions",
        edit(
            """
    (Phase.ASKED, "unknown"): Phase.REPEAT,
""",
            """
    (Phase.ASKED, "unknown"): Phase.ABANDONED,
""",
        ),
        by=("definite",),
    ),
    Bug(
        "revision-not-raised-before-re-placement",
        "services.binding.core.transitions",
        edit(
            """
    (Phase.ASKED, "refused"): Phase.FENCE,
""",
            """
    (Phase.ASKED, "refused"): Phase.ABANDONED,
""",
        ),
        by=("definite",),
    ),
    Bug(
        "bind-to-a-gone-node-given-up-unfenced",
        "services.binding.core.transitions",
        edit(
            """
    **{(phase, "node_gone"): Phase.FENCE for phase in SENT},
""",
            """
    **{(phase, "node_gone"): Phase.ABANDONED for phase in SENT},
""",
        ),
        by=("definite", "due in IDLE"),
    ),
    Bug(
        "fenced-revision-not-kept",
        "services.binding.core.binds",
        edit(
            """
            table.revisions[row] = max(table.revisions.item(row), revision)
""",
            """

""",
        ),
        by=("conservation",),
    ),
    Bug(
        "foreign-bind-taken-as-ours",
        "services.binding.core.facts",
        edit(
            """
        move(state, row, "fact_ours" if is_where_sent(state, row, node) else "fact_other")
""",
            """
        move(state, row, "fact_ours")
""",
        ),
        by=("definite",),
    ),
    Bug(
        "doubled-bind",
        "services.binding.core.binds",
        edit(
            """
                yield BindsAsked(effect, ids, pack(table.nodes[rows]), pack(table.revisions[rows]))
""",
            """
                other = pack([max(1, node - 1) for node in table.nodes[rows].tolist()])
                yield BindsAsked(effect, ids, other, pack(table.revisions[rows]))
""",
        ),
        by=("one-decision-per-bind",),
    ),
    Bug(
        "last-victim-not-last",
        "services.binding.core.evictions",
        edit(
            """
        elif phase is Evicting.PENDING and (victim != last or others_end):
""",
            """
        elif phase is Evicting.PENDING:
""",
        ),
        by=("last-victim-last",),
    ),
    Bug(
        "remade-node-is-foreign",
        "services.binding.core.bind_rows",
        edit(
            """
    return name is not None and state.node_names.get(node) == name
""",
            """
    return name == ""
""",
        ),
        by=("definite",),
    ),
)
