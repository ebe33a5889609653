"""Nodes created again under a name to which a bind of ours may still be under way.

A bind names its node by name only. When a node is deleted and another one with the same name comes
(new uid, new id), a bind to the old node may land on the new one, which the books would take for
empty. So the pods decided for a deleted node are remembered by its name, and a new node with that
name is withheld (no pod is placed on it, no sum includes it) until each of them is settled:

- PodsAssigned: the pod has a node and keeps it. If that is the withheld node it is a stray, charged
  when the node is let in. The event may be another shard's.
- PodsGone: nothing can be bound any more.
- BindFailed for the deleted node: no bind to it can land, or the pod shows another name. Binding
  calls a pod with the name it was sent to bound, whichever node has that name by then.
- The end of its gang's attempt without it: no bind was ever sent.

Bound does not settle: the pod has the name, and only its fact shows which node that is.

No pod stays remembered for ever, so no node is withheld for ever. Binding answers every reservation
with BindFailed or Bound, and permit ends every attempt. After Bound the world journal names the pod
with its node as soon as a node has the name, or says that the pod is deleted; it is one journal, so
had the fact come before NodesGone the pod would have been ASSIGNED and not remembered. Events of
other journals may come before NodesGone: then the pod is FAILED, in no hold, or GONE by then, and
not remembered either. If it is decided again before the failure arrives (its dispatch may overtake
it), it is settled when the new place is remembered in turn.

The memory is each shard's own: ingest gives a node that comes back to the shard that had its name.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from services.placement.core.books.charges import set_nodes
from services.placement.core.books.ledger import I8
from services.placement.core.state import PlacementState, Unsettled
from services.placement.core.transitions import State
from shared.events.ingest import NodesSet
from shared.model.columns import I64, unpack
from shared.model.ids import NO_ATTEMPT, NO_GANG, AttemptId, GangAttempt, GangId, NodeId, PodId
from shared.model.objects import Node

MAY_LAND = (State.RESERVED, State.HELD, State.BOUND)
"""States of pods that were decided and not yet confirmed by a fact."""


def may_land(state: PlacementState, rows: I64, before: I8) -> list[tuple[PodId, Unsettled]]:
    """Return the pods to remember of nodes that are deleted now, by their states before; called
    before the rows are cleared and the nodes forgotten.
    """
    ledger = state.ledger
    chosen = np.isin(before, MAY_LAND)
    holds: dict[PodId, GangAttempt] = {}
    if (before == State.HELD).any():
        for key, ids in sorted(state.holds.items()):
            holds.update(dict.fromkeys(ids.tolist(), key))
    found = []
    for row, kind in zip(rows[chosen].tolist(), before[chosen].tolist(), strict=True):
        pod, node = ledger.pod_at(row), ledger.node_at(row)
        is_held = kind == State.HELD
        assert not is_held or pod in holds, f"pod {pod} is held on node {node}, for no attempt"
        gang, attempt = holds[pod] if is_held else (NO_GANG, NO_ATTEMPT)
        found.append((pod, Unsettled(state.nodes[node].name, node, gang, attempt)))
    return found


def remember(state: PlacementState, pods: list[tuple[PodId, Unsettled]]) -> None:
    """Remember pods that must be settled before a node with their node's name is let in."""
    settle(state, [pod for pod, _one in pods])
    for pod, one in pods:
        state.unsettled[pod] = one
        state.unsettled_on[one.name] = state.unsettled_on.get(one.name, 0) + 1


def withhold(state: PlacementState, event: NodesSet) -> tuple[list[NodeId], Sequence[Node]]:
    """Withhold new nodes whose names pods may still be bound to; return the others."""
    ids, nodes = [], []
    for node, value in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
        if node not in state.nodes and value.name in state.unsettled_on:
            state.withheld[node] = value
        else:
            ids.append(node)
            nodes.append(value)
    return ids, nodes


def settle_failed_binds(state: PlacementState, ids: I64, nodes: I64 | None) -> None:
    """Settle pods whose binds failed. A pod may be remembered for another node than the
    failed one.
    """
    targets = [0] * len(ids) if nodes is None else nodes.tolist()
    over = []
    for pod, node in zip(ids.tolist(), targets, strict=True):
        one = state.unsettled.get(pod)
        if one is not None and node in (0, one.node):
            over.append(pod)
    settle(state, over)


def settle_attempt(
    state: PlacementState, gang: GangId, attempt: AttemptId, committed: Iterable[PodId]
) -> None:
    """End an attempt: the binds of committed members may start now, the others have none."""
    sent = set(committed)
    over = []
    for pod, one in sorted(state.unsettled.items()):
        if (one.gang, one.attempt) != (gang, attempt):
            continue
        if pod in sent:
            one.gang, one.attempt = NO_GANG, NO_ATTEMPT
        else:
            over.append(pod)
    settle(state, over)


def settle(state: PlacementState, pods: list[PodId]) -> None:
    """Settle pods with no bind under way: nodes that waited only for them are let in as if they
    came now.
    """
    free: set[str] = set()
    for pod in pods:
        one = state.unsettled.pop(pod, None)
        if one is None:
            continue
        left = state.unsettled_on.pop(one.name) - 1
        if left:
            state.unsettled_on[one.name] = left
        else:
            free.add(one.name)
    if free and state.withheld:
        ids = [node for node, value in sorted(state.withheld.items()) if value.name in free]
        set_nodes(state, ids, [state.withheld.pop(node) for node in ids])
