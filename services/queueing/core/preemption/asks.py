"""A parked pod and preemption: it asks, waits for victims, and is tried in the freed space.

Shards and preemption use different journals, so an ask may have ended before its opening is read
here; the highest ended ask tells.
"""

from heapq import heappop, heappush

import numpy as np

from services.queueing.core.config import (
    ASK_AGAIN_MS,
    ASK_PODS_MAX,
    ASK_SIGS_MAX,
    ASKS_KEPT_MIN,
    ASKS_OPEN_MAX,
    VAIN_ASK_AGAIN_MS,
    backoff_end_ms,
)
from services.queueing.core.inputs.own_events import parked_ids
from services.queueing.core.pods import moves
from services.queueing.core.preemption import leaving_victims
from services.queueing.core.state import Ask, QueueingState, Sig, add_pods
from services.queueing.core.transitions import Pod
from shared.events.placement import NominationLost, NominationReady
from shared.events.preemption import PreemptionClosed, PreemptionOpened
from shared.events.queueing import PreemptAsked
from shared.model.columns import I64, pack, unpack
from shared.model.ids import NO_ASK, AskId, GangId, PodId, SignatureId

MADE_ROOM_FOR = (Pod.ASKING, Pod.PREEMPTING, Pod.PARKED, Pod.BACKOFF, Pod.READY, Pod.LEFTOVER)


AGAIN_MS_MIN = 100
"""The shards' clocks may be behind by so much when a protection ends."""


def _one(pod: PodId) -> I64:
    return np.array([pod], np.int64)


def on_preempt_asked(state: QueueingState, event: PreemptAsked) -> None:
    """Keep the pods parked, whatever improves, until preemption answers."""
    pods, ids = state.pods, np.concatenate((_one(event.pod), unpack(event.others)))
    rows = pods.rows(ids)
    moves.leave(state, ids, rows)
    pods.move("preempt_asked", ids, rows)
    for pod in ids.tolist():
        before = state.asks.get(pod)
        state.room.pop(pod, None)
        state.asks[pod] = Ask(event.sig, before.ended if before is not None else NO_ASK)
    sig = state.sigs[event.sig]
    add_pods(state.askers, event.sig, ids.tolist())
    state.refresh(sig)
    if len(state.asks) > state.asks_max:
        state.asks = {pod: state.asks[pod] for pod in state.asks if lives(state, pod)}
        state.asks_max = max(ASKS_KEPT_MIN, 2 * len(state.asks))


def lives(state: QueueingState, pod: PodId) -> bool:
    """Return whether the pod is not finished."""
    return state.pods.state_of(pod) < Pod.BOUND


def _open_ask(state: QueueingState, pod: PodId, ask: AskId) -> Ask | None:
    """Return the pod's record, unless this ask is known to have ended."""
    known = state.asks.get(pod)
    return known if known is not None and ask > known.ended and lives(state, pod) else None


def on_preemption_opened(state: QueueingState, event: PreemptionOpened) -> None:
    """Note that victims are leaving for this pod."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is not None and state.pods.state_of(event.pod) is Pod.ASKING:
        moves.leave_asking(state, [event.pod])
        state.leaving[event.pod] = None
        state.vain_asks.pop(ask.sig, None)
        leaving_victims.wait(state, "preemption_opened", _one(event.pod))
        if event.message and ask.sig == state.pods.sig_at[event.pod - state.pods.base]:
            state.victims_texts[event.pod] = event.message
            state.untold[event.pod] = None


def on_preemption_closed(state: QueueingState, event: PreemptionClosed) -> None:
    """End an ask without victims, or whose victims did not leave: the pod waits like others, or
    retries.
    """
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    _end_ask(state, ask, event.pod, event.ask)
    pods, one = state.pods, _one(event.pod)
    code = pods.state_of(event.pod)
    if code is Pod.PREEMPTING:
        moves.back_off(state, one)
    elif code is Pod.ASKING and pods.sig_at[event.pod - pods.base] != ask.sig:
        moves.leave(state, one, pods.rows(one))
        moves.rejoin(state, one)
    elif code is Pod.ASKING and not event.message:
        # Others were faster each round: that does not mean that there are no victims. Like an error
        # it is not retried at once when nothing else is tried: another nomination may be in the
        # way for minutes.
        moves.back_off(state, one, is_error=True)
    elif code is Pod.ASKING:
        _note_no_victims(state, state.sigs[ask.sig], event.message)
        if event.again_ms:
            state.protected_until_ms[ask.sig] = max(event.again_ms, state.now_ms + AGAIN_MS_MIN)
        state.closed_asks[event.pod] = None


def _note_no_victims(state: QueueingState, sig: Sig, message: str) -> None:
    """Note the answer for all equal pods: none of them asks before it is parked again. Only bound
    pods can be victims, so while pods are being bound the question is worth repeating.
    """
    sig.note = message
    if state.quota is not None and state.quota.may_claim(sig.queue):
        # Their victims depend on what all queues use. So they ask again when that changes, but
        # each time after a longer wait.
        asks = state.vain_asks[sig.sig] = state.vain_asks.get(sig.sig, 0) + 1
        sig.ask_ms = state.now_ms + min(ASK_AGAIN_MS << min(asks - 1, 30), VAIN_ASK_AGAIN_MS)
        state.asked_in_vain[sig.sig] = None
        return
    binding = state.pods.counts[Pod.RESERVED] or state.now_ms < state.rate.at_ms + ASK_AGAIN_MS
    if binding:
        sig.ask_ms = state.now_ms + ASK_AGAIN_MS
        return
    if sig.askable:
        ids = parked_ids(state, sig)
        state.pods.askable[state.pods.rows(ids)] = 0
        sig.askable = 0
        state.refresh(sig)


def on_nomination_ready(state: QueueingState, event: NominationReady) -> None:
    """Note that the last victim left: the pod is tried at that shard before all others."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    code, was_leaving = state.pods.state_of(event.pod), event.pod in state.leaving
    _end_ask(state, ask, event.pod, event.ask)
    if code in MADE_ROOM_FOR:
        _nominate(state, event.pod, event.shard)
    elif code is Pod.IN_FLIGHT and was_leaving:
        state.room[event.pod] = event.shard


