"""Nominations of this shard: space promised to a preemptor while its victims leave.

Filter counts a nomination against pods of lower or equal priority (kube-scheduler's two passes:
with and without the nominated pods; every filter here only ever gets stricter with more pods, so
the pass with them implies the other). Score never sees nominations.
"""

from bisect import insort
from collections.abc import Collection, Iterable, Iterator

import numpy as np

from services.placement.core.books.charges import compiled, forget_if_unused
from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.state import Nomination, PlacementState, Seen
from shared.events.placement import NominationLost, NominationReady
from shared.model.columns import I64, pack, unpack
from shared.model.victims import Nominee
from shared.scheduling.cycle.inter_pod_rules import fits, rules_of
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.cycle.signature import Signature

NewHeld = dict[int, list[tuple[Signature, int]]]
"""What a `Held` is made as."""

NODE_GONE = "the nominated node is gone"
SPACE_LOST = "the nominated space is taken"
POD_GONE = "the nominated pod is gone"
PLACED = "the nominated pod has a place already"
GANG_PLACED = "the gang has its places"


def held_against(state: PlacementState, priority: int, pod: int = 0) -> NewHeld:
    """Nominations that a pod of this priority must leave room for (its own is not in its way)."""
    return held_by((one for _ask, one in sorted(state.nominations.items())), state, priority, pod)


def held_by(
    nominations: Iterable[Nomination], state: PlacementState, priority: int, pod: int
) -> NewHeld:
    """What these nominations, in the order of their asks, hold against such a pod, by node."""
    held: NewHeld = {}
    for one in nominations:
        if one.pod != pod and one.counts and state.specs[one.sig].priority >= priority:
            held.setdefault(one.node, []).append((compiled(state, one.sig), one.mask))
    return held


def on(state: PlacementState, node: int) -> list[Nomination]:
    """The nominations on a node, by ask."""
    return [state.nominations[ask] for ask in state.nominations_on.get(node, ())]


def leaving_on(state: PlacementState, node: int) -> set[int]:
    """Victims of nominations on this node that are still there."""
    return {pod for one in on(state, node) for pod in one.victims}


def left_alone(state: PlacementState, victims: Collection[int]) -> list[int]:
    """Nodes that some of these leave for a nomination that is no more. Nobody is to go there until
    they have: who is nominated after that must find them gone, and nothing tells that they will be.
    """
    ledger = state.ledger
    alone = sorted(pod for pod in victims if pod not in state.victims_of)
    here = [pod for pod in alone if IS_VICTIM[ledger.kind_of(pod)]]
    return sorted({ledger.node.item(ledger.row(pod)) for pod in here})


def without(state: PlacementState, node: int, pods: set[int]) -> OneNode:
    """A scratch copy of the node after these pods of it left. Pods elsewhere are ignored."""
    table, ledger = state.table, state.ledger
    row = table.row_of(node)
    assert row is not None
    scratch = OneNode(table, row)
    for pod in sorted(pods):
        at = ledger.row(pod)
        if ledger.node.item(at) == node and IS_VICTIM.item(ledger.kind.item(at)):
            scratch.remove(compiled(state, ledger.sig.item(at)), ledger.devices.item(at))
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
    ok = static_of(state.table, wanted.spec, wanted.plugins).ok
    if ok is not None and not ok[row]:
        return False, 0
    scratch = held_on(state, pod, sig, node, victims | leaving_on(state, node))
    return fits(state.table, wanted, scratch), scratch.pick_devices(wanted)


def held_on(state: PlacementState, pod: int, sig: int, node: int, gone: set[int]) -> OneNode:
    """The node as such a pod sees it, with the nominations there, after these pods left."""
    scratch = without(state, node, gone)
    held = held_by(on(state, node), state, state.specs[sig].priority, pod)
    for other, mask in held.get(node, ()):
        scratch.hold(other, mask)
    return scratch


