"""Moves pods out of their present place and into queues; used by every kind of event."""

from collections.abc import Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from services.queueing.core.config import ATTEMPTS_MAX, backoff_end_ms
from services.queueing.core.gangs import growth, members
from services.queueing.core.gangs.member_lists import members_in
from services.queueing.core.pods.table import CODES, SMALL, Rows, backoff_ends
from services.queueing.core.preemption import leaving_victims
from services.queueing.core.scheduling_queue import enqueue
from services.queueing.core.state import Gang, QueueingState, Sig, by_number, remove_pod
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import permit_rejections, unschedulable_timeout
from shared.model.columns import I64, as_numbers, size, unpack
from shared.model.ids import PodId

RESERVED = int(Pod.RESERVED)


def leave(state: QueueingState, ids: I64, rows: Rows) -> None:
    """Undo what the present states of these pods count for; their states change next."""
    codes = state.pods.state[rows]
    if np.count_nonzero(codes == codes[0]) == len(codes):
        _leave(state, CODES[int(codes[0])], ids, rows)
        return
    for code, part in by_number(codes.astype(np.int64)):
        _leave(state, CODES[code], ids[part], state.pods.rows(ids[part]))


def _leave(state: QueueingState, code: Pod, ids: I64, rows: Rows) -> None:
    pods = state.pods
    match code:
        case Pod.READY:
            for sig, part in by_number(pods.sig[rows].astype(np.int64)):
                state.sigs[sig].fifo.note_removed(len(part))
        case Pod.IN_FLIGHT:
            for attempt, part in by_number(pods.attempt[rows]):
                state.return_credits(state.attempts[attempt], len(part))
        case Pod.LEFTOVER:
            _leave_leftovers(state, ids)
        case Pod.PARKED:
            for number, part in by_number(pods.sig[rows].astype(np.int64)):
                _unpark(state, state.sigs[number], ids[part])
        case Pod.ASKING:
            leave_asking(state, ids.tolist())
        case Pod.PREEMPTING:
            for number, part in by_number(pods.sig[rows].astype(np.int64)):
                for pod in ids[part].tolist():
                    remove_pod(state.preempting, number, pod)
                unschedulable_timeout.end(state, state.sigs[number], pods.rows(ids[part]))
                state.refresh(state.sigs[number])
        case Pod.NOMINATED:
            for pod in ids.tolist():
                state.nominated.pop(pod, None)
                state.places_given.pop(pod, None)
        case Pod.BACKOFF:
            for end, part in by_number(backoff_ends(pods, rows)):
                state.undelay(end, len(part))
            if state.permit_rejected:
                permit_rejections.end(state, ids, rows)
        case Pod.GANG_PENDING:
            members.count(state, rows, waiting=-1)
        case Pod.RESERVED:
            members.count(state, rows, running=-1)
        case Pod.UNKNOWN | Pod.GATED | Pod.GANG_IN_FLIGHT | Pod.BOUND | Pod.GONE:
            pass  # they count for nothing
        case _:
            assert_never(code)


def leave_asking(state: QueueingState, pods: Sequence[PodId]) -> None:
    """End the asks of pods that preemption answered, or that need no answer any more."""
    for pod in pods:
        asker = state.sigs[state.asks[pod].sig]
        remove_pod(state.askers, asker.sig, pod)
        state.closed_asks.pop(pod, None)
        state.refresh(asker)
        state.drop_retired(asker)


def _leave_leftovers(state: QueueingState, ids: I64) -> None:
    pods = state.pods
    for pod in ids.tolist():
        row = pod - pods.base
        sig = state.sigs[pods.sig_at[row]]
        attempt = pods.attempt_at[row]
        sig.leftovers[attempt].live -= 1
        if not sig.leftovers[attempt].live:
            del sig.leftovers[attempt]


def _unpark(state: QueueingState, sig: Sig, ids: I64) -> None:
    pods = state.pods
    rows = pods.rows(ids)
    sig.parked_live -= len(ids)
    unschedulable_timeout.end(state, sig, rows)
    sig.askable -= int(np.count_nonzero(pods.askable[rows]))
    pods.askable[rows] = 0
    state.refresh(sig)


