"""A parked pod's dealings with preemption: asked, waits for victims, tried in the freed space.

Shards and preemption speak in different journals, so an ask may be over before its opening is
read here; the highest ask known to be over tells.
"""

import numpy as np

from services.queueing.core import moves
from services.queueing.core.config import ASK_AGAIN_MS, ASKS_OPEN_MAX
from services.queueing.core.own import parked_ids
from services.queueing.core.state import Ask, QueueingState, Sig
from services.queueing.transitions import Pod
from shared.events.placement import NominationLost, NominationReady
from shared.events.preemption import PreemptionClosed, PreemptionOpened
from shared.events.queueing import PreemptAsked
from shared.model.columns import I64

ASKS_KEPT_MAX = 1_024
MADE_ROOM_FOR = (Pod.ASKING, Pod.PREEMPTING, Pod.PARKED, Pod.BACKOFF)


def _one(pod: int) -> I64:
    return np.array([pod], np.int64)


def asked(state: QueueingState, event: PreemptAsked) -> None:
    """The pod stays parked, whatever improves, until preemption answers."""
    pods, one = state.pods, _one(event.pod)
    rows = pods.rows(one)
    moves.leave(state, one, rows)
    pods.move("preempt_asked", one, rows)
    before = state.asks.get(event.pod)
    state.asks[event.pod] = Ask(event.sig, before.ended if before is not None else 0)
    sig = state.sigs[event.sig]
    sig.asking = event.pod
    state.refresh(sig)
    if len(state.asks) > ASKS_KEPT_MAX:
        state.asks = {pod: state.asks[pod] for pod in state.asks if lives(state, pod)}


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
        one = _one(event.pod)
        moves.leave(state, one, state.pods.rows(one))
        state.pods.move("preemption_opened", one, state.pods.rows(one))


def closed(state: QueueingState, event: PreemptionClosed) -> None:
    """Nobody can go for this pod, or those who should did not: it waits like others, or retries."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    ask.ended = event.ask
    pods, one = state.pods, _one(event.pod)
    code = pods.state_of(event.pod)
    if code is Pod.PREEMPTING:
        moves.back_off(state, one)
    elif code is Pod.ASKING and int(pods.sig[event.pod - pods.base]) != ask.sig:
        moves.leave(state, one, pods.rows(one))
        moves.home(state, one)
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
    ids = parked_ids(state, sig)
    if len(ids):
        state.pods.askable[state.pods.rows(ids)] = 0
    sig.askable = 0
    state.refresh(sig)


def ready(state: QueueingState, event: NominationReady) -> None:
    """The last victim left: the pod is tried at that shard before all others."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    ask.ended = event.ask
    if state.pods.state_of(event.pod) in MADE_ROOM_FOR:
        one = _one(event.pod)
        moves.leave(state, one, state.pods.rows(one))
        state.pods.move("nomination_ready", one, state.pods.rows(one))
        state.nominated[event.pod] = event.shard


def lost(state: QueueingState, event: NominationLost) -> None:
    """The space is gone; the pod is tried again after a backoff."""
    ask = _open_ask(state, event.pod, event.ask)
    if ask is None:
        return
    ask.ended = event.ask
    if state.pods.state_of(event.pod) in (Pod.ASKING, Pod.PREEMPTING):
        moves.back_off(state, _one(event.pod))


def next_ask(state: QueueingState) -> PreemptAsked | None:
    """The signature of highest priority with a pod to ask for; its oldest such pod."""
    if not _slot(state):
        return None
    waiting = [state.sigs[sig] for sig in state.ask_next]
    due = [sig for sig in waiting if sig.ask_ms <= state.now_ms]
    if not due:
        return None
    sig = min(due, key=lambda sig: (-sig.priority, sig.sig))
    pods = state.pods
    ids = pods.known(np.frombuffer(sig.parked, np.int64).copy())
    rows = ids - pods.base
    parked = (pods.state[rows] == Pod.PARKED) & (pods.sig[rows] == sig.sig)
    pod = int(ids[parked & (pods.askable[rows] == 1)].min())
    return PreemptAsked(pod, sig.sig, int(pods.attempt[pod - pods.base]))


def next_ask_ms(state: QueueingState) -> int | None:
    """When the next ask may be made."""
    if not _slot(state):
        return None
    return min(state.sigs[sig].ask_ms for sig in state.ask_next)


def _slot(state: QueueingState) -> bool:
    if not state.ask_next:
        return False
    counts = state.pods.counts
    return counts[Pod.ASKING] + counts[Pod.PREEMPTING] < ASKS_OPEN_MAX
