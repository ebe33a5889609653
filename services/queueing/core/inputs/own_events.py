"""What queueing's own events do: each takes the work out of the state that it was decided for."""

from heapq import heappush
from typing import Any

import numpy as np

from services.queueing.core.config import UNITS_DISPATCH_MIN, URGENT_ROUNDS_MAX, WAIT_FEW
from services.queueing.core.pods import moves
from services.queueing.core.pods.table import SMALL, Rows
from services.queueing.core.preemption import leaving_victims
from services.queueing.core.state import Attempt, QueueingState, Sig, by_number
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import unschedulable_timeout
from services.queueing.core.waiting.messages import may_preempt
from shared.events.queueing import Activated, Dispatched, Parked, TryFailed, Woken
from shared.model.columns import I64, ID_BYTES, few, size, unpack

READY = int(Pod.READY)
LEFT = int(Pod.LEFT)
READ_WHY = (Pod.PARKED, Pod.ASKING, Pod.PREEMPTING, Pod.WAITING, Pod.TRYING)


def dispatched(state: QueueingState, event: Dispatched) -> None:
    """An attempt opens; its credits are taken."""
    pods, sig, shard = state.pods, state.sigs[event.sig], state.shards[event.shard]
    count = size(event.ids)
    first = int.from_bytes(event.ids[:ID_BYTES], "little") - pods.base
    attempt = Attempt(event.attempt, event.shard, event.sig, state.fixed_units(sig, event.shard))
    code = pods.state_at[first]
    if code == READY:
        sig.fifo.taken(event.ids)
    elif code == LEFT:
        _take_left(state, sig, attempt, pods.attempt_at[first], count)
    else:
        ids = unpack(event.ids)
        moves.leave(state, ids, pods.rows(ids))
    if count <= SMALL:
        for pod in few(event.ids):
            pods.move_one("dispatched", pod - pods.base)
            pods.attempt_at[pod - pods.base] = event.attempt
    else:
        ids = unpack(event.ids)
        rows = pods.rows(ids)
        pods.move("dispatched", ids, rows)
        pods.attempt[rows] = event.attempt
    attempt.fixed += max(0, UNITS_DISPATCH_MIN - attempt.fixed - count)
    attempt.open = count
    shard.open += count
    shard.take(sig, count)
    shard.units += attempt.fixed + count
    sig.sent |= 1 << event.shard
    assert event.attempt >= state.next_attempt, f"attempt {event.attempt} is not new"
    state.attempts[event.attempt] = attempt
    state.next_attempt = event.attempt + 1


def _take_left(state: QueueingState, sig: Sig, attempt: Attempt, number: int, count: int) -> None:
    """Leftovers go on: within their round, or (at a shard they have been at) in a new one."""
    left = sig.left[number]
    attempt.tried, attempt.rounds = left.tried, left.rounds
    if left.tried >> attempt.shard & 1:
        attempt.tried, attempt.rounds = 0, left.rounds + 1
        assert attempt.rounds <= URGENT_ROUNDS_MAX
    left.live -= count
    if not left.live:
        del sig.left[number]


def parked(state: QueueingState, event: Parked) -> None:
    """Pods refused everywhere; or a pod preemption has nobody for; or members of a gang (who wait
    already, or are being tried).
    """
    pods = state.pods
    ids = unpack(event.ids)
    rows = pods.rows(ids)
    code = Pod(int(pods.state[rows][0]))
    if code in (Pod.WAITING, Pod.TRYING):
        return
    sig = state.sigs[event.sig]
    moves.leave(state, ids, rows)
    if code is Pod.ASKING:
        pods.move("preemption_closed", ids, rows)
        if sig.ask_ms > state.now_ms:
            pods.askable[rows] = 1
            sig.askable += len(ids)
    else:
        moves.refuse(state, ids)
        ids = _without_waiting(state, sig, ids)
        if not len(ids):
            return
        rows = pods.rows(ids)
        pods.move("parked", ids, rows)
        if may_preempt(sig, state.config):
            pods.askable[rows] = may_ask(state, rows)
            sig.askable += int(np.count_nonzero(pods.askable[rows]))
    sig.parked.frombytes(ids.tobytes())
    sig.parked_live += len(ids)
    unschedulable_timeout.begin(state, sig, rows)
    look_later(state, sig)
    if len(sig.parked) > 1_024 + 2 * sig.parked_live:
        packed = parked_ids(state, sig)
        del sig.parked[:]
        sig.parked.frombytes(packed.tobytes())
    state.refresh(sig)


