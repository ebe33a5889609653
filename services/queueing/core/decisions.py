"""What queueing decides in a step: gangs' messages, wake-ups, parking, dispatch, asks, in order.

Every generator looks for work in the state until there is none, and each event it yields takes its
work out of the state before it looks again. A step is bounded; `due_ms` says whether work is left.
"""

from collections.abc import Iterator

import numpy as np

from services.queueing.core.config import (
    GANGS_OPEN_MAX,
    HEAD_START_MS,
    LANE_AFTER_FAILURES,
    LANE_MS,
    STEP_EVENTS_MAX,
    STEP_PODS_MAX,
)
from services.queueing.core.gangs import attempts, preemption
from services.queueing.core.inputs.own_events import FLUSH, IMPROVED, parked_ids
from services.queueing.core.pods.lanes import next_single, top
from services.queueing.core.preemption import asks
from services.queueing.core.routing import dispatch, left_ids
from services.queueing.core.state import Entry, Gang, QueueingState, Sig, by_number
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import (
    backoff,
    message_refresh,
    permit_rejections,
    unschedulable_timeout,
)
from services.queueing.core.waiting.messages import gang_message, parked_message
from shared.events.base import Event
from shared.events.queueing import (
    Dispatched,
    GangPreemptRecalled,
    GangWaits,
    LaneFreed,
    LaneTaken,
    Parked,
    TryFailed,
    Woken,
)
from shared.model.columns import I64, pack, size

Single = tuple[Entry, int]

READY, LEFT, WAITING = int(Pod.READY), int(Pod.LEFT), int(Pod.WAITING)


def decide(state: QueueingState) -> Iterator[Event]:
    """The step's events; stops early when it has done enough for one step. Pods that come before
    the rest of their world is known wait for it: among them may be some that go first.
    """
    if state.listing_ms:
        return
    pods = 0
    for events, event in enumerate(_all(state), start=1):
        yield event
        pods += size(getattr(event, "ids", b""))
        if isinstance(event, GangWaits) and event.message:
            continue  # what follows tells its members
        if events >= STEP_EVENTS_MAX or pods >= STEP_PODS_MAX:
            return


def _all(state: QueueingState) -> Iterator[Event]:
    yield from _gang_messages(state)
    if lane_over(state):
        yield LaneFreed(state.lane.gang)
    while state.errors:
        yield TryFailed(*state.errors[0])
    yield from _closed_asks(state)
    yield from _wakes(state)
    if state.roused:
        yield from permit_rejections.wakes(state)
    yield from _timers(state)
    yield from message_refresh.decide(state)
    yield from _nominated(state)
    yield from _dispatches(state)
    while (ask := asks.next_ask(state)) is not None:
        yield ask
    for gang in sorted(state.gang_recalls):
        yield GangPreemptRecalled(gang)
    while (gang_ask := preemption.next_ask(state)) is not None:
        yield gang_ask
    while idle(state) and (end := backoff.next_cut(state)) is not None:
        yield backoff.popped(state, end)
        yield from _dispatches(state)


def due_ms(state: QueueingState) -> int | None:
    """When there is something to decide without new input."""
    if state.listing_ms:
        return None
    work = state.say or state.closed or state.wake or state.nominated or lane_over(state)
    work = work or state.looked or state.gangs_looked or bool(state.errors) or bool(state.roused)
    work = work or state.gang_recalls
    if work or _parkable(state) is not None or _next(state) is not None:
        return state.now_ms
    if state.gang_asks and preemption.next_ask(state) is not None:
        return state.now_ms
    end = backoff.next_end(state)
    if end is not None and idle(state) and backoff.next_cut(state) is not None:
        return state.now_ms
    times = [
        None if end is None else end // 2,
        unschedulable_timeout.next_ms(state),
        _next_gang_ms(state),
    ]
    times += [asks.next_ask_ms(state), message_refresh.next_ms(state)]
    times += [gang.tried_ms + HEAD_START_MS for gang in attempts.head_starts(state)]
    if state.lane.gang:
        times.append(state.lane.until_ms)
    due = [at_ms for at_ms in times if at_ms is not None]
    return max(min(due), state.now_ms) if due else None


# ---------------------------------------------------------- waking and parking


def _gang_messages(state: QueueingState) -> Iterator[Event]:
    for number in sorted(state.say):
        gang = state.gangs[number]
        message = gang_message(gang)
        yield GangWaits(number, message)
        if message and message == gang.verdict:
            yield from message_refresh.tell(state, gang, Parked)


def _closed_asks(state: QueueingState) -> Iterator[Event]:
    pods = np.array(sorted(state.closed), np.int64)
    sigs = np.array([state.asks[pod].sig for pod in pods.tolist()], np.int64)
    for number, part in by_number(sigs) if len(pods) else ():
        text = parked_message(state.sigs[number], state.config)
        yield Parked(number, pack(pods[part]), text)


def _wakes(state: QueueingState) -> Iterator[Event]:
    for number in sorted(state.wake):
        sig = state.sigs[number]
        yield from _wake(state, sig, _waiting(state, sig), IMPROVED)


def _waiting(state: QueueingState, sig: Sig) -> I64:
    """All pods of a signature that are woken when something improves, by id."""
    ids = parked_ids(state, sig)
    if sig.sig in state.preempting:
        ids = np.union1d(ids, np.array(list(state.preempting[sig.sig]), np.int64))
    return ids


