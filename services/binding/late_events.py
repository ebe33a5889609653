"""Finds binds whose Scheduled event may be missing after a change of owner.

Kubernetes events are in no journal: they wait in the memory of the owner that made the bind and are
lost with it. So a new owner announces the newest binds again, and binds that were under way once
they prove to be made. The cluster's adapter sends one event per pod.
"""

import numpy as np

from services.binding.core.pod_table import FACT, MAYBE, NAMED
from services.binding.core.state import BindingState
from services.binding.core.transitions import Phase
from shared.model.columns import unpack
from shared.model.ids import NodeId, PodId
from shared.ports.cluster import PastBind, PodRef

WITHIN_MS = 3_000_000
"""API servers delete events after an hour and would accept the same one again."""


def newest(state: BindingState) -> list[PastBind]:
    """Return the recent binds."""
    found = [
        _bind(state, pod, node, at_ms)
        for at_ms, ids, nodes in state.recent
        if at_ms > state.now_ms - WITHIN_MS
        for pod, node in zip(unpack(ids).tolist(), unpack(nodes).tolist(), strict=True)
    ]
    return [bind for bind in found if bind is not None]


def doubtful_binds(state: BindingState) -> dict[PodId, NodeId]:
    """Return pods with a bind that may have reached the cluster, and their nodes."""
    table = state.table
    phases, flags = table.phases[: table.used], table.flags[: table.used]
    is_out = (phases != Phase.IDLE) & ((phases == Phase.ASKED) | ((flags & MAYBE) != 0))
    rows = np.flatnonzero(is_out)
    return dict(zip(table.ids[rows].tolist(), table.nodes[rows].tolist(), strict=True))


def settle_doubts(state: BindingState, doubts: dict[PodId, NodeId]) -> list[PastBind]:
    """Return the doubtful binds that were made; settled ones are removed from `doubts`."""
    table, made = state.table, []
    for pod, node in list(doubts.items()):
        row = table.find(pod)
        if row >= 0 and table.phases.item(row) != Phase.IDLE:
            continue
        del doubts[pod]
        if row >= 0 and table.flags.item(row) & FACT and table.nodes.item(row) == node:
            made.append(_bind(state, pod, node, state.now_ms))
    return [bind for bind in made if bind is not None]


def _bind(state: BindingState, pod: PodId, node: NodeId, at_ms: int) -> PastBind | None:
    """Return the bind, or None if the pod or the node is deleted."""
    table, row = state.table, state.table.find(pod)
    name = state.node_names.get(node, "")
    if row < 0 or not name or not table.flags.item(row) & NAMED:
        return None
    chunk, place = table.names[table.chunks.item(row)], table.places.item(row)
    ref = PodRef(chunk.uid_list()[place], chunk.namespace, chunk.name_list()[place])
    return PastBind(ref, name, at_ms)
