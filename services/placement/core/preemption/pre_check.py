"""A cheap check before a dry run: could preemption help at all?"""

from services.placement.core.books.charges import compiled
from services.placement.core.state import PlacementState
from shared.model.ids import SignatureId
from shared.scheduling.table.layout import NominatedPods
from shared.scheduling.table.table import NodeTable


def may_help(
    state: PlacementState, sig: SignatureId, nominated_pods: NominatedPods | None, resolvable: int
) -> bool:
    """Return whether the profile preempts and one of the `resolvable` nodes has a pod of lower
    priority. Users' plugins are asked in any case.
    """
    if compiled(state, sig).plugins.post_filters:
        return True
    if not resolvable or not compiled(state, sig).plugins.profile.preempts:
        return False
    return has_lower_priority_pod(state, state.table, sig, nominated_pods)


def has_lower_priority_pod(
    state: PlacementState, table: NodeTable, sig: SignatureId, nominated_pods: NominatedPods | None
) -> bool:
    """Return whether a node that could be made to fit has a pod of lower priority."""
    priority = state.specs[sig].priority
    lower = [counts for level, counts in sorted(state.levels.items()) if level < priority]
    if not any(counts.any() for counts in lower):
        return False
    rows = state.kernel.resolvable_rows(table, compiled(state, sig), nominated_pods)
    nodes = table.ids[rows]
    return any(bool(counts[nodes[nodes < len(counts)]].any()) for counts in lower)
