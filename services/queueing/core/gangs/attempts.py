"""Gangs as queueing sees them: when the whole is tried, what its attempt came to, who has the lane.

A gang is one entry in the order of priority and age. Its members are single pods again once it is
committed. Which node takes whom is not known here.
"""

from heapq import heappop

from services.queueing.core.config import GANG_RETRY_MS_MIN, HEAD_START_MS, backoff_ms
from services.queueing.core.gangs import preemption
from services.queueing.core.gangs.members import (
    complete,
    drop,
    give_place,
    index,
    members_in,
    needed,
    ready,
    record,
    retry_ms,
    tell_workload,
    touch,
    wait,
    waiting_groups,
)
from services.queueing.core.pods import moves
from services.queueing.core.state import Gang, QueueingState
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import message_refresh
from services.queueing.core.waiting.messages import fit_error, timed_out
from shared.events.ingest import GangGone, GangSet
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.queueing import GangDispatched, GangWaits, LaneTaken
from shared.model.columns import unpack

# ------------------------------------------------------------------ inputs


def group_set(state: QueueingState, event: GangSet) -> None:
    """The group exists, or is another version of itself: then it may be tried at once."""
    gang = record(state, event.gang, event.key)
    if event.version > gang.version:
        gang.failures, gang.verdict = 0, ""
        preemption.recall(state, gang)
    gang.exists, gang.version = True, event.version
    gang.min_count, gang.timeout_ms = event.min_count, event.timeout_ms
    tell_workload(state, gang)
    touch(state, gang)


def group_gone(state: QueueingState, event: GangGone) -> None:
    """The group was deleted; members that wait go on waiting, for a group of that name."""
    gang = state.gangs.get(event.gang)
    if gang is not None:
        gang.exists = False
        preemption.recall(state, gang)
        tell_workload(state, gang)
        touch(state, gang)
        drop(state, gang)


def committed(state: QueueingState, event: GangCommitted) -> None:
    """The held members have nodes; the others, and those that came late, are single pods."""
    gang = state.gangs.get(event.gang)
    if gang is None or gang.attempt != event.attempt:
        return
    pods = state.pods
    ids = pods.select(unpack(event.ids), Pod.TRYING, event.attempt)
    gang.attempt, gang.committed, gang.failures, gang.verdict = 0, True, 0, ""
    preemption.recall(state, gang)
    if len(ids):
        rows = pods.rows(ids)
        pods.move("gang_committed", ids, rows)
        pods.attempt[rows] = 0
        gang.running += len(ids)
    for code in (Pod.TRYING, Pod.WAITING):
        rest = members_in(state, gang, code)
        if len(rest):
            moves.leave(state, rest, pods.rows(rest))
            pods.attempt[pods.rows(rest)] = 0
            moves.home(state, rest)
    index(state, gang)
    touch(state, gang)


def released(state: QueueingState, event: GangReleased) -> None:
    """Nothing is held; when what was tried has changed since, that is not a failure."""
    gang = state.gangs.get(event.gang)
    if gang is None or gang.attempt != event.attempt:
        return
    if not event.stale:
        preemption.failed(state, gang, event)
        text = fit_error(event.reasons, event.nodes)
        _failed(state, gang, f"{text} {gang.note}" if gang.note and event.nodes else text)
    _give_back(state, gang)


def gate_closed(state: QueueingState, event: GangTimedOut) -> None:
    """The gate's time is over. An attempt that was sent meanwhile starts a new gate."""
    gang = state.gangs.get(event.gang)
    if gang is None or gang.committed or gang.attempt not in (0, event.attempt):
        return
    _failed(state, gang, timed_out(gang))
    _give_back(state, gang)


def _failed(state: QueueingState, gang: Gang, verdict: str) -> None:
    gang.failures += 1
    gang.failed_ms = state.now_ms
    # Giving the holds of this try back is an improvement, too: without a least wait the gang
    # would wake itself for ever.
    wait_ms = max(backoff_ms(state.config, gang.failures), GANG_RETRY_MS_MIN)
    gang.until_ms = state.now_ms + wait_ms
    gang.verdict = verdict
    message_refresh.gang_failed(state, gang)


