"""The derived part of queueing's state: indexes over the pods, and heaps."""

from array import array
from collections import Counter

import numpy as np

from services.queueing.core.gangs import members, preemption, request_timing
from services.queueing.core.pods.fifo import Fifo
from services.queueing.core.pods.table import backoff_ends, open_rows
from services.queueing.core.queues import charges
from services.queueing.core.state import (
    Bucket,
    Leftovers,
    QueueingState,
    Sig,
    add_pods,
    by_number,
)
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import unschedulable_timeout
from services.queueing.core.waiting.messages import workload_of
from shared.model.columns import I64

INDEXED = (
    *(Pod.READY, Pod.PARKED, Pod.LEFTOVER, Pod.IN_FLIGHT, Pod.BACKOFF),
    *(Pod.ASKING, Pod.PREEMPTING),
)


def derive(state: QueueingState) -> QueueingState:
    """Compute the derived fields of a loaded state; return it. Raises ValueError if it is for
    another number of shards.
    """
    if state.all_mask != (1 << len(state.shards)) - 1:
        raise ValueError(f"the snapshot is of {len(state.shards)} shards")
    charges.follow(state)
    _index_pods(state)
    return state


def _index_pods(state: QueueingState) -> None:
    """Build the indexes from the pod columns, in queue order."""
    pods = state.pods
    for code in INDEXED:
        ids = pods.in_state(code)
        if not len(ids):
            continue
        if code is Pod.READY:
            ids = ids[pods.seq[pods.rows(ids)].argsort(kind="stable")]
        rows = pods.rows(ids)
        if code is Pod.BACKOFF:
            for end, part in by_number(backoff_ends(pods, rows)):
                state.backoff[end] = Bucket()
                state.backoff[end].ids.frombytes(ids[part].tobytes())
                state.backoff[end].live = len(part)
        elif code is Pod.IN_FLIGHT:
            for number, part in by_number(pods.attempt[rows]):
                attempt = state.attempts[number]
                attempt.open = len(part)
                state.shards[attempt.shard].open += len(part)
                state.shards[attempt.shard].units += len(part) + attempt.fixed
        elif code is Pod.ASKING:
            for pod in ids.tolist():
                add_pods(state.askers, state.asks[pod].sig, (pod,))
        elif code is Pod.PREEMPTING:
            for number, part in by_number(pods.sig[rows].astype(np.int64)):
                add_pods(state.preempting, number, ids[part].tolist())
                unschedulable_timeout.begin(state, state.sigs[number], pods.rows(ids[part]))
        else:
            for number, part in by_number(pods.sig[rows].astype(np.int64)):
                _index_sig(state, state.sigs[number], code, ids[part])
    state.backoff_ends = sorted(state.backoff)
    state.refresh_heap = sorted(
        (sig.refresh_ms, sig.sig) for sig in state.sigs.values() if sig.refresh_ms
    )
    state.refreshed = {sig: None for sig in sorted(state.sigs) if state.sigs[sig].is_refreshed}
    _index_gangs(state)
    for number in sorted(state.sigs):
        sig = state.sigs[number]
        state.index_queue(sig)
        for key in sorted(sig.leftovers):
            state.index_leftovers(sig, key, sig.leftovers[key])
        state.refresh(sig)


def reindex(state: QueueingState) -> None:
    """Rebuild all indexes after pods got new signatures."""
    for sig in state.sigs.values():
        sig.fifo, sig.lane = Fifo(sig.sig), -1
        sig.flush_counts, sig.flush_ms = {}, 0
        sig.parked, sig.parked_live, sig.askable = array("q"), 0, 0
        sig.leftovers = {at: Leftovers(one.tried, one.rounds) for at, one in sig.leftovers.items()}
    for attempt in state.attempts.values():
        attempt.open = 0
    for shard in state.shards:
        shard.open = shard.units = 0
    for gang in state.gangs.values():
        gang.members, gang.waiting = array("q"), 0
        gang.due_ms = gang.timer_ms = gang.place = None
    state.heaps, state.backoff, state.gangs_by_sig = {}, {}, {}
    state.gangs_refreshed, state.wake, state.ask_next = {}, {}, {}
    state.messages_due, state.shown_due, state.gangs_in_flight = {}, {}, {}
    state.below_minimum, state.lacking_minimum, state.growing = {}, {}, {}
    charges.follow(state)
    state.askers, state.preempting, state.ask_due, state.ask_later = {}, {}, [], []
    state.gangs_ready, state.gang_timers, state.gang_message_heap, state.flushes = [], [], [], []
    _index_pods(state)
    for sig in list(state.sigs.values()):
        sig.leftovers = {at: one for at, one in sig.leftovers.items() if one.live}
        state.drop_retired(sig)


def _index_sig(state: QueueingState, sig: Sig, code: Pod, ids: I64) -> None:
    pods = state.pods
    rows = pods.rows(ids)
    if code is Pod.READY:
        sig.fifo.push(ids.tobytes(), pods.seq[rows].tobytes())
    elif code is Pod.PARKED:
        sig.parked.frombytes(ids.tobytes())
        sig.parked_live = len(ids)
        unschedulable_timeout.begin(state, sig, rows)
        sig.askable = int(np.count_nonzero(pods.askable[rows]))
    else:
        for key, part in by_number(pods.attempt[rows]):
            sig.leftovers[key].ids.frombytes(ids[part].tobytes())
            sig.leftovers[key].live = len(part)


def _index_gangs(state: QueueingState) -> None:
    pods = state.pods
    codes = pods.state[: pods.top - pods.base]
    rows = open_rows(codes)
    rows = rows[pods.gang[rows] != 0]
    if len(rows):
        for number, part in by_number(pods.gang[rows].astype(np.int64)):
            gang = state.gangs.get(number)
            if gang is not None:
                ids = (rows[part] + pods.base).astype(np.int64)
                gang.members.frombytes(ids.tobytes())
                gang.waiting = int(np.count_nonzero(codes[rows[part]] == Pod.GANG_PENDING))
    _index_workloads(state)
    bound = Counter(state.bound_members.values())
    for number in sorted(state.gangs):
        state.gangs[number].bound = bound[number]
        if state.gangs[number].is_refreshed:
            state.gangs_refreshed[number] = None
        if not state.gangs[number].committed:
            members.index(state, state.gangs[number])
        preemption.index(state, state.gangs[number])
        members.touch(state, state.gangs[number])
    for key in sorted(state.provisioning):
        request_timing.update(state, key)


def _index_workloads(state: QueueingState) -> None:
    state.workloads = {}
    known = {workload_of(gang.key) for gang in state.gangs.values() if gang.exists}
    for number in sorted(state.gangs):
        gang = state.gangs[number]
        workload = workload_of(gang.key)
        if workload:
            state.workloads.setdefault(workload, {})[number] = None
            gang.has_workload = workload in known
