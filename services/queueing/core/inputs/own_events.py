"""Handlers of queueing's own events: each removes the work from the state that it was
decided for.
"""

from heapq import heappush
from typing import Any

import numpy as np

from services.queueing.core.config import WAIT_FEW
from services.queueing.core.gangs import members
from services.queueing.core.pods import moves
from services.queueing.core.pods.table import Rows
from services.queueing.core.preemption import leaving_victims
from services.queueing.core.scheduling_queue import enqueue
from services.queueing.core.state import QueueingState, Sig
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import unschedulable_timeout
from services.queueing.core.waiting.messages import may_preempt
from shared.events.queueing import Parked, TryFailed, Woken
from shared.model.columns import I64, unpack
from shared.model.ids import PodId

OF_A_GANG = (Pod.GANG_PENDING, Pod.GANG_IN_FLIGHT)
READ_WHY = (Pod.PARKED, Pod.ASKING, Pod.PREEMPTING, *OF_A_GANG)


def on_parked(state: QueueingState, event: Parked) -> None:
    """Park pods refused by every shard, pods without victims, and gang members that wait or are
    being tried.
    """
    pods = state.pods
    ids = unpack(event.ids)
    rows = pods.rows(ids)
    code = Pod(int(pods.state[rows][0]))
    if code in OF_A_GANG:
        return
    sig = state.sigs[event.sig]
    moves.leave(state, ids, rows)
    if code is Pod.ASKING:
        pods.move("preemption_closed", ids, rows)
        if sig.ask_ms > state.now_ms:
            pods.askable[rows] = 1
            sig.askable += len(ids)
    else:
        moves.count_refusal(state, ids)
        ids = _without_waiting(state, sig, ids)
        if not len(ids):
            return
        rows = pods.rows(ids)
        pods.move("parked", ids, rows)
        if may_preempt(sig, state.config):
            pods.askable[rows] = may_preempt_mask(state, rows)
            sig.askable += int(np.count_nonzero(pods.askable[rows]))
    sig.parked.frombytes(ids.tobytes())
    sig.parked_live += len(ids)
    unschedulable_timeout.begin(state, sig, rows)
    schedule_refresh(state, sig)
    if len(sig.parked) > 1_024 + 2 * sig.parked_live:
        packed = parked_ids(state, sig)
        del sig.parked[:]
        sig.parked.frombytes(packed.tobytes())
    state.refresh(sig)


def may_preempt_mask(state: QueueingState, rows: Rows) -> "np.ndarray[Any, Any]":
    """Return a mask of the parked pods that may preempt: of gang members only those left over after
    the commit are parked.
    """
    is_single: np.ndarray[Any, Any] = state.pods.gang[rows] == 0
    return is_single | state.config.gang_preemption


def _without_waiting(state: QueueingState, sig: Sig, ids: I64) -> I64:
    """Return the pods without those whose victims are leaving, which keep waiting for them."""
    if not state.leaving:
        return ids
    waits = leaving_victims.is_open(state, ids)
    if waits.any():
        leaving_victims.wait(state, "victims_leaving", ids[waits])
        for pod in ids[waits].tolist():
            leaving_victims.forget_text(state, pod)
        schedule_refresh(state, sig)
    left: I64 = ids[~waits]
    return left


def schedule_refresh(state: QueueingState, sig: Sig) -> None:
    """Schedule a refresh of the signature's reasons, unless an earlier one is due."""
    if not state.config.confirm_ms:
        return
    at_ms = state.now_ms + confirm_in_ms(state)
    if not state.now_ms < sig.refresh_ms <= at_ms:
        sig.refresh_ms = at_ms
        heappush(state.refresh_heap, (sig.refresh_ms, sig.sig))


def confirm_in_ms(state: QueueingState) -> int:
    """Return the time until a message is refreshed, ms. The more pods wait, the longer their
    confirmed messages take to write, so the earlier it starts.
    """
    counts = state.pods.counts
    is_many = sum(counts[code] for code in READ_WHY) > WAIT_FEW
    return state.config.confirm_ms >> is_many


def parked_ids(state: QueueingState, sig: Sig) -> I64:
    """Return the signature's parked pods, by id."""
    pods = state.pods
    ids = pods.known(np.unique(np.frombuffer(sig.parked, np.int64).copy()))
    rows = ids - pods.base
    there: I64 = ids[(pods.state[rows] == Pod.PARKED) & (pods.sig[rows] == sig.sig)]
    return there


def on_woken(state: QueueingState, event: Woken) -> None:
    """Wake parked pods: they are tried now or after their backoff."""
    sig, pods = state.sigs[event.sig], state.pods
    state.protected_until_ms.pop(event.sig, None)
    if event.reason == FLUSH:
        state.set_mask(sig, sig.mask, sig.mask)
        unschedulable_timeout.note_flush(state)
    ids = unpack(event.ids)
    moves.leave(state, ids, pods.rows(ids))
    if event.until_ms:
        pods.until_ms[pods.rows(ids)] = unpack(event.until_ms)  # older releases differ
        moves.delay(state, ids)
        return
    ids = members.hold_back(state, ids)
    if len(ids):
        enqueue(state, "woken", sig, ids)


def on_try_failed(state: QueueingState, event: TryFailed) -> None:
    """Drop the error that has now been recorded. That of a gang is its verdict."""
    recorded = event.sig, event.ids, event.message
    if state.errors[:1] == [recorded]:
        state.errors.pop(0)
        return
    code = state.pods.state_of(PodId(unpack(event.ids).item(0)))
    assert code in OF_A_GANG, f"signature {event.sig}: {state.errors[:1]}"


FLUSH = "unschedulable timeout"
PROTECTED = "a pod may be a victim now"
IMPROVED = "a shard improved"
