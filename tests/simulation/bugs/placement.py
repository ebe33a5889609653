"""Bugs in the shards: the ledger, holds, nominations, dry runs, wake-ups, and the kernel below."""

from tests.simulation.planted import Bug, edit

BUGS = (
    Bug(
        "stale-nomination-accepted",
        "services.placement.core.preemption.validation",
        edit(
            """
    if not len(victims) or not _still_there(state, event, victims):
""",
            """
    if not len(victims):
""",
        ),
        edit(
            """
    if not there:
        return stale
""",
            """
    del there
""",
        ),
        by=("victims", "victims-suffice"),
        first=(36,),
    ),
    Bug(
        "victim-of-equal-priority",
        "services.placement.core.preemption.dry_run",
        edit(
            """
        if self.state.specs[sig].priority < self.priority:
""",
            """
        if self.state.specs[sig].priority <= self.priority:
""",
        ),
        by=("victims",),
    ),
    Bug(
        "budget-ignored",
        "services.placement.core.preemption.dry_run",
        edit(
            """
                if left[one] < 0:
""",
            """
                if left[one] < -9:
""",
        ),
        by=("budget",),
    ),
    Bug(
        "no-victim-reprieved",
        "services.placement.core.preemption.unit_parts",
        edit(
            """
            if part.unit not in whole and stays(part):
""",
            """
            if part.unit in whole:
""",
        ),
        by=("victims-needed",),
    ),
    Bug(
        "nomination-not-charged",
        "services.placement.core.preemption.nominations",
        edit(
            """
        if one.pod != pod and one.counts and is_before(state, one, priority, queue):
""",
            """
        if one.pod == -1:
""",
        ),
        by=("nominated-space",),
        first=(8,),
    ),
    Bug(
        "improved-not-sent-on-release",
        "services.placement.core.books.charges",
        edit(
            """
        mark_improved(state, nodes)
        if state.retired and sig in state.retired:
""",
            """
        if state.retired and sig in state.retired:
""",
        ),
        by=("no-pod-lost",),
    ),
    Bug(
        "hold-not-released-on-timeout",
        "services.placement.core.gangs.holds",
        edit(
            """
    if ids is not None:
        with quietly(state)
""",
            """
    if ids is not None and isinstance(event, GangReleased):
        with quietly(state)
""",
        ),
        by=("conservation", "no-pod-lost", "for no attempt", "victims-needed"),
    ),
    Bug(
        "hold-not-released",
        "services.placement.core.gangs.holds",
        edit(
            """
    if ids is not None:
        with quietly(state)
""",
            """
    if ids is not None and not state.shards:
        with quietly(state)
""",
        ),
        by=("conservation", "no-pod-lost", "for no attempt", "victims-needed"),
    ),
    Bug(
        "foreign-pods-ignored",
        "services.placement.core.books.facts",
        edit(
            """
        _assign(state, event)
    if state.unsettled:
""",
            """
        if not state.ledger.kind_of(unpack(event.ids).item(0)):
            return
        _assign(state, event)
    if state.unsettled:
""",
        ),
        by=("no-over-commit",),
    ),
    Bug(
        "failed-reservation-kept",
        "services.placement.core.placing.dispatches",
        edit(
            """
        state.failed[pod] = None
""",
            """
        state.ledger.kind[state.ledger.row(pod)] = State.RESERVED
""",
        ),
        by=("conservation",),
    ),
    Bug(
        "over-commit-by-one",
        "shared.scheduling.table.table",
        edit(
            """
            amounts[self.resources[name]] = min(float(amount), SCORED_MAX if scored else AMOUNT_MAX)
""",
            """
            amount += name == PODS
            amounts[self.resources[name]] = min(float(amount), SCORED_MAX if scored else AMOUNT_MAX)
""",
        ),
        by=("no-over-commit",),
    ),
    Bug(
        "cordon-not-noticed",
        "shared.scheduling.table.table",
        edit(
            """
            self._static_changed()

    def _append
""",
            """
            pass

    def _append
""",
        ),
        by=("replay", "hard-constraints"),
        first=(6,),
    ),
    Bug(
        "remade-node-taken-for-empty",
        "services.placement.core.books.remade_nodes",
        edit(
            """
        if node not in state.nodes and value.name in state.unsettled_on:
""",
            """
        if node < 0:
""",
        ),
        by=("no-over-commit",),
    ),
    Bug(
        "bound-taken-for-the-fact",
        "services.placement.core.placing.dispatches",
        edit(
            """
    if size(event.ids) <= FEW and not state.deferred and not state.failed:
""",
            """
    from services.placement.core.books import remade_nodes

    remade_nodes.settle(state, list(as_numbers(event.ids)))
    if size(event.ids) <= FEW and not state.deferred and not state.failed:
""",
        ),
        by=("no-over-commit",),
        first=(345,),
    ),
    Bug(
        "withheld-for-ever",
        "services.placement.core.books.facts",
        edit(
            """
    if state.unsettled:
        remade_nodes.settle_failed_binds(state, unpack(event.ids), nodes)
""",
            """
""",
        ),
        by=("conservation",),
    ),
)
