"""Bugs in room for gangs with rules over zones: found by the checker in full zones."""

from tests.simulation.planted import Bug

BUGS = (
    Bug(
        "joint-places-not-checked-together",
        "services.placement.core.preemption.in_order",
        ("if self._trial.all_fit(self._members) else None", "if read else []"),
        by=("victims-suffice",),
        first=(4, 14),
    ),
    Bug(
        "joint-places-sought-node-by-node",
        "services.placement.core.preemption.in_order",
        ("return state.shards == 1 and any", "return False and any"),
        by=("victims-suffice",),
        first=(0, 1),
    ),
)