def requeue(state: QueueingState, ids: I64) -> None:
    """Put removed pods where their signature and gang say."""
    pods = state.pods
    for number, part in by_number(pods.gang[pods.rows(ids)].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None and (not gang.committed or growth.must_wait(state, gang)):
            members.queue_members(state, gang, ids[part])
            continue
        rows = pods.rows(ids[part])
        for sig, inner in by_number(pods.sig[rows].astype(np.int64)):
            enqueue(state, "queued", state.sigs[sig], ids[part][inner])


def regroup(state: QueueingState, gang: Gang) -> None:
    """Let the waiting members of a committed gang that has fallen below minCount wait for its next
    try.
    """
    gang.committed = False
    for code in (
        *(Pod.READY, Pod.LEFTOVER, Pod.PARKED),
        *(Pod.ASKING, Pod.PREEMPTING, Pod.NOMINATED),
    ):
        ids = members_in(state, gang, code)
        if len(ids):
            rows = state.pods.rows(ids)
            leave(state, ids, rows)
            state.pods.attempt[rows] = 0
            requeue(state, ids)
    members.touch(state, gang)


def rejoin(state: QueueingState, one: I64) -> None:
    """Requeue a refused pod that changed, removed before: its backoff continues."""
    row = int(one[0]) - state.pods.base
    if int(state.pods.until_ms[row]) > state.now_ms and not state.pods.gang[row]:
        delay(state, one)
    else:
        requeue(state, one)


def count_refusal(state: QueueingState, ids: I64) -> None:
    """Count one more refusal, which ends a series of errors, and start the backoff."""
    pods, rows = state.pods, state.pods.rows(ids)
    pods.errors[rows] = 0
    _start_backoff(state, ids, pods.refusals)


def _start_backoff(state: QueueingState, ids: I64, column: NDArray[np.int16]) -> None:
    """Count one more failure of a kind and set the end of its backoff."""
    rows = state.pods.rows(ids)
    state.assign_order(rows, len(ids))
    failures = np.minimum(column[rows] + 1, ATTEMPTS_MAX).astype(np.int16)
    column[rows] = failures
    counts = range(min(int(failures.max()), 32) + 1)
    ends_ms = [backoff_end_ms(state.config, state.now_ms, count) for count in counts]
    state.pods.until_ms[rows] = np.array(ends_ms, np.int64)[np.minimum(failures, 32)]


def back_off(state: QueueingState, ids: I64, is_error: bool = False) -> None:
    """Put pods into backoff: by their errors in a row after an error, else by their refusals."""
    leave(state, ids, state.pods.rows(ids))
    if state.gangs:
        ids = members.rejoin(state, ids, failed=True)
        if not len(ids):
            return
    if is_error:
        _start_backoff(state, ids, state.pods.errors)
    else:
        count_refusal(state, ids)
    delay(state, ids)


def delay(state: QueueingState, ids: I64) -> None:
    """Let removed pods wait for the end of their backoff."""
    pods = state.pods
    rows = pods.rows(ids)
    pods.move("delayed", ids, rows)
    pods.attempt[rows] = 0
    for end, part in by_number(backoff_ends(pods, rows)):
        state.delay(ids[part], end)


def finish(state: QueueingState, event: str, column: bytes) -> None:
    """Finish pods: `bound` (permanently, by any scheduler) or `gone`."""
    pods = state.pods
    if (
        size(column) <= SMALL
        and not state.gangs
        and _finish_reserved(state, event, as_numbers(column))
    ):
        return
    ids = unpack(column)
    ids = pods.known(ids)
    if not len(ids):
        return
    pods.cover(int(ids.max()))
    rows = pods.rows(ids)
    limit = Pod.BOUND if event == "bound" else Pod.GONE
    still = pods.state[rows] < limit
    if np.count_nonzero(still) < len(ids):
        ids = ids[still]
        if not len(ids):
            return
        rows = pods.rows(ids)
    if state.gangs:
        if event == "bound":
            members.count_bound(state, ids, rows)
        gangs = pods.gang[rows][pods.state[rows] < Pod.BOUND]
    leave(state, ids, rows)
    pods.move(event, ids, rows)
    if state.leaving or state.room:
        leaving_victims.forget(state, ids.tolist())
    if state.gangs:
        if event == "bound":
            members.resume(state, rows)
        else:
            # The caller has counted bound members. Those that failed to be bound count, too: the
            # pods that replace them must not go alone.
            for gang in members.fallen(state, gangs):
                regroup(state, gang)
        members.forget(state, rows)


def _finish_reserved(state: QueueingState, event: str, ids: Sequence[PodId]) -> bool:
    """Finish a few reserved pods, without arrays; return False if one is not reserved."""
    pods = state.pods
    for pod in ids:
        if not pods.base <= pod < pods.top or pods.state_at[pod - pods.base] != RESERVED:
            return False
    for pod in ids:
        pods.move_one(event, pod - pods.base)
    if state.leaving or state.room:
        leaving_victims.forget(state, ids)
    return True
