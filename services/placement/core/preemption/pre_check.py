"""A cheap check before a dry run: could preemption help at all?"""

import numpy as np
from numpy.typing import NDArray

from services.placement.core.books.charges import compiled
from services.placement.core.state import PlacementState
from shared.model.columns import I64
from shared.model.ids import SignatureId
from shared.scheduling.table.layout import Mask, NominatedPods
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
    if state.guarantees and state.guarantees.may_claim(state.specs[sig].queue):
        return True  # queueing knows whether it claims
    return has_lower_priority_pod(state, state.table, sig, nominated_pods)


def has_lower_priority_pod(
    state: PlacementState, table: NodeTable, sig: SignatureId, nominated_pods: NominatedPods | None
) -> bool:
    """Return whether a node that could be made to fit has a pod of lower priority."""
    priority = state.specs[sig].priority
    if not any(counts.any() for counts in _lower_counts(state, priority)):
        return False
    rows = state.kernel.resolvable_rows(table, compiled(state, sig), nominated_pods)
    return bool(have_lower_priority_pods(state, table.ids[rows], priority).any())


def have_lower_priority_pods(state: PlacementState, nodes: I64, priority: int) -> Mask:
    """Return which of the nodes have a charged pod of lower priority."""
    found = np.zeros(len(nodes), np.bool_)
    for counts in _lower_counts(state, priority):
        known = np.flatnonzero(nodes < len(counts))
        found[known] |= counts[nodes[known]] > 0
    return found


def _lower_counts(state: PlacementState, priority: int) -> list[NDArray[np.int32]]:
    return [counts for level, counts in sorted(state.levels.items()) if level < priority]