def may_ask(state: QueueingState, rows: Rows) -> "np.ndarray[Any, Any]":
    """Who of these parked pods may have others evicted: of members only those that were left over
    are parked, once their gang is committed.
    """
    is_single: np.ndarray[Any, Any] = state.pods.gang[rows] == 0
    return is_single | state.config.gang_preemption


def _without_waiting(state: QueueingState, sig: Sig, ids: I64) -> I64:
    """Those for whom victims are leaving go on waiting for them."""
    if not state.leaving:
        return ids
    waits = leaving_victims.is_open(state, ids)
    if waits.any():
        leaving_victims.wait(state, "victims_leaving", ids[waits])
        look_later(state, sig)
    left: I64 = ids[~waits]
    return left


def look_later(state: QueueingState, sig: Sig) -> None:
    """Shards are asked for their reasons again after a while, unless they will be sooner."""
    if not state.config.confirm_ms:
        return
    at_ms = state.now_ms + confirm_in_ms(state)
    if not state.now_ms < sig.look_ms <= at_ms:
        sig.look_ms = at_ms
        heappush(state.looks, (sig.look_ms, sig.sig))


def confirm_in_ms(state: QueueingState) -> int:
    """When a message is looked at again. The more pods wait, the longer it takes to write to all of
    them that theirs was confirmed, so the sooner that has to begin.
    """
    counts = state.pods.counts
    is_many = sum(counts[code] for code in READ_WHY) > WAIT_FEW
    return state.config.confirm_ms >> is_many


def parked_ids(state: QueueingState, sig: Sig) -> I64:
    """The signature's parked pods, by id."""
    pods = state.pods
    ids = pods.known(np.unique(np.frombuffer(sig.parked, np.int64).copy()))
    rows = ids - pods.base
    there: I64 = ids[(pods.state[rows] == Pod.PARKED) & (pods.sig[rows] == sig.sig)]
    return there


def woken(state: QueueingState, event: Woken) -> None:
    """Parked pods may be tried again, now or after their backoff."""
    sig, pods = state.sigs[event.sig], state.pods
    if event.reason == FLUSH:
        state.set_mask(sig, sig.mask, sig.mask)
        unschedulable_timeout.begun(state)
    ids = unpack(event.ids)
    moves.leave(state, ids, pods.rows(ids))
    if event.until_ms:
        pods.until_ms[pods.rows(ids)] = unpack(event.until_ms)  # older releases counted otherwise
        moves.delay(state, ids)
    else:
        moves.enqueue(state, "woken", sig, ids)


def try_failed(state: QueueingState, event: TryFailed) -> None:
    """It was told."""
    told = state.errors.pop(0)
    assert told == (event.sig, event.ids, event.message), f"signature {event.sig}: {told[2]}"


FLUSH = "unschedulable timeout"
IMPROVED = "a shard improved"


def activated(state: QueueingState, event: Activated) -> None:
    """Pods whose backoff is over, or cut short, are ready."""
    pods = state.pods
    ids = unpack(event.ids)
    rows = pods.rows(ids)
    moves.leave(state, ids, rows)
    for sig, part in by_number(pods.sig[rows].astype(np.int64)):
        moves.enqueue(state, "activated", state.sigs[sig], ids[part])
