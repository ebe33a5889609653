"""The nominations of this shard: space kept for a preemptor while its victims leave.

Filter counts a nomination against pods of lower or equal priority (kube-scheduler's two passes:
with and without the nominated pods. Every filter here only gets stricter with more pods, so the
pass with them implies the other). Score never sees nominations.

The place of a lost member that its group keeps (gangs/kept_places.py) is a nomination without
victims, which ends at a time.
"""

from bisect import insort
from collections.abc import Collection, Iterable
from typing import TypeVar

import numpy as np

from services.placement.core.books.charges import compiled, forget_if_unused
from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.state import Nomination, PlacementState
from shared.model.columns import I64, unpack
from shared.model.ids import NO_ASK, NO_GANG, NO_POD, AskId, GangId, NodeId, PodId, SignatureId
from shared.model.preemption.queue_limits import is_system
from shared.model.preemption.victims import Nominee
from shared.scheduling.cycle.inter_pod_rules import fits
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.score_classes import static_of
from shared.scheduling.cycle.signature import Signature

Key = TypeVar("Key", NodeId, GangId, PodId)
NewNominatedPods = dict[NodeId, list[tuple[Signature, int]]]
"""A NominatedPods under construction."""

NODE_GONE = "the nominated node is gone"
SPACE_LOST = "the nominated space is taken"
POD_GONE = "the nominated pod is gone"
PLACED = "the nominated pod has a place already"
GANG_PLACED = "the gang has its places"
TIME_OVER = "no replacement came in time"


def nominated_pods_for(
    state: PlacementState,
    priority: int,
    pod: PodId = NO_POD,
    gang: GangId = NO_GANG,
    queue: str = "",
) -> NewNominatedPods:
    """Return the nominations that a pod of this priority, in this `queue`, must leave room for,
    without its own and the places that its `gang` keeps.
    """
    known = (one for _ask, one in sorted(state.nominations.items()))
    return as_nominated_pods(known, state, priority, pod, gang, queue)


def as_nominated_pods(
    nominations: Iterable[Nomination],
    state: PlacementState,
    priority: int,
    pod: PodId,
    gang: GangId = NO_GANG,
    queue: str = "",
) -> NewNominatedPods:
    """Return these nominations, in the order of their asks, as nominated pods by node."""
    nominated_pods: NewNominatedPods = {}
    for one in nominations:
        if gang and one.until_ms and one.gang == gang:
            continue
        if one.pod != pod and one.counts and is_before(state, one, priority, queue):
            nominated_pods.setdefault(one.node, []).append((compiled(state, one.sig), one.mask))
    return nominated_pods


def is_before(state: PlacementState, one: Nomination, priority: int, queue: str) -> bool:
    """Return whether a pod of this priority and queue must leave room for a nomination: by
    priority, or because it claims and the pod is in another queue or in none.
    """
    spec = state.specs[one.sig]
    keeps = one.claims and queue != spec.queue and not is_system(queue, priority)
    return spec.priority >= priority or keeps


def nominations_on(state: PlacementState, node: NodeId) -> list[Nomination]:
    """Return the nominations on a node, by ask."""
    return [state.nominations[ask] for ask in state.nominations_on.get(node, ())]


def leaving_on(state: PlacementState, node: NodeId) -> set[PodId]:
    """Return the victims of nominations on this node that are still there."""
    return {pod for one in nominations_on(state, node) for pod in one.victims}


def left_alone(state: PlacementState, victims: Collection[PodId]) -> list[NodeId]:
    """Return the nodes that some of these victims leave for an ended nomination. They are no
    candidates until the victims are gone: a later nominee must find them gone, and no event
    announces that they will be.
    """
    ledger = state.ledger
    alone = sorted(pod for pod in victims if pod not in state.victims_of)
    here = [pod for pod in alone if IS_VICTIM[ledger.kind_of(pod)]]
    return sorted({ledger.node_at(ledger.row(pod)) for pod in here})


def without(state: PlacementState, node: NodeId, pods: set[PodId]) -> OneNode:
    """Return a scratch copy of the node without these pods. Pods elsewhere are ignored."""
    table, ledger = state.table, state.ledger
    row = table.row_of(node)
    assert row is not None
    scratch = OneNode(table, row)
    for pod in sorted(pods):
        at = ledger.row(pod)
        if ledger.node.item(at) == node and IS_VICTIM.item(ledger.kind.item(at)):
            scratch.remove(compiled(state, ledger.sig_at(at)), ledger.devices.item(at))
    return scratch


