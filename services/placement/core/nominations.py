"""Nominations of this shard: space promised to a preemptor while its victims leave.

Filter counts a nomination against pods of lower or equal priority (kube-scheduler's two passes:
with and without the nominated pods; every filter here only ever gets stricter with more pods, so
the pass with them implies the other). Score never sees nominations.
"""

from collections.abc import Iterator

import numpy as np

from services.placement.core.book import compiled, forget_if_unused
from services.placement.core.ledger import IS_VICTIM
from services.placement.core.state import Nomination, PlacementState
from shared.events.placement import NominationLost, NominationReady
from shared.framework.between import fits, rules_of
from shared.framework.layout import Held
from shared.framework.scratch import OneNode
from shared.framework.signature import Signature
from shared.framework.static import Static
from shared.model.columns import I64, pack, unpack

NODE_GONE = "the nominated node is gone"
SPACE_LOST = "the nominated space is taken"
POD_GONE = "the nominated pod is gone"


def held_against(state: PlacementState, priority: int, pod: int = 0) -> Held:
    """Nominations that a pod of this priority must leave room for (its own is not in its way)."""
    held: dict[int, list[tuple[Signature, int]]] = {}
    for _ask, one in sorted(state.nominations.items()):
        if one.pod != pod and not one.lost and state.specs[one.sig].priority >= priority:
            held.setdefault(one.node, []).append((compiled(state, one.sig), one.mask))
    return held


def leaving_on(state: PlacementState, node: int) -> set[int]:
    """Victims of nominations on this node that are still there."""
    return {pod for one in state.nominations.values() if one.node == node for pod in one.victims}


def without(state: PlacementState, node: int, pods: set[int]) -> OneNode:
    """A scratch copy of the node after these pods of it left. Pods elsewhere are ignored."""
    table, ledger = state.table, state.ledger
    row = table.row_of(node)
    assert row is not None
    scratch = OneNode(table, row)
    for pod in sorted(pods):
        at = ledger.row(pod)
        if IS_VICTIM[ledger.kind[at]] and int(ledger.node[at]) == node:
            scratch.remove(compiled(state, int(ledger.sig[at])), int(ledger.devices[at]))
    return scratch


def room_for(
    state: PlacementState, pod: int, sig: int, node: int, victims: set[int]
) -> tuple[bool, int]:
    """Whether `pod` fits when its victims and all others already leaving are gone, and with which
    devices.
    """
    wanted = compiled(state, sig)
    row = state.table.row_of(node)
    if row is None:
        return False, 0
    ok = Static(state.table, wanted.spec, wanted.plugins).ok
    if ok is not None and not ok[row]:
        return False, 0
    scratch = without(state, node, victims | leaving_on(state, node))
    for other, mask in held_against(state, state.specs[sig].priority, pod).get(node, ()):
        scratch.hold(other, mask)
    return fits(state.table, wanted, scratch), scratch.pick_devices(wanted)


def nominate(state: PlacementState, ask: int, pod: int, sig: int, node: int, packed: bytes) -> None:
    """Record a nomination that was just validated; an older one of the pod is replaced."""
    drop_of_pod(state, pod)
    victims = [int(victim) for victim in unpack(packed)]
    _fits, mask = room_for(state, pod, sig, node, set(victims))
    state.nominations[ask] = Nomination(ask, pod, sig, node, mask, victims)
    state.nominated[pod] = ask


def pods_came(state: PlacementState, nodes: I64) -> None:
    """Pods of higher priority, or facts, may have taken nominated devices: a nomination that still
    has room keeps it on others.
    """
    on = [one for one in state.nominations.values() if one.mask and not one.lost]
    if not on:
        return
    crowded = set(nodes.tolist())
    for one in sorted(on, key=lambda one: one.ask):
        if one.node in crowded:
            there, mask = room_for(state, one.pod, one.sig, one.node, set(one.victims))
            if there:
                one.mask = mask


def drop(state: PlacementState, ask: int) -> None:
    """Give a nomination back; unknown asks are ignored."""
    one = state.nominations.pop(ask, None)
    state.fit_checked.pop(ask, None)
    if one is None:
        return
    if state.nominated.get(one.pod) == ask:
        del state.nominated[one.pod]
    if one.node in state.nodes and state.refused:
        state.better.add(one.node)
    if one.sig in state.retired:
        forget_if_unused(state, one.sig)
    if one.mask and one.node in state.nodes:
        # Another one may have had to stand where it cannot: these devices are free for it.
        pods_came(state, np.array([one.node], np.int64))


def drop_of_pod(state: PlacementState, pod: int) -> None:
    """The pod found its place, or another nomination."""
    ask = state.nominated.get(pod)
    if ask is not None:
        drop(state, ask)


def pods_left(state: PlacementState, pods: list[int]) -> None:
    """Victims that went bring their nominations nearer; preemptors that went lose theirs."""
    left = set(pods)
    for _ask, one in sorted(state.nominations.items()):
        if one.pod in left:
            one.lost = POD_GONE
        elif one.victims and not left.isdisjoint(one.victims):
            one.victims = [pod for pod in one.victims if pod not in left]


def nodes_left(state: PlacementState, nodes: set[int]) -> None:
    """Nominations on nodes that went are lost."""
    for _ask, one in sorted(state.nominations.items()):
        if one.node in nodes:
            one.lost = NODE_GONE


def still_fits(state: PlacementState, one: Nomination, rivals: tuple[int, ...]) -> bool:
    """Whether the space is still there once the victims are gone; `rivals` are the asks nominated
    on this node. A node is looked at again only when something on it changed; the answer does not
    depend on that.
    """
    table = state.table
    row = table.row_of(one.node)
    if row is None:
        return False
    # Rules between pods may look at pods of other nodes.
    bound = rules_of(table, compiled(state, one.sig)) is not None
    moves = table.counters.moves if bound else 0
    node = (table.changes.restarts, table.static_version, int(table.generation[row]), moves)
    seen = (*node, *rivals)
    if state.fit_checked.get(one.ask) == seen:
        return True
    there, _mask = room_for(state, one.pod, one.sig, one.node, set(one.victims))
    if there:
        state.fit_checked[one.ask] = seen
    return there


def news(state: PlacementState) -> Iterator[NominationReady | NominationLost]:
    """What has to be said about nominations now."""
    rivals: dict[int, tuple[int, ...]] = {}
    for ask in sorted(state.nominations):
        node = state.nominations[ask].node
        rivals[node] = (*rivals.get(node, ()), ask)
    for ask in sorted(state.nominations):
        one = state.nominations[ask]
        reason = one.lost
        if not reason and not still_fits(state, one, rivals[one.node]):
            reason = SPACE_LOST
        if reason:
            yield NominationLost(state.shard, ask, one.pod, reason)
        elif not one.victims and not one.announced:
            yield NominationReady(state.shard, ask, one.pod, one.node)


def dump(state: PlacementState) -> list[object]:
    """Plain values by ask."""
    return [
        [o.ask, o.pod, o.sig, o.node, o.mask, pack(o.victims), o.announced, o.lost]
        for _ask, o in sorted(state.nominations.items())
    ]
