"""The unschedulable timeout: each unschedulable pod is tried again after five minutes.

A pod that failed more than five minutes ago is tried again although nothing improved, as in
kube-scheduler (flushUnschedulablePodsLeftover), which checks every 30 s. So pods of one signature
that failed within the same 30 s are flushed together, and only their number per time is kept. With
`looks_per_s`, that many signatures are flushed a second.
"""

from heapq import heappop, heappush

import numpy as np

from services.queueing.core.config import FLUSH_EVERY_MS, FLUSHES_EVERY_MS
from services.queueing.core.pods.table import Rows
from services.queueing.core.state import QueueingState, Sig, by_number
from shared.model.columns import I64


def ends(state: QueueingState, rows: Rows) -> I64:
    """Return when each pod is tried again: at the first check that finds it there for longer than
    that.
    """
    since_ms: I64 = state.pods.order_ms[rows] + state.config.unschedulable_max_ms
    return (since_ms // FLUSH_EVERY_MS + 1) * FLUSH_EVERY_MS


def begin(state: QueueingState, sig: Sig, rows: Rows) -> None:
    """Count these pods as unschedulable since their failure."""
    _count(state, sig, rows, 1)


def end(state: QueueingState, sig: Sig, rows: Rows) -> None:
    """Stop counting pods that are unschedulable no more."""
    _count(state, sig, rows, -1)


def _count(state: QueueingState, sig: Sig, rows: Rows, change: int) -> None:
    for end_ms, part in by_number(ends(state, rows)):
        left = sig.flush_counts.pop(end_ms, 0) + change * len(part)
        assert left >= 0, f"signature {sig.sig}: {left} pods to be tried at {end_ms}"
        if left:
            sig.flush_counts[end_ms] = left
    flush_ms = min(sig.flush_counts, default=0)
    if flush_ms != sig.flush_ms:
        sig.flush_ms = flush_ms
        if flush_ms:
            heappush(state.flushes, (flush_ms, sig.sig))


def timed_out(state: QueueingState, ids: I64) -> I64:
    """Return a mask of the pods whose time is over."""
    there: I64 = ids[ends(state, state.pods.rows(ids)) <= state.now_ms]
    return there


def note_flush(state: QueueingState) -> None:
    """Note a flush. The next signatures follow a second later: if every pod has its own signature,
    flushing all in one burst delays new pods by seconds.
    """
    if state.config.looks_per_s:
        state.flush_from_ms = state.now_ms + FLUSHES_EVERY_MS


def next_ms(state: QueueingState) -> int | None:
    """Return when the next signatures are flushed, ms."""
    at_ms = first_ms(state)
    return None if at_ms is None else max(at_ms, state.flush_from_ms)


def first_ms(state: QueueingState) -> int | None:
    """Return when the first signature's time is over, ms; it is the first of `state.flushes`."""
    heap = state.flushes
    while heap:
        sig = state.sigs.get(heap[0][1])
        if sig is not None and sig.flush_ms == heap[0][0]:
            return heap[0][0]
        heappop(heap)
    return None


def count_ends(state: QueueingState, ids: I64) -> dict[int, int]:
    """Return time -> number of these pods, recomputed."""
    found, numbers = np.unique(ends(state, ids - state.pods.base), return_counts=True)
    return dict(zip(found.tolist(), numbers.tolist(), strict=True))
