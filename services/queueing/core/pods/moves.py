"""Taking pods out of where they stand, and putting them in line; used by every kind of event."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.queueing.core.config import ATTEMPTS_MAX, backoff_end_ms
from services.queueing.core.gangs import members
from services.queueing.core.pods.table import CODES, SMALL, Rows, backoff_ends
from services.queueing.core.preemption import leaving_victims
from services.queueing.core.state import QueueingState, Sig, by_number, take
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import permit_rejections, unschedulable_timeout
from shared.model.columns import I64, few, size, unpack

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
                state.sigs[sig].fifo.left(len(part))
        case Pod.IN_FLIGHT:
            for attempt, part in by_number(pods.attempt[rows]):
                state.answered(state.attempts[attempt], len(part))
        case Pod.LEFT:
            _leave_left(state, ids)
        case Pod.PARKED:
            for number, part in by_number(pods.sig[rows].astype(np.int64)):
                _unpark(state, state.sigs[number], ids[part])
        case Pod.ASKING:
            leave_asking(state, ids.tolist())
        case Pod.PREEMPTING:
            for number, part in by_number(pods.sig[rows].astype(np.int64)):
                for pod in ids[part].tolist():
                    take(state.preempting, number, pod)
                unschedulable_timeout.end(state, state.sigs[number], pods.rows(ids[part]))
                state.refresh(state.sigs[number])
        case Pod.NOMINATED:
            for pod in ids.tolist():
                state.nominated.pop(pod, None)
        case Pod.BACKOFF:
            for end, part in by_number(backoff_ends(pods, rows)):
                state.undelay(end, len(part))
            if state.held:
                permit_rejections.end(state, ids, rows)
        case Pod.WAITING:
            members.count(state, rows, waiting=-1)
        case Pod.RESERVED:
            members.count(state, rows, running=-1)


def leave_asking(state: QueueingState, pods: Sequence[int]) -> None:
    """Preemption has an answer for these pods, or they need none any more."""
    for pod in pods:
        asker = state.sigs[state.asks[pod].sig]
        take(state.askers, asker.sig, pod)
        state.closed.pop(pod, None)
        state.refresh(asker)
        state.drop_retired(asker)


def _leave_left(state: QueueingState, ids: I64) -> None:
    pods = state.pods
    for pod in ids.tolist():
        row = pod - pods.base
        sig = state.sigs[int(pods.sig[row])]
        attempt = int(pods.attempt[row])
        sig.left[attempt].live -= 1
        if not sig.left[attempt].live:
            del sig.left[attempt]


def _unpark(state: QueueingState, sig: Sig, ids: I64) -> None:
    pods = state.pods
    rows = pods.rows(ids)
    sig.parked_live -= len(ids)
    unschedulable_timeout.end(state, sig, rows)
    sig.askable -= int(np.count_nonzero(pods.askable[rows]))
    pods.askable[rows] = 0
    state.refresh(sig)


def enqueue(state: QueueingState, event: str, sig: Sig, ids: I64) -> None:
    """Put pods of one signature into its queue by their age, unless a plugin holds them back."""
    pods = state.pods
    rows = pods.rows(ids)
    if state.gates and sig.sig in state.gates:
        pods.move("gated", ids, rows)
        return
    pods.move(event, ids, rows)
    if pods.seq[rows].any():
        _insert(state, sig, ids, rows)
    else:
        sig.fifo.push(ids.tobytes(), state.line_up(rows, len(ids)).tobytes())
    state.enlist(sig)


def _insert(state: QueueingState, sig: Sig, ids: I64, rows: Rows) -> None:
    """Those that have a place in line already keep it."""
    seqs = state.pods.seq[rows]
    if np.count_nonzero(seqs[1:] > seqs[:-1]) < len(ids) - 1:
        order = seqs.argsort(kind="stable")
        ids, seqs = ids[order], seqs[order]
    if sig.fifo.insert(state.pods, ids, seqs):
        sig.lane = -1  # its entry there stands too far behind


def enqueue_few(state: QueueingState, event: str, sig: Sig, ids: Sequence[int]) -> None:
    """The same for a handful, without arrays."""
    pods, seq = state.pods, state.next_seq
    for number, pod in enumerate(ids, start=seq):
        row = pod - pods.base
        pods.move_one(event, row)
        pods.seq_at[row] = number
        pods.order_ms_at[row] = state.listing_ms or state.now_ms
    sig.fifo.push_few(ids, seq)
    state.next_seq = seq + len(ids)
    state.enlist(sig)


def home(state: QueueingState, ids: I64) -> None:
    """Put pods, taken out before, where their signature and gang say."""
    pods = state.pods
    for number, part in by_number(pods.gang[pods.rows(ids)].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None and not gang.committed:
            members.wait(state, gang, ids[part])
            continue
        rows = pods.rows(ids[part])
        for sig, inner in by_number(pods.sig[rows].astype(np.int64)):
            enqueue(state, "queued", state.sigs[sig], ids[part][inner])


def rejoin(state: QueueingState, one: I64) -> None:
    """A pod that was refused and is another now, taken out before: its backoff goes on."""
    row = int(one[0]) - state.pods.base
    if int(state.pods.until_ms[row]) > state.now_ms and not state.pods.gang[row]:
        delay(state, one)
    else:
        home(state, one)


def refuse(state: QueueingState, ids: I64) -> None:
    """Count one more refusal, which ends a row of errors, and start the backoff."""
    pods, rows = state.pods, state.pods.rows(ids)
    pods.errors[rows] = 0
    _start_backoff(state, ids, pods.refusals)


def _start_backoff(state: QueueingState, ids: I64, column: NDArray[np.int16]) -> None:
    """Count one more failure of a kind, and note when the backoff that starts now ends."""
    rows = state.pods.rows(ids)
    state.line_up(rows, len(ids))
    failures = np.minimum(column[rows] + 1, ATTEMPTS_MAX).astype(np.int16)
    column[rows] = failures
    counts = range(min(int(failures.max()), 32) + 1)
    ends_ms = [backoff_end_ms(state.config, state.now_ms, count) for count in counts]
    state.pods.until_ms[rows] = np.array(ends_ms, np.int64)[np.minimum(failures, 32)]


def back_off(state: QueueingState, ids: I64, is_error: bool = False) -> None:
    """Pods go back, after a backoff: by the errors in a row where it was one, else as refused."""
    leave(state, ids, state.pods.rows(ids))
    if is_error:
        _start_backoff(state, ids, state.pods.errors)
    else:
        refuse(state, ids)
    delay(state, ids)


def delay(state: QueueingState, ids: I64) -> None:
    """Let pods, taken out before, wait for the end of their backoff."""
    pods = state.pods
    rows = pods.rows(ids)
    pods.move("delayed", ids, rows)
    pods.attempt[rows] = 0
    for end, part in by_number(backoff_ends(pods, rows)):
        state.delay(ids[part], end)


def finish(state: QueueingState, event: str, column: bytes) -> None:
    """The story of these pods is over here: `bound` (for good, by whomever) or `gone`."""
    pods = state.pods
    if size(column) <= SMALL and not state.gangs and _finish_reserved(state, event, few(column)):
        return
    ids = pods.known(unpack(column))
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
    leave(state, ids, rows)
    pods.move(event, ids, rows)
    if state.leaving or state.room:
        leaving_victims.forget(state, ids.tolist())
    if state.gangs:
        if event == "bound":
            members.count(state, rows, running=1)
        members.forget(state, rows)


def _finish_reserved(state: QueueingState, event: str, ids: Sequence[int]) -> bool:
    """The usual end of a few pods, without arrays; False when any is not reserved."""
    pods = state.pods
    for pod in ids:
        if not pods.base <= pod < pods.top or pods.state_at[pod - pods.base] != RESERVED:
            return False
    for pod in ids:
        pods.move_one(event, pod - pods.base)
    if state.leaving or state.room:
        leaving_victims.forget(state, ids)
    return True
