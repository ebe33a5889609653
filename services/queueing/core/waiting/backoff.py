"""Pods that leave backoff: all whose time is over, or the next one if nothing else can be tried.

The latter is kube-scheduler's SchedulerPopFromBackoffQ: one pod, the first of those whose backoff
ends in the earliest second, by priority and then by time of failure; never after an error. A popped
pod is tried at once, so a pod that arrives meanwhile goes before the next. Its equals that failed
with it leave too, as in one batch from the queue: they get the same answer.
"""

from heapq import heappop

import numpy as np

from services.queueing.core.gangs import kept_places, members
from services.queueing.core.pods import moves
from services.queueing.core.pods.table import backoff_ends
from services.queueing.core.scheduling_queue import enqueue
from services.queueing.core.state import QueueingState, by_number
from services.queueing.core.transitions import Pod
from shared.events.queueing import Activated
from shared.model.columns import I64, unpack


def next_end(state: QueueingState) -> int | None:
    """Return the first backoff that ends, ms; see pods.backoff_ends."""
    while state.backoff_ends:
        if state.backoff_ends[0] in state.backoff:
            return state.backoff_ends[0]
        heappop(state.backoff_ends)
    return None


def next_cut(state: QueueingState) -> int | None:
    """Return the first backoff end among those that may be cut short, ms."""
    return min((end for end in state.backoff if not end % 2), default=None)


def decide_backoff_ended(state: QueueingState, end: int) -> Activated:
    """Return the event for all pods whose backoff ends then."""
    return Activated(_waiting(state, end).tobytes())


def decide_pop(state: QueueingState, end: int) -> Activated:
    """Return the event for the next pod whose backoff ends then, with its equals."""
    pods, config = state.pods, state.config
    ids = _line(state, end)
    most = 1 if config.strict_order else config.max_batch
    if most == 1:
        return Activated(ids[:1].tobytes())
    rows = pods.rows(ids)
    sigs, failed_ms = pods.sig[rows], pods.order_ms[rows]
    equal = (sigs == sigs[0]) & (failed_ms <= failed_ms[0] + config.reorder_window_ms)
    return Activated(ids[equal][: most or len(ids)].tobytes())


def _line(state: QueueingState, end: int) -> I64:
    """Return the pods whose backoff ends then, in the order of popping. Cached, because computing
    it takes longer than one pop.
    """
    bucket = state.backoff[end]
    if bucket.line is None:
        ids = _waiting(state, end)
        rows = state.pods.rows(ids)
        orders = np.zeros(len(ids), np.int64)
        for number, part in by_number(state.pods.sig[rows].astype(np.int64)):
            orders[part] = state.sigs[number].priority
        bucket.line = ids[np.lexsort((state.pods.seq[rows], -orders))]
    elif len(bucket.line) != bucket.live:
        bucket.line = _still(state, end, bucket.line)
    return bucket.line


def _waiting(state: QueueingState, end: int) -> I64:
    """Return the pods whose backoff ends then, by id."""
    bucket = state.backoff[end]
    ids = _still(state, end, np.unique(np.frombuffer(bucket.ids, np.int64).copy()))
    assert len(ids) == bucket.live, f"backoff until {end // 2}"
    return ids


def _still(state: QueueingState, end: int, ids: I64) -> I64:
    """Return those of them that are still in this backoff."""
    pods = state.pods
    ids = pods.known(ids)
    rows = ids - pods.base
    there: I64 = ids[(pods.state[rows] == Pod.BACKOFF) & (backoff_ends(pods, rows) == end)]
    return there


def on_activated(state: QueueingState, event: Activated) -> None:
    """Make pods ready whose backoff ended or was cut short."""
    pods = state.pods
    ids = unpack(event.ids)
    moves.leave(state, ids, pods.rows(ids))
    ready = ids
    if state.gangs:
        ready = members.hold_back(state, members.rejoin(state, ids, failed=False))
    for sig, part in by_number(pods.sig[pods.rows(ready)].astype(np.int64)) if len(ready) else ():
        enqueue(state, "activated", state.sigs[sig], ready[part])
    if state.kept_places:
        kept_places.give_to(state, ids)
