"""A parked pod's dealings with preemption: asked, waits for victims, tried in the freed space.

Shards and preemption speak in different journals, so an ask may be over before its opening is
read here; the highest ask known to be over tells.
"""

from heapq import heappop, heappush

import numpy as np

from services.queueing.core.config import (
    ASK_AGAIN_MS,
    ASK_PODS_MAX,
    ASK_SIGS_MAX,
    ASKS_KEPT_MIN,
    ASKS_OPEN_MAX,
    backoff_end_ms,
)
from services.queueing.core.inputs.own_events import parked_ids
from services.queueing.core.pods import moves
from services.queueing.core.preemption import leaving_victims
from services.queueing.core.state import Ask, QueueingState, Sig, put
from services.queueing.core.transitions import Pod
from shared.events.placement import NominationLost, NominationReady
from shared.events.preemption import PreemptionClosed, PreemptionOpened
from shared.events.queueing import PreemptAsked
from shared.model.columns import I64, pack, unpack

MADE_ROOM_FOR = (Pod.ASKING, Pod.PREEMPTING, Pod.PARKED, Pod.BACKOFF, Pod.READY, Pod.LEFT)


def _one(pod: int) -> I64:
    return np.array([pod], np.int64)


def asked(state: QueueingState, event: PreemptAsked) -> None:
    """The pods stay parked, whatever improves, until preemption answers."""
    pods, ids = state.pods, np.concatenate((_one(event.pod), unpack(event.others)))
    rows = pods.rows(ids)
    moves.leave(state, ids, rows)
    pods.move("preempt_asked", ids, rows)
    for pod in ids.tolist():
        before = state.asks.get(pod)
        state.room.pop(pod, None)
        state.asks[pod] = Ask(event.sig, before.ended if before is not None else 0)
    sig = state.sigs[event.sig]
    put(state.askers, event.sig, ids.tolist())
    state.refresh(sig)
    if len(state.asks) > state.asks_max:
        state.asks = {pod: state.asks[pod] for pod in state.asks if lives(state, pod)}
        state.asks_max = max(ASKS_KEPT_MIN, 2 * len(state.asks))


def lives(state: QueueingState, pod: int) -> bool:
    """Whether the pod's story is not over."""
    return state.pods.state_of(pod) < Pod.BOUND


def _open_ask(state: QueueingState, pod: int, ask: int) -> Ask | None:
    """The pod's record, unless this ask is known to be over."""
    known = state.asks.get(pod)
    return known if known is not None and ask > known.ended and lives(state, pod) else None


def opened(state: QueueingState, event: PreemptionOpened) -> None:
    """Victims are leaving for this pod."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is not None and state.pods.state_of(event.pod) is Pod.ASKING:
        moves.leave_asking(state, [event.pod])
        state.leaving[event.pod] = None
        leaving_victims.wait(state, "preemption_opened", _one(event.pod))


def closed(state: QueueingState, event: PreemptionClosed) -> None:
    """Nobody can go for this pod, or those who should did not: it waits like others, or retries."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    _over(state, ask, event.pod, event.ask)
    pods, one = state.pods, _one(event.pod)
    code = pods.state_of(event.pod)
    if code is Pod.PREEMPTING:
        moves.back_off(state, one)
    elif code is Pod.ASKING and int(pods.sig[event.pod - pods.base]) != ask.sig:
        moves.leave(state, one, pods.rows(one))
        moves.rejoin(state, one)
    elif code is Pod.ASKING and not event.message:
        # Others were quicker each round: nothing says that nobody can go.
        moves.back_off(state, one)
    elif code is Pod.ASKING:
        _nobody(state, state.sigs[ask.sig], event.message)
        state.closed[event.pod] = None


def _nobody(state: QueueingState, sig: Sig, message: str) -> None:
    """Its equals would get the same answer: none of them asks before it is parked again. Only
    bound pods can be victims, so while pods are being bound the same question is worth repeating.
    """
    sig.note = message
    binding = state.pods.counts[Pod.RESERVED] or state.now_ms < state.rate.at_ms + ASK_AGAIN_MS
    if binding:
        sig.ask_ms = state.now_ms + ASK_AGAIN_MS
        return
    if sig.askable:
        ids = parked_ids(state, sig)
        state.pods.askable[state.pods.rows(ids)] = 0
        sig.askable = 0
        state.refresh(sig)


