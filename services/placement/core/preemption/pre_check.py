"""Whether anybody of lower priority could go for a pod at all, before it is tried out who."""

from services.placement.core.books.charges import compiled
from services.placement.core.state import PlacementState
from shared.scheduling.table.layout import Held
from shared.scheduling.table.table import NodeTable


def may_help(state: PlacementState, sig: int, held: Held | None, resolvable: int) -> bool:
    """Whether a node that could be made to fit (there are `resolvable` of them) holds a pod of
    lower priority, and the profile preempts at all. Plugins of users are asked in any case.
    """
    if compiled(state, sig).plugins.post_filters:
        return True
    if not resolvable or not compiled(state, sig).plugins.profile.preempts:
        return False
    return is_somebody_lower(state, state.table, sig, held)


def is_somebody_lower(state: PlacementState, table: NodeTable, sig: int, held: Held | None) -> bool:
    """Whether a node that could be made to fit holds a pod of lower priority."""
    priority = state.specs[sig].priority
    lower = [counts for level, counts in sorted(state.levels.items()) if level < priority]
    if not any(counts.any() for counts in lower):
        return False
    rows = state.kernel.resolvable_rows(table, compiled(state, sig), held)
    nodes = table.ids[rows]
    return any(bool(counts[nodes[nodes < len(counts)]].any()) for counts in lower)