def is_in_the_way(state: PlacementState, sig: int, node: int, mask: int) -> bool:
    """Whether somebody is being tried here now who would have to wait for the victims of such a
    nomination first.
    """
    priority = state.specs[sig].priority
    for one in on(state, node):
        if one.announced and one.counts and state.specs[one.sig].priority <= priority:
            scratch = held_on(state, one.pod, one.sig, node, set())
            scratch.hold(compiled(state, sig), mask)
            if not fits(state.table, compiled(state, one.sig), scratch):
                return True
    return False


def nominate(state: PlacementState, one: Nominee, gang: int = 0) -> None:
    """Record a nomination that was just validated; an older one of the pod is replaced."""
    drop_of_pod(state, one.pod)
    victims = unpack(one.victims).tolist()
    mask = 0
    if compiled(state, one.sig).gpu_count:
        mask = room_for(state, one.pod, one.sig, one.node, set(victims))[1]
    add(state, Nomination(one.ask, one.pod, one.sig, one.node, mask, victims, gang=gang))


def add(state: PlacementState, one: Nomination) -> None:
    """Keep a nomination, and all that is derived from it."""
    state.nominations[one.ask] = one
    state.nominated[one.pod] = one.ask
    insort(state.nominations_on.setdefault(one.node, []), one.ask)
    if one.gang:
        insort(state.nominations_of.setdefault(one.gang, []), one.ask)
    for victim in one.victims:
        state.victims_of.setdefault(victim, []).append(one.ask)
    if not one.victims or len(state.nominations_on[one.node]) > 1:
        state.stirred.add(one.node)  # alone it was just found to fit


def pods_came(state: PlacementState, nodes: I64) -> None:
    """Pods of higher priority, or facts, may have taken nominated devices: a nomination that still
    has room keeps it on others.
    """
    crowded = np.unique(nodes).tolist() if len(nodes) > 1 else nodes.tolist()
    for one in [one for node in crowded for one in on(state, node)]:
        if one.mask and one.counts:
            there, mask = room_for(state, one.pod, one.sig, one.node, set(one.victims))
            if there:
                one.mask = mask


def drop(state: PlacementState, ask: int) -> None:
    """Give a nomination back; unknown asks are ignored."""
    one = state.nominations.pop(ask, None)
    if one is None:
        return
    if state.nominated.get(one.pod) == ask:
        del state.nominated[one.pod]
    _forget(state.nominations_on, one.node, ask)
    if one.gang:
        _forget(state.nominations_of, one.gang, ask)
    for victim in one.victims:
        _forget(state.victims_of, victim, ask)
    state.stirred.add(one.node)
    if one.node in state.nodes and state.refused:
        state.better.add(one.node)
    if one.sig in state.retired:
        forget_if_unused(state, one.sig)
    if one.mask and one.node in state.nodes:
        # Another one may have had to stand where it cannot: these devices are free for it.
        pods_came(state, np.array([one.node], np.int64))


def _forget(index: dict[int, list[int]], key: int, ask: int) -> None:
    asks = index[key]
    asks.remove(ask)
    if not asks:
        del index[key]


def drop_of_pod(state: PlacementState, pod: int) -> None:
    """The pod found its place, or another nomination."""
    ask = state.nominated.get(pod)
    if ask is not None:
        drop(state, ask)


def held_for(state: PlacementState, pod: int, gang: int, sig: int, node: int) -> None:
    """A member is held on a node: in one of the gang's own places, if it has any there. One of its
    own alone, from a time when it was none, is over.
    """
    mine = state.nominations.get(state.nominated.get(pod, 0))
    if mine is not None and not mine.gang:
        drop(state, mine.ask)
    for one in on(state, node):
        if one.gang == gang and one.counts and are_alike(state, one.sig, sig):
            one.is_used = True
            return


def gang_released(state: PlacementState, gang: int) -> None:
    """Nothing is held for the gang any more: its places are kept for it again."""
    for one in of_gang(state, gang):
        one.is_used = False
        state.stirred.add(one.node)


def gang_committed(state: PlacementState, gang: int) -> None:
    """The gang has places, and needs no others."""
    for one in of_gang(state, gang):
        one.lost = one.lost or GANG_PLACED
        state.stirred.add(one.node)


