"""Nodes that were made again under a name to which a bind of ours may still be on its way.

A bind names its node by name alone. When a node goes and another comes under its name (a new uid,
so a new id), a bind to the old one may land on the new one, which the books would take for empty.
So the pods decided for a node that goes are remembered by its name, and a node that comes under
that name is withheld (nothing is chosen for it, nobody counts it) until each of them is settled:

- PodsAssigned: it has a node, and keeps it. On the withheld node itself it is a stray, which is
  charged when the node is let in. The event may be another shard's.
- PodsGone: nothing can be bound any more.
- BindFailed for the node that went: no bind of it can land, or it shows another name. Binding
  calls a pod that has the name it was sent to bound, whatever node has that name by then.
- the end of its gang's attempt without it: nothing was ever sent.

Bound does not settle: the pod has the name, and where that is only its fact tells.

No pod stays remembered for ever, so no node is withheld for ever. Binding answers every
reservation, with BindFailed or with Bound, and permit ends every attempt. After Bound the world
journal names the pod with its node, as soon as a node has the name, or says that it is gone; it is
one journal, so had the fact come before NodesGone the pod would have been ASSIGNED and not be
remembered. What other journals say may come before NodesGone: then the pod is FAILED, or in no
hold, or GONE by then, and not remembered either. Should it be decided anew before the failure is
here (its dispatch may overtake it), it is settled when the new place is remembered in its turn.

The memory is each shard's own: ingest gives a node that comes back to the shard its name was in.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from services.placement.core.books.charges import set_nodes
from services.placement.core.books.ledger import I8
from services.placement.core.state import PlacementState, Unsettled
from services.placement.core.transitions import State
from shared.events.ingest import NodesSet
from shared.model.columns import I64, unpack
from shared.model.objects import Node

MAY_LAND = (State.RESERVED, State.HELD, State.BOUND)
"""States of pods that were decided, and of which no fact has come."""


def may_land(state: PlacementState, rows: I64, before: I8) -> list[tuple[int, Unsettled]]:
    """Pods to be remembered of nodes that go now, by the states that they were in; asked before
    the rows are cleared and the nodes forgotten.
    """
    ledger = state.ledger
    chosen = np.isin(before, MAY_LAND)
    holds: dict[int, tuple[int, int]] = {}
    if (before == State.HELD).any():
        for key, ids in sorted(state.holds.items()):
            holds.update(dict.fromkeys(ids.tolist(), key))
    found = []
    for row, kind in zip(rows[chosen].tolist(), before[chosen].tolist(), strict=True):
        pod, node = row + ledger.base, int(ledger.node[row])
        is_held = kind == State.HELD
        assert not is_held or pod in holds, f"pod {pod} is held on node {node}, for no attempt"
        gang, attempt = holds[pod] if is_held else (0, 0)
        found.append((pod, Unsettled(state.nodes[node].name, node, gang, attempt)))
    return found


def remember(state: PlacementState, pods: list[tuple[int, Unsettled]]) -> None:
    """These are to be settled before a node of their node's name is let in."""
    settled(state, [pod for pod, _one in pods])
    for pod, one in pods:
        state.unsettled[pod] = one
        state.unsettled_on[one.name] = state.unsettled_on.get(one.name, 0) + 1


def withhold(state: PlacementState, event: NodesSet) -> tuple[list[int], Sequence[Node]]:
    """Keep back new nodes whose names pods may still be bound to; returns the others."""
    ids, nodes = [], []
    for node, value in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
        if node not in state.nodes and value.name in state.unsettled_on:
            state.withheld[node] = value
        else:
            ids.append(node)
            nodes.append(value)
    return ids, nodes


def bind_failed(state: PlacementState, ids: I64, nodes: I64 | None) -> None:
    """Binds came to nothing; a pod may be remembered for another node than the one that failed."""
    targets = [0] * len(ids) if nodes is None else nodes.tolist()
    over = []
    for pod, node in zip(ids.tolist(), targets, strict=True):
        one = state.unsettled.get(pod)
        if one is not None and node in (0, one.node):
            over.append(pod)
    settled(state, over)


def attempt_over(state: PlacementState, gang: int, attempt: int, committed: Iterable[int]) -> None:
    """An attempt ended: the binds of these members may start now, the others have none."""
    sent = set(committed)
    over = []
    for pod, one in sorted(state.unsettled.items()):
        if (one.gang, one.attempt) != (gang, attempt):
            continue
        if pod in sent:
            one.gang = one.attempt = 0
        else:
            over.append(pod)
    settled(state, over)


def settled(state: PlacementState, pods: list[int]) -> None:
    """No bind of these is on its way any more: nodes that waited for the last one are let in, as
    if they came now.
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


def dump_unsettled(state: PlacementState) -> list[object]:
    """Plain values by pod."""
    return [
        [pod, one.name, one.node, one.gang, one.attempt]
        for pod, one in sorted(state.unsettled.items())
    ]


def load_unsettled(state: PlacementState, body: Iterable[list[object]]) -> None:
    """Inverse of `dump_unsettled`."""
    remember(state, [(pod, Unsettled(*rest)) for pod, *rest in body])  # type: ignore[misc,arg-type]
