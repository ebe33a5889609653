"""The decisions of a step, in order: gang messages, wake-ups, parking, dispatch, asks.

Every generator finds work in the state until there is none, and each event it yields removes its
work from the state before the next search. A step is bounded; `due_ms` says whether work is left.
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
from services.queueing.core.gangs import (
    attempts,
    below_minimum,
    growth,
    members,
    preemption,
    provisioning,
    request_timing,
    validation,
)
from services.queueing.core.gangs.member_lists import pending_groups
from services.queueing.core.inputs.own_events import FLUSH, IMPROVED, PROTECTED, parked_ids
from services.queueing.core.pods.priority_index import top
from services.queueing.core.preemption import asks
from services.queueing.core.queues import held
from services.queueing.core.queues.gang_members import claiming_members, members_within
from services.queueing.core.scheduling_queue import decide_dispatch, leftover_ids, next_to_try
from services.queueing.core.state import Gang, QueueingState, Sig, by_number
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import (
    backoff,
    message_refresh,
    permit_rejections,
    unschedulable_timeout,
)
from services.queueing.core.waiting.messages import gang_message, group_condition, parked_message
from shared.events.base import Event
from shared.events.queueing import (
    Dispatched,
    GangFailed,
    GangGrows,
    GangPreemptRecalled,
    GangShown,
    GangWaits,
    LaneFreed,
    LaneTaken,
    Parked,
    PlaceGiven,
    TryFailed,
    Woken,
)
from shared.model.columns import I64, pack, size
from shared.model.ids import AttemptId, PodId, SignatureId


def decide(state: QueueingState) -> Iterator[Event]:
    """Yield the step's events; stop early after enough work for one step. Pods that arrive before
    the first list is complete wait for it: some of its pods may go first.
    """
    if state.listing_ms:
        return
    pods = 0
    for events, event in enumerate(_decide_all(state), start=1):
        yield event
        pods += size(getattr(event, "ids", b""))
        if isinstance(event, GangWaits) and event.message:
            continue  # the event that follows has the members' message
        if events >= STEP_EVENTS_MAX or pods >= STEP_PODS_MAX:
            return


def _decide_all(state: QueueingState) -> Iterator[Event]:
    if state.messages_due:
        yield from _decide_gang_messages(state)
    for number in sorted(state.shown_due):
        gang = state.gangs[number]
        text = group_condition(gang, state.config) or ""
        yield GangShown(number, gang.key, text, gang.is_error)
    if state.lane.gang and is_lane_over(state):
        yield LaneFreed(state.lane.gang)
    while state.errors:
        yield TryFailed(*state.errors[0])
    if state.closed_asks:
        yield from _decide_closed_asks(state)
    if state.untold:
        yield from message_refresh.decide_untold(state)
    if state.wake:
        yield from _decide_wakes(state)
    if state.woken_by_event:
        yield from permit_rejections.decide_wakes(state)
    if state.flushes or state.backoff_ends or state.protected_until_ms:
        yield from _decide_timers(state)
    if message_refresh.may_be_due(state):
        yield from message_refresh.decide_refreshes(state)
    if state.nominated:
        yield from _decide_nominated(state)
    while state.growing and (grown := growth.next_gang(state)) is not None:
        yield GangGrows(grown.gang)
    yield from _decide_dispatches(state)
    while (reached := held.decide_reached(state)) is not None:
        yield reached
    while (ask := asks.decide_ask(state)) is not None:
        yield ask
    for recalled in sorted(state.gang_recalls):
        yield GangPreemptRecalled(recalled)
    while (gang_ask := preemption.decide_gang_ask(state)) is not None:
        yield gang_ask
    if state.below_minimum:
        yield from below_minimum.decide(state)
    if state.provisioning_due:
        yield from provisioning.decide_provisioning(state)
    while idle(state) and (end := backoff.next_cut(state)) is not None:
        yield backoff.decide_pop(state, end)
        yield from _decide_dispatches(state)


def due_ms(state: QueueingState) -> int | None:
    """Return when there is something to decide without new input, ms."""
    if state.listing_ms:
        return None
    work = (
        state.messages_due
        or state.shown_due
        or state.closed_asks
        or state.untold
        or state.wake
        or (state.nominated and held.are_nominees_ready(state))
        or is_lane_over(state)
    )
    work = (
        work
        or state.refreshed
        or state.gangs_refreshed
        or bool(state.errors)
        or bool(state.woken_by_event)
    )
    work = work or state.gang_recalls
    work = work or (bool(state.growing) and growth.next_gang(state) is not None)
    if work or top(state, state.all_mask) is not None or next_to_try(state) is not None:
        return state.now_ms
    if state.quota is not None and held.decide_reached(state) is not None:
        return state.now_ms
    if state.gang_asks and preemption.decide_gang_ask(state) is not None:
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
    times += [request_timing.next_ms(state), below_minimum.next_ms(state)]
    times.append(_next_protection_ms(state))
    times += [gang.tried_ms + HEAD_START_MS for gang in members.head_starts(state)]
    if state.lane.gang:
        times.append(state.lane.until_ms)
    due = [at_ms for at_ms in times if at_ms is not None]
    return max(min(due), state.now_ms) if due else None


# ---------------------------------------------------------- waking and parking


def _decide_gang_messages(state: QueueingState) -> Iterator[Event]:
    for number in sorted(state.messages_due):
        gang = state.gangs[number]
        message = gang_message(gang)
        yield GangWaits(number, message)
        if message and message == gang.outcome:
            kind = TryFailed if gang.is_error else Parked
            yield from message_refresh.decide_gang_message(state, gang, kind)


def _decide_closed_asks(state: QueueingState) -> Iterator[Event]:
    pods = np.array(sorted(state.closed_asks), np.int64)
    sigs = np.array([state.asks[pod].sig for pod in pods.tolist()], np.int64)
    for number, part in by_number(sigs) if len(pods) else ():
        text = parked_message(state.sigs[number], state.config)
        yield Parked(number, pack(pods[part]), text)


def _decide_wakes(state: QueueingState) -> Iterator[Event]:
    for number in sorted(state.wake):
        sig = state.sigs[number]
        yield from _decide_wake(state, sig, _waiting(state, sig), IMPROVED)


def _waiting(state: QueueingState, sig: Sig) -> I64:
    """Return all pods of a signature that an improvement wakes, by id."""
    ids = parked_ids(state, sig)
    if sig.sig in state.preempting:
        ids = np.union1d(ids, np.array(list(state.preempting[sig.sig]), np.int64))
    return ids


def _decide_wake(state: QueueingState, sig: Sig, ids: I64, reason: str) -> Iterator[Event]:
    """Yield the wake-up of these pods: into the queue, or into the rest of their backoff."""
    until_ms = state.pods.until_ms[state.pods.rows(ids)]
    late = until_ms > state.now_ms
    if not bool(late.all()):
        yield Woken(sig.sig, ids[~late].tobytes(), reason=reason)
    if bool(late.any()):
        yield Woken(sig.sig, ids[late].tobytes(), until_ms[late].tobytes(), reason)


def _decide_timers(state: QueueingState) -> Iterator[Event]:
    left = state.config.looks_per_s or STEP_EVENTS_MAX
    if state.flush_from_ms <= state.now_ms:
        while (
            left
            and (at_ms := unschedulable_timeout.first_ms(state)) is not None
            and at_ms <= state.now_ms
        ):
            sig = state.sigs[state.flushes[0][1]]
            yield from _decide_wake(
                state, sig, unschedulable_timeout.timed_out(state, _waiting(state, sig)), FLUSH
            )
            left -= 1
    for number in _protection_ended(state):
        sig = state.sigs[number]
        yield from _decide_wake(state, sig, parked_ids(state, sig), PROTECTED)
    while (end := backoff.next_end(state)) is not None and end // 2 <= state.now_ms:
        yield backoff.decide_backoff_ended(state, end)


def _protection_ended(state: QueueingState) -> list[SignatureId]:
    """Return the signatures with parked pods for which a pod may be a victim now."""
    return [
        number
        for number, at_ms in sorted(state.protected_until_ms.items())
        if at_ms <= state.now_ms and state.sigs[number].parked_live
    ]


def _next_protection_ms(state: QueueingState) -> int | None:
    """Return when the next protection ends for parked pods, ms."""
    ends = state.protected_until_ms.items()
    return min((at_ms for number, at_ms in ends if state.sigs[number].parked_live), default=None)


# ------------------------------------------------------------------- dispatch


def idle(state: QueueingState) -> bool:
    """Return whether nothing is being tried: then backoff is cut short (kube's PopFromBackoffQ)."""
    counts = state.pods.counts
    ready = counts[Pod.READY] - held.held_pods(state)
    active = ready or counts[Pod.LEFTOVER] or counts[Pod.NOMINATED]
    return not (active or state.attempts or state.gangs_in_flight or state.is_bind_limited())


def _next_gang_ms(state: QueueingState) -> int | None:
    """Return when a failed gang is tried again, ms; not before an answer while too many attempts
    are open.
    """
    full = len(state.gangs_in_flight) >= GANGS_OPEN_MAX or state.is_bind_limited()
    return None if full else members.next_timer_ms(state)


def is_lane_over(state: QueueingState) -> bool:
    """Return whether the gang with the lane got its answer, or its time is over."""
    if not state.lane.gang:
        return False
    gang = state.gangs.get(state.lane.gang)
    return gang is None or not gang.attempt or state.lane.until_ms <= state.now_ms


def _decide_nominated(state: QueueingState) -> Iterator[Event]:
    """Yield dispatches of preemptors with freed space, and of members with a kept place, before all
    others: freed space is free for any pod.
    """
    ready: dict[tuple[int, SignatureId], list[PodId]] = {}
    for pod in sorted(state.nominated):
        sig = state.pods.sig_at[pod - state.pods.base]
        ready.setdefault((state.nominated[pod], sig), []).append(pod)
    for (shard, sig), waiting in ready.items():
        pods = held.ready_nominees(state, state.sigs[sig], waiting)
        for pod in pods:
            if pod in state.places_given:
                yield PlaceGiven(shard, state.places_given[pod], pod)
        if pods:
            yield Dispatched(AttemptId(state.next_attempt), shard, sig, pack(pods), urgent=True)


def _decide_dispatches(state: QueueingState) -> Iterator[Event]:
    while True:
        while (entry := top(state, state.all_mask)) is not None:
            sig = state.sigs[entry[3]]
            if entry[1] == 0:
                left_by = AttemptId(entry[2])
                ids = leftover_ids(state, sig, left_by, sig.leftovers[left_by])
            else:
                ids = sig.fifo.oldest(state.pods, sig.fifo.live)[0]
            yield Parked(sig.sig, ids.tobytes(), parked_message(sig, state.config))
        chosen = next_to_try(state)
        if chosen is None:
            return
        if isinstance(chosen, Gang):
            yield from _decide_gang(state, chosen)
        else:
            yield decide_dispatch(state, *chosen)


def _decide_gang(state: QueueingState, gang: Gang) -> Iterator[Event]:
    groups = pending_groups(state, gang)
    problem = validation.why_no_group(state, gang, groups)
    groups, _why = members_within(state, gang, groups, members.needed(gang))
    groups = claiming_members(state, gang, groups, members.needed(gang))
    if problem:
        yield GangFailed(gang.gang, problem)
        return
    if gang.failures >= LANE_AFTER_FAILURES and not state.lane.gang:
        yield LaneTaken(gang.gang, state.now_ms + LANE_MS)
    yield attempts.decide_gang_dispatch(state, gang, groups)