def _nominate(state: QueueingState, pod: PodId, shard: int) -> None:
    """Put the pod next in line at that shard; a member of a gang that has fallen waits for it."""
    one = _one(pod)
    moves.leave(state, one, state.pods.rows(one))
    gang = state.gangs.get(GangId(state.pods.gang.item(pod - state.pods.base)))
    if gang is not None and not gang.committed:
        state.pods.attempt[pod - state.pods.base] = 0
        moves.requeue(state, one)
        return
    state.pods.move_one("nomination_ready", pod - state.pods.base)
    state.nominated[pod] = shard


def try_freed_node(state: QueueingState, ids: I64) -> None:
    """Try the leftovers for which room was made meanwhile at that shard."""
    for pod in ids.tolist():
        shard = state.room.pop(pod, None)
        if shard is not None:
            _nominate(state, pod, shard)


def _end_ask(state: QueueingState, ask: Ask, pod: PodId, number: AskId) -> None:
    """End an ask: no victims leave for the pod any more."""
    ask.ended = number
    leaving_victims.forget(state, (pod,))


def on_nomination_lost(state: QueueingState, event: NominationLost) -> None:
    """Note the lost space; the pod is tried again after a backoff."""
    state.kept_places.pop(event.ask, None)
    if event.refused and lives(state, event.pod):
        _not_at_once(state, event.pod)
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    _end_ask(state, ask, event.pod, event.ask)
    if state.pods.state_of(event.pod) in (Pod.ASKING, Pod.PREEMPTING):
        moves.back_off(state, _one(event.pod))


def _not_at_once(state: QueueingState, pod: PodId) -> None:
    """Delay the next ask of a pod whose freed room extenders refuse until its backoff ends.
    kube-scheduler tries it no earlier either.
    """
    pods, row = state.pods, pod - state.pods.base
    sig = state.sigs[pods.sig_at[row]]
    sig.ask_ms = backoff_end_ms(state.config, state.now_ms, int(pods.refusals[row]))


def decide_ask(state: QueueingState) -> PreemptAsked | None:
    """Return the ask for the signature of highest priority, with its oldest pods, or None."""
    room = min(_room(state), ASK_PODS_MAX)
    sig = _first(state) if room > 0 else None
    if sig is None:
        return None
    pods = state.pods
    ids = pods.known(np.frombuffer(sig.parked, np.int64).copy())
    rows = ids - pods.base
    parked = (pods.state[rows] == Pod.PARKED) & (pods.sig[rows] == sig.sig)
    if sig.queue and state.quota is not None:
        room = min(room, state.quota.room(sig.queue, sig.amounts))
    askable = np.unique(ids[parked & (pods.askable[rows] == 1)])[:room]
    pod = PodId(askable.item(0))
    attempt = pods.attempt_at[pod - pods.base]
    claiming = _claiming(state, sig, len(askable))
    others = pack(askable[1 : claiming or None])
    asked = pod, sig.sig, attempt, others, sig.priority
    if state.quota is None or not state.quota.has_guarantees:
        return PreemptAsked(*asked)
    return PreemptAsked(*asked, sig.queue, sig.amounts, claiming > 0)


def _claiming(state: QueueingState, sig: Sig, count: int) -> int:
    """Return how many of `count` more pods are within what their queue is guaranteed together."""
    quota, also, found = state.quota, dict[str, dict[str, int]](), 0
    if quota is not None and quota.may_claim(sig.queue):
        for pod in state.leaving:
            # Ready pods with leaving victims count nowhere else.
            other = state.sigs[state.pods.sig_at[pod - state.pods.base]]
            if pod not in quota.nominees and pod not in state.charged:
                quota.add(also, other.queue, other.amounts, 1)
        while found < count and quota.claims(sig.queue, sig.amounts, also):
            quota.add(also, sig.queue, sig.amounts, 1)
            found += 1
    return found


def next_ask_ms(state: QueueingState) -> int | None:
    """Return when the next ask may be made, ms."""
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
    """Return the signature of highest priority, then the oldest, that may ask now."""
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


def _wanting(state: QueueingState, number: SignatureId) -> Sig | None:
    """Return the signature if it has pods that want to ask; None means that its entry
    is dropped.
    """
    sig = state.sigs.get(number)
    if sig is None or not sig.askable or number in state.askers:
        del state.ask_next[number]
        return None
    quota = state.quota
    if sig.queue and quota is not None and not quota.room(sig.queue, sig.amounts):
        # Victims would make room that its queue may not use.
        quota.held_asks[number] = None
        del state.ask_next[number]
        return None
    if quota is not None and number in state.asked_in_vain:
        quota.vain_asks[number] = None
        del state.ask_next[number]
        return None
    return sig


def _room(state: QueueingState) -> int:
    """Return for how many more pods preemption may be asked now."""
    counts = state.pods.counts
    if len(state.askers) >= ASK_SIGS_MAX:
        return 0
    return ASKS_OPEN_MAX - counts[Pod.ASKING] - len(state.leaving)