def _wake(state: QueueingState, sig: Sig, ids: I64, reason: str) -> Iterator[Event]:
    """These pods of a signature go to the queue, or into what is left of their backoff."""
    until_ms = state.pods.until_ms[state.pods.rows(ids)]
    late = until_ms > state.now_ms
    if not bool(late.all()):
        yield Woken(sig.sig, ids[~late].tobytes(), reason=reason)
    if bool(late.any()):
        yield Woken(sig.sig, ids[late].tobytes(), until_ms[late].tobytes(), reason)


def _timers(state: QueueingState) -> Iterator[Event]:
    left = state.config.looks_per_s or STEP_EVENTS_MAX
    if state.flush_from_ms <= state.now_ms:
        while (
            left
            and (at_ms := unschedulable_timeout.first_ms(state)) is not None
            and at_ms <= state.now_ms
        ):
            sig = state.sigs[state.flushes[0][1]]
            yield from _wake(
                state, sig, unschedulable_timeout.over(state, _waiting(state, sig)), FLUSH
            )
            left -= 1
    while (end := backoff.next_end(state)) is not None and end // 2 <= state.now_ms:
        yield backoff.ended(state, end)


# ------------------------------------------------------------------- dispatch


def idle(state: QueueingState) -> bool:
    """Whether nothing is being tried: then backoff is cut short (kube's PopFromBackoffQ)."""
    counts = state.pods.counts
    active = counts[Pod.READY] or counts[Pod.LEFT] or counts[Pod.NOMINATED]
    return not (active or state.attempts or state.trying or state.blocked())


def _next_gang_ms(state: QueueingState) -> int | None:
    """When a gang that failed is tried again: not before an answer, while too much is under way."""
    full = len(state.trying) >= GANGS_OPEN_MAX or state.blocked()
    return None if full else attempts.next_timer_ms(state)


def lane_over(state: QueueingState) -> bool:
    """Whether the gang that has the lane got its answer, or has had its time."""
    if not state.lane.gang:
        return False
    gang = state.gangs.get(state.lane.gang)
    return gang is None or not gang.attempt or state.lane.until_ms <= state.now_ms


def _nominated(state: QueueingState) -> Iterator[Event]:
    """Preemptors with freed space go before everything: the space waits for nobody else."""
    ready: dict[tuple[int, int], list[int]] = {}
    for pod in sorted(state.nominated):
        sig = int(state.pods.sig[pod - state.pods.base])
        ready.setdefault((state.nominated[pod], sig), []).append(pod)
    for (shard, sig), pods in ready.items():
        yield Dispatched(state.next_attempt, shard, sig, pack(pods), urgent=True)


def _parkable(state: QueueingState) -> Entry | None:
    return top(state, state.all_mask)


def _dispatches(state: QueueingState) -> Iterator[Event]:
    while True:
        while (entry := _parkable(state)) is not None:
            sig = state.sigs[entry[3]]
            if entry[1] == 0:
                ids = left_ids(state, sig, entry[2], sig.left[entry[2]])
            else:
                ids = sig.fifo.oldest(state.pods, sig.fifo.live)[0]
            yield Parked(sig.sig, ids.tobytes(), parked_message(sig, state.config))
        chosen = _next(state)
        if chosen is None:
            return
        if isinstance(chosen, Gang):
            yield from _gang(state, chosen)
        else:
            yield dispatch(state, *chosen)


def _gang(state: QueueingState, gang: Gang) -> Iterator[Event]:
    if gang.failures >= LANE_AFTER_FAILURES and not state.lane.gang:
        yield LaneTaken(gang.gang, state.now_ms + LANE_MS)
    yield attempts.dispatch(state, gang)


def _next(state: QueueingState) -> Gang | Single | None:
    """What is tried next: priority first, then leftovers, then age. None while everything that is
    ready waits for credits, binds or a gang that has the lane.
    """
    counts = state.pods.counts
    if not (counts[READY] or counts[LEFT] or counts[WAITING]) or state.blocked():
        return None
    single = next_single(state, state.free_mask())
    if single is not None and _held_up(state, -single[0][0]):
        single = None
    gang = attempts.first_ready(state) if counts[WAITING] else None
    if gang is not None and gang.gang != state.lane.gang and _held_up(state, gang.priority):
        gang = None
    if gang is None or (single is not None and single[0][:3] < (-gang.priority, 1, gang.seq)):
        return None if single is None or _too_young(state, single[0]) else single
    if len(state.trying) < GANGS_OPEN_MAX:
        return gang
    # Its turn comes with the next answer: what is younger must not take its place meanwhile.
    return None if attempts.head_starts(state) else single


def _held_up(state: QueueingState, priority: int) -> bool:
    """Whether a gang that has the lane goes before this priority."""
    return bool(state.lane.gang) and priority <= state.lane.priority


def _too_young(state: QueueingState, entry: Entry) -> bool:
    """Whether an older gang of at least its priority has a head start on a queue's head."""
    if not state.trying or entry[1] == 0:
        return False
    return any(
        -gang.priority <= entry[0] and gang.seq < entry[2] for gang in attempts.head_starts(state)
    )
