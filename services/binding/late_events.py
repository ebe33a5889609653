"""Which binds people may not have been told of when the ownership of binding changes.

Events for people are in no journal: they wait in the memory of whoever made the bind, and die with
it. So a new owner tells of the newest binds again, and of those that were on their way once they
turn out to be made. The cluster's adapter sees to it that nobody hears of a pod twice.
"""

import numpy as np

from services.binding.core.pod_table import FACT, MAYBE, NAMED
from services.binding.core.state import BindingState
from services.binding.core.transitions import Phase
from shared.model.columns import unpack
from shared.ports.cluster import PastBind, PodRef

WITHIN_MS = 3_000_000
"""API servers forget events after an hour, and would take the same one again then."""


def newest(state: BindingState) -> list[PastBind]:
    """Binds of a short while ago."""
    found = [
        _bind(state, pod, node, at_ms)
        for at_ms, ids, nodes in state.recent
        if at_ms > state.now_ms - WITHIN_MS
        for pod, node in zip(unpack(ids).tolist(), unpack(nodes).tolist(), strict=True)
    ]
    return [bind for bind in found if bind is not None]


def doubted(state: BindingState) -> dict[int, int]:
    """Pods with a bind that may have reached the cluster, and their nodes."""
    table = state.table
    phases, flags = table.phases[: table.used], table.flags[: table.used]
    is_out = (phases != Phase.IDLE) & ((phases == Phase.ASKED) | ((flags & MAYBE) != 0))
    rows = np.flatnonzero(is_out)
    return dict(zip(table.ids[rows].tolist(), table.nodes[rows].tolist(), strict=True))


def settled(state: BindingState, doubts: dict[int, int]) -> list[PastBind]:
    """Those of them that were made after all; what is settled either way is in doubt no more."""
    table, made = state.table, []
    for pod, node in list(doubts.items()):
        row = table.find(pod)
        if row >= 0 and table.phases.item(row) != Phase.IDLE:
            continue
        del doubts[pod]
        if row >= 0 and table.flags.item(row) & FACT and table.nodes.item(row) == node:
            made.append(_bind(state, pod, node, state.now_ms))
    return [bind for bind in made if bind is not None]


def _bind(state: BindingState, pod: int, node: int, at_ms: int) -> PastBind | None:
    """None where the pod or the node is gone."""
    table, row = state.table, state.table.find(pod)
    name = state.node_names.get(node, "")
    if row < 0 or not name or not table.flags.item(row) & NAMED:
        return None
    chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
    ref = PodRef(chunk.uid_list()[place], chunk.namespace, chunk.name_list()[place])
    return PastBind(ref, name, at_ms)