def _give_back(state: QueueingState, gang: Gang) -> None:
    ids = members_in(state, gang, Pod.TRYING)
    gang.attempt = 0
    if len(ids):
        state.pods.attempt[state.pods.rows(ids)] = 0
        wait(state, gang, ids, is_new=False)
    touch(state, gang)
    if not gang.exists:
        drop(state, gang)


# -------------------------------------------------------------- own events


def dispatched(state: QueueingState, event: GangDispatched) -> None:
    """The members are permit's until its answer."""
    gang = state.gangs[event.gang]
    assert not gang.attempt, f"gang {gang.gang}: attempt {gang.attempt} is open"
    pods = state.pods
    for part in event.members:
        ids = unpack(part.ids)
        rows = pods.rows(ids)
        pods.move("gang_dispatched", ids, rows)
        pods.attempt[rows] = event.attempt
        gang.waiting -= len(ids)
    gang.attempt, gang.tried_ms, gang.improved = event.attempt, state.now_ms, False
    gang.room = False
    for sig in gang.sigs:
        state.gangs_by_sig[sig].pop(gang.gang, None)
    gang.sigs = tuple(sorted({part.sig for part in event.members}))
    index(state, gang)
    state.next_attempt = event.attempt + 1
    touch(state, gang)


def said(state: QueueingState, event: GangWaits) -> None:
    """The message is out."""
    gang = state.gangs[event.gang]
    is_new = event.message != gang.message
    gang.message = event.message
    message_refresh.gang_told(state, gang, is_new)
    touch(state, gang)


def lane_taken(state: QueueingState, event: LaneTaken) -> None:
    """Nothing of the gang's priority or less is dispatched for a while."""
    state.lane.gang, state.lane.until_ms = event.gang, event.until_ms
    state.lane.priority = state.gangs[event.gang].priority


# --------------------------------------------------------------- decisions


def first_ready(state: QueueingState) -> Gang | None:
    """The gang of highest priority, then age, that can be tried now."""
    while state.gang_timers and state.gang_timers[0][0] <= state.now_ms:
        gang = _pop_timer(state)
        if gang is not None and ready(state, gang):
            give_place(state, gang)
    heap = state.gangs_ready
    while heap:
        gang = state.gangs.get(heap[0][2])
        if gang is not None and gang.place == heap[0]:
            if heap[0][0] == -gang.priority and ready(state, gang):
                return gang
            gang.place = None
        heappop(heap)
    return None


def _pop_timer(state: QueueingState) -> Gang | None:
    """Take out the first timer; whose it was."""
    at_ms, number = heappop(state.gang_timers)
    gang = state.gangs.get(number)
    if gang is not None and gang.timer_ms == at_ms:
        gang.timer_ms = None
    return gang


def head_starts(state: QueueingState) -> list[Gang]:
    """Gangs that were sent out a moment ago: it takes them several hops to get what one pod gets
    in one, so pods that are younger must not take it from them meanwhile.
    """
    since_ms = state.now_ms - HEAD_START_MS
    return [gang for gang in map(state.gangs.__getitem__, state.trying) if gang.tried_ms > since_ms]


def next_timer_ms(state: QueueingState) -> int | None:
    """When the next failed gang may be tried."""
    while state.gang_timers:
        at_ms, number = state.gang_timers[0]
        gang = state.gangs.get(number)
        waits = gang is not None and not gang.attempt and complete(gang)
        if gang is not None and waits and retry_ms(state, gang) == at_ms:
            return at_ms
        _pop_timer(state)
    return None


def dispatch(state: QueueingState, gang: Gang) -> GangDispatched:
    """Everybody of the gang who waits."""
    members = waiting_groups(state, gang)
    return GangDispatched(
        state.next_attempt,
        gang.gang,
        gang.version,
        needed(gang),
        members,
        gang.timeout_ms,
        lane=state.lane.gang == gang.gang,
        preempts=preemption.may_preempt(state, members),
    )