def room_for(
    state: PlacementState, pod: PodId, sig: SignatureId, node: NodeId, victims: set[PodId]
) -> tuple[bool, int]:
    """Return whether `pod` fits without its victims and all other leaving pods, and with which
    devices.
    """
    wanted = compiled(state, sig)
    row = state.table.row_of(node)
    if row is None:
        return False, 0
    ok = static_of(state.table, wanted.spec, wanted.plugins).ok
    if ok is not None and not ok[row]:
        return False, 0
    scratch = node_with_nominated(state, pod, sig, node, victims | leaving_on(state, node))
    return fits(state.table, wanted, scratch), scratch.pick_devices(wanted)


def node_with_nominated(
    state: PlacementState,
    pod: PodId,
    sig: SignatureId,
    node: NodeId,
    gone: set[PodId],
    gang: GangId = NO_GANG,
) -> OneNode:
    """Return the node as such a pod, or member of `gang`, sees it: with the nominations there,
    without these pods.
    """
    scratch = without(state, node, gone)
    spec, here = state.specs[sig], nominations_on(state, node)
    nominated_pods = as_nominated_pods(here, state, spec.priority, pod, gang, spec.queue)
    for other, mask in nominated_pods.get(node, ()):
        scratch.add_nominated(other, mask)
    return scratch


def is_in_the_way(state: PlacementState, sig: SignatureId, node: NodeId, mask: int) -> bool:
    """Return whether a pod being tried here now would have to wait for the victims of such a
    nomination first.
    """
    priority = state.specs[sig].priority
    for one in nominations_on(state, node):
        if one.until_ms:
            continue
        if one.announced and one.counts and state.specs[one.sig].priority <= priority:
            scratch = node_with_nominated(state, one.pod, one.sig, node, set())
            scratch.add_nominated(compiled(state, sig), mask)
            if not fits(state.table, compiled(state, one.sig), scratch):
                return True
    return False


def nominate(
    state: PlacementState, one: Nominee, gang: GangId = NO_GANG, claims: bool = False
) -> None:
    """Add a nomination that was just validated; it replaces an older one of the pod."""
    drop_of_pod(state, one.pod)
    victims = unpack(one.victims).tolist()
    mask = 0
    if compiled(state, one.sig).gpu_count:
        mask = room_for(state, one.pod, one.sig, one.node, set(victims))[1]
    place = (one.ask, one.pod, one.sig, one.node, mask, victims)
    add(state, Nomination(*place, gang=gang, claims=claims))


def add(state: PlacementState, one: Nomination) -> None:
    """Add a nomination and everything derived from it."""
    state.nominations[one.ask] = one
    state.nomination_of_pod[one.pod] = one.ask
    insort(state.nominations_on.setdefault(one.node, []), one.ask)
    if one.gang:
        insort(state.nominations_of.setdefault(one.gang, []), one.ask)
    if one.until_ms:
        state.kept_places.add(one.ask)
    for victim in one.victims:
        state.victims_of.setdefault(victim, []).append(one.ask)
    if not one.victims or len(state.nominations_on[one.node]) > 1:
        state.changed_nomination_nodes.add(one.node)  # alone it was just found to fit


def note_pods_added(state: PlacementState, nodes: I64) -> None:
    """Note new pods: those of higher priority, or facts, may have taken nominated devices. A
    nomination that still has room moves to other devices.
    """
    crowded = np.unique(nodes).tolist() if len(nodes) > 1 else nodes.tolist()
    for one in [one for node in crowded for one in nominations_on(state, node)]:
        if one.mask and one.counts:
            there, mask = room_for(state, one.pod, one.sig, one.node, set(one.victims))
            if there:
                one.mask = mask


def drop(state: PlacementState, ask: AskId) -> None:
    """Release a nomination; unknown asks are ignored."""
    one = state.nominations.pop(ask, None)
    if one is None:
        return
    if state.nomination_of_pod.get(one.pod) == ask:
        del state.nomination_of_pod[one.pod]
    _forget(state.nominations_on, one.node, ask)
    if one.gang:
        _forget(state.nominations_of, one.gang, ask)
    state.kept_places.discard(ask)
    for victim in one.victims:
        _forget(state.victims_of, victim, ask)
    state.changed_nomination_nodes.add(one.node)
    if one.node in state.nodes and state.refused:
        state.improved_nodes.add(one.node)
    if one.sig in state.retired:
        forget_if_unused(state, one.sig)
    if one.mask and one.node in state.nodes:
        # Another nomination may have been impossible here: these devices are free for it.
        note_pods_added(state, np.array([one.node], np.int64))


