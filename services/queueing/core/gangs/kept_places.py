"""Places that gangs keep at shards for lost members: which waiting member gets one.

A single pod of a committed gang is nominated for the place, as a preemptor whose victims have left.
The oldest one that asks for the same goes first, whether it came for the lost member or before.
Members of other gangs are tried together, and find the places by themselves.
"""

import numpy as np

from services.queueing.core.gangs import members
from services.queueing.core.gangs.member_lists import members_in
from services.queueing.core.pods import moves
from services.queueing.core.preemption.asks import MADE_ROOM_FOR
from services.queueing.core.scheduling_queue import enqueue
from services.queueing.core.state import Gang, QueueingState
from services.queueing.core.transitions import Pod
from shared.events.permit import GangCommitted
from shared.events.placement import PlaceKept
from shared.events.queueing import PlaceGiven
from shared.model.columns import I64, unpack
from shared.model.ids import GangId, PodId, SignatureId

TAKERS = (*MADE_ROOM_FOR, Pod.GANG_PENDING)


def on_place_kept(state: QueueingState, event: PlaceKept) -> None:
    """Note the place: a waiting member takes it, or its gang may be tried."""
    state.kept_places[event.ask] = event
    gang = state.gangs.get(event.gang)
    if gang is None:
        return
    if not gang.committed:
        gang.improved = True
        members.touch(state, gang)
    give(state, gang)


def note_committed(state: QueueingState, gang: Gang, event: GangCommitted) -> None:
    """Forget the places that members got together; the others may take the rest."""
    nodes = unpack(event.nodes).tolist()
    for ask, place in sorted(state.kept_places.items()):
        if place.gang == gang.gang and place.node in nodes:
            nodes.remove(place.node)
            del state.kept_places[ask]
    give(state, gang)


def on_place_given(state: QueueingState, event: PlaceGiven) -> None:
    """Forget the place: it is the member's from now on."""
    state.kept_places.pop(event.ask, None)
    state.places_given.pop(event.pod, None)


def give_to(state: QueueingState, ids: I64) -> None:
    """Let the gangs of these waiting pods give them their places."""
    for number in np.unique(state.pods.gang[state.pods.rows(ids)]).tolist():
        gang = state.gangs.get(GangId(number))
        if gang is not None:
            give(state, gang)


def give(state: QueueingState, gang: Gang) -> None:
    """Nominate the gang's waiting members for the places that it keeps."""
    given = set(state.places_given.values())
    places = [one for _ask, one in sorted(state.kept_places.items()) if one.ask not in given]
    places = [one for one in places if one.gang == gang.gang]
    if not (places and gang.committed):
        return
    ids = np.concatenate([members_in(state, gang, code) for code in TAKERS])
    seqs = state.pods.seq[ids - state.pods.base]
    waiting: list[PodId] = ids[seqs.argsort(kind="stable")].tolist()
    for place in places:
        fitting = (pod for pod in waiting if _asks_for(state, pod, place.sig))
        pod = next(fitting, None)
        if pod is not None:
            waiting.remove(pod)
            _nominate(state, pod, place)


def _asks_for(state: QueueingState, pod: PodId, wanted: SignatureId) -> bool:
    """Return whether the pod asks for what a lost one had, as far as is known here."""
    number = SignatureId(state.pods.sig_at[pod - state.pods.base])
    one, other = state.sigs[number], state.sigs.get(wanted)
    return other is None or all(
        getattr(one, name) == getattr(other, name)
        for name in ("pod_priority", "cpu_milli", "memory_bytes", "gpu_milli", "scheduler")
    )


def _nominate(state: QueueingState, pod: PodId, place: PlaceKept) -> None:
    pods, one = state.pods, np.array([pod], np.int64)
    row = pod - pods.base
    is_held_back = pods.state_of(pod) is Pod.GANG_PENDING
    moves.leave(state, one, pods.rows(one))
    if is_held_back:
        enqueue(state, "queued", state.sigs[pods.sig_at[row]], one)
        moves.leave(state, one, pods.rows(one))
    pods.move_one("nomination_ready", row)
    state.nominated[pod] = place.shard
    state.places_given[pod] = place.ask