def ready(state: QueueingState, event: NominationReady) -> None:
    """The last victim left: the pod is tried at that shard before all others."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    code, was_leaving = state.pods.state_of(event.pod), event.pod in state.leaving
    _over(state, ask, event.pod, event.ask)
    if code in MADE_ROOM_FOR:
        _nominate(state, event.pod, event.shard)
    elif code is Pod.IN_FLIGHT and was_leaving:
        state.room[event.pod] = event.shard


def _nominate(state: QueueingState, pod: int, shard: int) -> None:
    """It is tried at that shard next."""
    one = _one(pod)
    moves.leave(state, one, state.pods.rows(one))
    state.pods.move_one("nomination_ready", pod - state.pods.base)
    state.nominated[pod] = shard


def refused(state: QueueingState, ids: I64) -> None:
    """Those of these leftovers for whom room was made meanwhile are tried there."""
    for pod in ids.tolist():
        shard = state.room.pop(pod, None)
        if shard is not None:
            _nominate(state, pod, shard)


def _over(state: QueueingState, ask: Ask, pod: int, number: int) -> None:
    """An ask is: nobody leaves for the pod any more."""
    ask.ended = number
    leaving_victims.forget(state, (pod,))


def lost(state: QueueingState, event: NominationLost) -> None:
    """The space is gone; the pod is tried again after a backoff."""
    if event.refused and lives(state, event.pod):
        _not_at_once(state, event.pod)
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    _over(state, ask, event.pod, event.ask)
    if state.pods.state_of(event.pod) in (Pod.ASKING, Pod.PREEMPTING):
        moves.back_off(state, _one(event.pod))


def _not_at_once(state: QueueingState, pod: int) -> None:
    """Extenders refuse it the room that was made: nobody else goes for it before the backoff is
    over that its last refusal asks for. In kube-scheduler it is tried no earlier than that, either.
    """
    pods, row = state.pods, pod - state.pods.base
    sig = state.sigs[int(pods.sig[row])]
    sig.ask_ms = backoff_end_ms(state.config, state.now_ms, int(pods.refusals[row]))


def next_ask(state: QueueingState) -> PreemptAsked | None:
    """The signature of highest priority with pods to ask for; its oldest such pods."""
    room = min(_room(state), ASK_PODS_MAX)
    sig = _first(state) if room > 0 else None
    if sig is None:
        return None
    pods = state.pods
    ids = pods.known(np.frombuffer(sig.parked, np.int64).copy())
    rows = ids - pods.base
    parked = (pods.state[rows] == Pod.PARKED) & (pods.sig[rows] == sig.sig)
    askable = np.unique(ids[parked & (pods.askable[rows] == 1)])[:room]
    pod = int(askable[0])
    attempt = int(pods.attempt[pod - pods.base])
    return PreemptAsked(pod, sig.sig, attempt, pack(askable[1:]), sig.priority)


def next_ask_ms(state: QueueingState) -> int | None:
    """When the next ask may be made."""
    if _room(state) <= 0:
        return None
    if _first(state) is not None:
        return state.now_ms
    later = state.ask_later
    while later:
        at_ms, number = later[0]
        sig = _wanting(state, number)
        if sig is not None and sig.ask_ms == at_ms:
            return at_ms
        heappop(later)
        if sig is not None:
            heappush(later, (sig.ask_ms, number))
    return None


def _first(state: QueueingState) -> Sig | None:
    """The signature of highest priority, then the oldest, that may be asked for now."""
    due, later = state.ask_due, state.ask_later
    while later and later[0][0] <= state.now_ms:
        sig = _wanting(state, heappop(later)[1])
        if sig is not None:
            heappush(due, (-sig.priority, sig.sig))
    while due:
        sig = _wanting(state, due[0][1])
        if sig is not None and sig.ask_ms <= state.now_ms:
            return sig
        heappop(due)
        if sig is not None:
            heappush(later, (sig.ask_ms, sig.sig))
    return None


def _wanting(state: QueueingState, number: int) -> Sig | None:
    """The signature, if it has pods to ask for; None says that its entry is to be dropped."""
    sig = state.sigs.get(number)
    if sig is None or not sig.askable or number in state.askers:
        del state.ask_next[number]
        return None
    return sig


def _room(state: QueueingState) -> int:
    """For how many more pods preemption may be asked now."""
    counts = state.pods.counts
    if len(state.askers) >= ASK_SIGS_MAX:
        return 0
    return ASKS_OPEN_MAX - counts[Pod.ASKING] - len(state.leaving)