def _forget(index: dict[Key, list[AskId]], key: Key, ask: AskId) -> None:
    asks = index[key]
    asks.remove(ask)
    if not asks:
        del index[key]


def drop_of_pod(state: PlacementState, pod: PodId) -> None:
    """Drop the nomination of a pod that has a place or a new nomination."""
    ask = state.nomination_of_pod.get(pod)
    if ask is not None:
        drop(state, ask)


def note_held_member(
    state: PlacementState, pod: PodId, gang: GangId, sig: SignatureId, node: NodeId
) -> None:
    """Note a held member: it uses one of the gang's own places on the node, if there is one. A
    nomination of the member itself, from before it was in the gang, ends.
    """
    nomination = state.nominations.get(state.nomination_of_pod.get(pod, NO_ASK))
    if nomination is not None and not nomination.gang:
        drop(state, nomination.ask)
    for one in nominations_on(state, node):
        if one.gang == gang and one.counts and are_alike(state, one.sig, sig):
            one.is_used = True
            return


def note_gang_released(state: PlacementState, gang: GangId) -> None:
    """Keep the gang's places again after its holds were released."""
    for one in of_gang(state, gang):
        one.is_used = False
        state.changed_nomination_nodes.add(one.node)


def note_gang_committed(state: PlacementState, gang: GangId) -> None:
    """Drop the places of a committed gang, but not what it keeps for members that are missing."""
    for one in of_gang(state, gang):
        if one.until_ms and not one.is_used:
            continue
        one.lost = one.lost or GANG_PLACED
        state.changed_nomination_nodes.add(one.node)


def end_kept(state: PlacementState, gang: GangId, reason: str) -> None:
    """End the places that a gang keeps for lost members."""
    for one in of_gang(state, gang):
        if one.until_ms:
            one.lost = one.lost or reason
            state.changed_nomination_nodes.add(one.node)


def of_gang(state: PlacementState, gang: GangId) -> list[Nomination]:
    """Return a gang's own places in this shard, by ask."""
    return [state.nominations[ask] for ask in state.nominations_of.get(gang, ())]


def are_alike(state: PlacementState, one: SignatureId, other: SignatureId) -> bool:
    """Return whether pods of one signature may use the place of the other: they differ at most in
    identity.
    """
    specs = state.specs
    return one == other or specs[one].anonymous() == specs[other].anonymous()


def note_placed(state: PlacementState, pod: PodId) -> None:
    """Note a placed pod. If its nomination still waits for victims, it is reported lost, so that
    victims not yet evicted stay.
    """
    one = state.nominations.get(state.nomination_of_pod.get(pod, NO_ASK))
    if one is not None and not one.announced:
        one.lost = one.lost or PLACED
        state.changed_nomination_nodes.add(one.node)
    else:
        drop_of_pod(state, pod)


def note_pods_gone(state: PlacementState, pods: list[PodId]) -> None:
    """Note deleted pods: victims bring their nominations nearer, preemptors lose theirs."""
    for pod in pods:
        if pod in state.nomination_of_pod and state.nomination_of_pod[pod] != kept_ask(pod):
            one = state.nominations[state.nomination_of_pod[pod]]
            one.lost = POD_GONE
            state.changed_nomination_nodes.add(one.node)
        for ask in state.victims_of.pop(pod, ()):
            one = state.nominations[ask]
            one.victims.remove(pod)
            state.changed_nomination_nodes.add(one.node)


def kept_ask(pod: PodId) -> AskId:
    """Return the number of the nomination for the place of a lost member: preemption's are above
    0.
    """
    return AskId(-pod)


def note_nodes_gone(state: PlacementState, nodes: set[NodeId]) -> None:
    """Mark the nominations on deleted nodes as lost."""
    for node in sorted(nodes):
        for one in nominations_on(state, node):
            one.lost = NODE_GONE
            state.changed_nomination_nodes.add(node)


def kept(state: PlacementState) -> list[Nomination]:
    """Return the places kept for lost members, except while one is held for a replacement."""
    found = (state.nominations[ask] for ask in sorted(state.kept_places))
    return [one for one in found if not one.is_used]