def of_gang(state: PlacementState, gang: int) -> list[Nomination]:
    """A gang's own places in this shard, by ask."""
    return [state.nominations[ask] for ask in state.nominations_of.get(gang, ())]


def are_alike(state: PlacementState, one: int, other: int) -> bool:
    """Whether pods of the one may have the place of the other: they differ in who they are at
    most.
    """
    specs = state.specs
    return one == other or specs[one].anonymous() == specs[other].anonymous()


def placed(state: PlacementState, pod: int) -> None:
    """The pod found its place. A nomination that waits for victims is said to be lost, so that none
    of them goes that is there yet.
    """
    one = state.nominations.get(state.nominated.get(pod, 0))
    if one is not None and not one.announced:
        one.lost = one.lost or PLACED
        state.stirred.add(one.node)
    else:
        drop_of_pod(state, pod)


def pods_left(state: PlacementState, pods: list[int]) -> None:
    """Victims that went bring their nominations nearer; preemptors that went lose theirs."""
    for pod in pods:
        if pod in state.nominated:
            one = state.nominations[state.nominated[pod]]
            one.lost = POD_GONE
            state.stirred.add(one.node)
        for ask in state.victims_of.pop(pod, ()):
            one = state.nominations[ask]
            one.victims.remove(pod)
            state.stirred.add(one.node)


def nodes_left(state: PlacementState, nodes: set[int]) -> None:
    """Nominations on nodes that went are lost."""
    for node in sorted(nodes):
        for one in on(state, node):
            one.lost = NODE_GONE
            state.stirred.add(node)


def still_fits(state: PlacementState, one: Nomination) -> bool:
    """Whether the space is still there once the victims are gone."""
    return room_for(state, one.pod, one.sig, one.node, set(one.victims))[0]


def _fits_now(state: PlacementState, one: Nomination) -> bool:
    """Whether it need not wait for the victims of others there: tried too early it would be
    refused, and have others go in vain (kube-scheduler's PodEligibleToPreemptOthers sees to it).
    """
    if not leaving_on(state, one.node):
        return True
    scratch = held_on(state, one.pod, one.sig, one.node, set())
    return fits(state.table, compiled(state, one.sig), scratch)


def _to_look_at(state: PlacementState) -> list[int]:
    """Asks for which something may have changed since this was called last, ascending: on their
    node, or (rules between pods) anywhere. For the others there is nothing to say.
    """
    table, before = state.table, state.seen
    changes, counters = table.changes, table.counters
    state.seen = Seen(changes.restarts, table.static_version, changes.position, counters.moves)
    stirred, state.stirred = state.stirred, set()
    is_known = before.restarts == changes.restarts and before.statics == table.static_version
    changed = changes.since(before.position) if is_known else None
    if changed is None:
        return sorted(state.nominations)
    stirred.update(table.ids[np.unique(changed)].tolist())
    asks = {ask for node in stirred for ask in state.nominations_on.get(node, ())}
    if before.moves != counters.moves:
        asks.update(ask for ask, one in state.nominations.items() if _has_rules(state, one))
    return sorted(asks)


def _has_rules(state: PlacementState, one: Nomination) -> bool:
    return rules_of(state.table, compiled(state, one.sig)) is not None


def news(state: PlacementState) -> Iterator[NominationReady | NominationLost]:
    """What has to be said about nominations now."""
    for ask in _to_look_at(state):
        one = state.nominations[ask]
        reason = one.lost
        if one.is_used and not reason:
            continue  # until permit says what becomes of its gang
        if not reason and not still_fits(state, one):
            reason = SPACE_LOST
        if reason:
            yield NominationLost(state.shard, ask, one.pod, reason)
        elif not one.victims and not one.announced and _fits_now(state, one):
            yield NominationReady(state.shard, ask, one.pod, one.node)


def dump(state: PlacementState) -> list[object]:
    """Plain values by ask."""
    return [
        [
            *(o.ask, o.pod, o.sig, o.node, o.mask, pack(o.victims), o.announced, o.lost),
            *((o.gang, o.is_used) if o.gang else ()),
        ]
        for _ask, o in sorted(state.nominations.items())
    ]
