"""The state as plain values and back. Indexes are left out and rebuilt from the pods.

Finished pods below the first unfinished one are left out too; of the other finished pods only that
fact is kept.
"""

from array import array
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from services.queueing.core.config import Config
from services.queueing.core.gangs import members, preemption
from services.queueing.core.pods.fifo import Fifo
from services.queueing.core.pods.table import COLUMNS, STATES, Pods, backoff_ends
from services.queueing.core.preemption.asks import lives
from services.queueing.core.state import (
    Ask,
    Attempt,
    Bucket,
    Gang,
    Leftovers,
    QueueingState,
    Refusal,
    Sig,
    add_pods,
    by_number,
)
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import unschedulable_timeout
from services.queueing.core.waiting.messages import workload_of

SIG_FIELDS = (
    *("sig", "priority", "never_preempts", "cpu_milli", "memory_bytes", "gpu_milli"),
    *("mask", "sent", "note", "flush_ms", "ask_ms", "refresh_ms", "refresh_mask"),
    *("is_refreshed", "scheduler", "retry_mask"),
)
SHARD_FIELDS = ("nodes", "free_cpu_milli", "free_memory_bytes", "free_gpu_milli")
ATTEMPT_FIELDS = ("attempt", "shard", "sig", "fixed", "tried", "rounds")
GANG_FIELDS = (
    *("gang", "seq", "key", "exists", "committed", "improved", "min_count", "version"),
    *("timeout_ms", "attempt", "failures", "tried_ms", "failed_ms", "until_ms", "priority"),
    *("message", "verdict", "running", "refresh_ms", "is_refreshed"),
    "message_ms",
)
PREEMPTING_FIELDS = (
    *("gang", "preempting", "ask_ms", "has_room", "note", "asks", "ask_closed_ms"),
)
INDEXED = (
    *(Pod.READY, Pod.PARKED, Pod.LEFTOVER, Pod.IN_FLIGHT, Pod.BACKOFF),
    *(Pod.ASKING, Pod.PREEMPTING),
)
LANE_FIELDS = ("gang", "priority", "until_ms")
RATE_FIELDS = ("since_ms", "count", "last", "at_ms")
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


_SIG_VALUES = attrgetter(*SIG_FIELDS)  # for tens of thousands of signatures


def _fields(record: Any, names: tuple[str, ...]) -> list[Any]:
    return [getattr(record, name) for name in names]


def _fill(record: Any, names: tuple[str, ...], values: list[Any]) -> None:
    # Older snapshots lack the last names.
    for name, value in zip(names, values, strict=False):
        setattr(record, name, value)


def _plain(amount: int) -> int | str:
    """Return an amount for a snapshot: a sum of requests beyond 64 bits as decimal text.

    The sum stays exact in memory, so it is the same with or without a snapshot in between. A
    saturating sum would depend on the order of changes.
    """
    return amount if INT64_MIN <= amount <= INT64_MAX else str(amount)


def dump(state: QueueingState) -> dict[str, Any]:
    """Return canonical plain values."""
    config: dict[str, Any] = msgspec.to_builtins(state.config)
    for name in ("wakes", "looks_per_s"):
        if not config[name]:
            del config[name]  # older dumps have none
    held = [[plugin, sorted(pods)] for plugin, pods in sorted(state.permit_rejected.items())]
    return {
        "config": config,
        "numbers": [state.next_attempt, state.next_seq],
        "pods": _dump_pods(state.pods),
        "sigs": [_dump_sig(state.sigs[sig]) for sig in sorted(state.sigs)],
        "shards": [
            [_plain(amount) for amount in _fields(shard, SHARD_FIELDS)] for shard in state.shards
        ],
        "attempts": [
            _fields(state.attempts[attempt], ATTEMPT_FIELDS) for attempt in sorted(state.attempts)
        ],
        "gangs": [
            [*_fields(state.gangs[gang], GANG_FIELDS), list(state.gangs[gang].sigs)]
            for gang in sorted(state.gangs)
        ],
        "asks": [
            [pod, state.asks[pod].sig, state.asks[pod].ended]
            for pod in sorted(state.asks)
            if lives(state, pod)
        ],
        "nominated": [[pod, state.nominated[pod]] for pod in sorted(state.nominated)],
        "closed": sorted(state.closed_asks),
        **_gang_preempting(state),
        "heirs": [list(heir) for heir in state.relabelled],
        **({"errors": [list(one) for one in state.errors]} if state.errors else {}),
        **({"gates": [list(one) for one in sorted(state.gates.items())]} if state.gates else {}),
        **({"held": held} if held else {}),
        **({"happened": dict(sorted(state.last_events.items()))} if state.last_events else {}),
        **(
            {"roused": [list(one) for one in sorted(state.woken_by_event.items())]}
            if state.woken_by_event
            else {}
        ),
        **({"leaving": sorted(state.leaving)} if state.leaving else {}),
        **({"retired": sorted(state.retired)} if state.retired else {}),
        **({"room": [list(one) for one in sorted(state.room.items())]} if state.room else {}),
        "lane": _fields(state.lane, LANE_FIELDS),
        "listing_ms": state.listing_ms,
        **({"looks_from_ms": state.looks_from_ms} if state.looks_from_ms else {}),
        **({"flush_from_ms": state.flush_from_ms} if state.flush_from_ms else {}),
        "rate": _fields(state.rate, RATE_FIELDS),
    }


def _gang_preempting(state: QueueingState) -> dict[str, Any]:
    """Return nothing if no gang ever asked preemption."""
    gangs = (state.gangs[number] for number in sorted(state.gangs))
    known = [_fields(gang, PREEMPTING_FIELDS) for gang in gangs]
    known = [values for values in known if any(values[1:])]
    recalls = sorted(state.gang_recalls)
    return {"gang_preempting": [known, recalls]} if known or recalls else {}


def _open_rows(codes: "np.ndarray[Any, np.dtype[np.int8]]") -> "np.ndarray[Any, Any]":
    return np.flatnonzero((codes != Pod.UNKNOWN) & (codes < Pod.BOUND))


def _dump_pods(pods: Pods) -> list[Any]:
    first, stop = pods.settled(), pods.top - pods.base
    codes = pods.state[first:stop]
    rows = _open_rows(codes)
    columns = [
        getattr(pods, name)[first:stop][rows].tobytes() for name in COLUMNS if name != "state"
    ]
    return [pods.base + first, pods.top, codes.tobytes(), *columns]


def _dump_sig(sig: Sig) -> list[Any]:
    refusals = _dump_refusals(sig) if sig.refusals else []
    left = []
    if sig.leftovers:
        left = [
            [key, sig.leftovers[key].tried, sig.leftovers[key].rounds]
            for key in sorted(sig.leftovers)
        ]
    return [*_SIG_VALUES(sig), refusals, left]


def _dump_refusals(sig: Sig) -> list[Any]:
    return [
        [shard, [list(pair) for pair in refusal.reasons], *_fields(refusal, REFUSAL_NUMBERS)]
        for shard, refusal in sorted(sig.refusals.items())
    ]


REFUSAL_NUMBERS = ("nodes", "world", "resolvable", "preemptible", "rejected")


def load(state: QueueingState, body: Any) -> None:
    """Fill a new state with what `dump` returned."""
    state.config = msgspec.convert(body["config"], Config)
    state.next_attempt, state.next_seq = body["numbers"]
    state.pods = _load_pods(body["pods"])
    for values in body["sigs"]:
        _load_sig(state, values)
    for shard, values in zip(state.shards, body["shards"], strict=True):
        _fill(shard, SHARD_FIELDS, [int(amount) for amount in values])
    for values in body["attempts"]:
        attempt = Attempt(0, 0, 0, 0)
        _fill(attempt, ATTEMPT_FIELDS, values)
        state.attempts[attempt.attempt] = attempt
    for values in body["gangs"]:
        gang = Gang(0, 0)
        _fill(gang, GANG_FIELDS, values[:-1])
        gang.sigs = tuple(values[-1])
        state.gangs[gang.gang] = gang
    known, recalls = body.get("gang_preempting", ((), ()))
    for values in known:
        _fill(state.gangs[values[0]], PREEMPTING_FIELDS, values)
    state.gang_recalls = dict.fromkeys(recalls)
    state.asks = {pod: Ask(sig, ended) for pod, sig, ended in body["asks"]}
    state.nominated = dict(body["nominated"])
    state.closed_asks = dict.fromkeys(body["closed"])
    state.relabelled = [(at, old, new) for at, old, new in body.get("heirs", ())]
    state.errors = [(sig, ids, message) for sig, ids, message in body.get("errors", ())]
    state.gates = dict(body.get("gates", ()))
    state.permit_rejected = {plugin: dict.fromkeys(pods) for plugin, pods in body.get("held", ())}
    state.last_events = dict(body.get("happened", {}))
    state.woken_by_event = dict(body.get("roused", ()))
    # Older snapshots have none: their pods were not tried while victims were leaving.
    waits = state.pods.in_state(Pod.PREEMPTING).tolist()
    state.leaving = dict.fromkeys(body.get("leaving", waits))
    state.room = dict(body.get("room", ()))
    state.retired = dict.fromkeys(body.get("retired", ()))
    _load_uncut(state.pods, body.get("uncut", ()))
    _fill(state.lane, LANE_FIELDS, body["lane"])
    state.listing_ms = body["listing_ms"]
    state.looks_from_ms = body.get("looks_from_ms", 0)
    state.flush_from_ms = body.get("flush_from_ms", 0)
    _fill(state.rate, RATE_FIELDS, body["rate"])
    _index_pods(state)


def _load_uncut(pods: Pods, ends: list[int]) -> None:
    """Convert older snapshots, which have the ends of backoffs after errors instead of
    the errors.
    """
    rows = pods.in_state(Pod.BACKOFF) - pods.base
    rows = rows[np.isin(pods.until_ms[rows], ends)]
    pods.errors[rows] = np.maximum(pods.refusals[rows], 1)


def _load_pods(body: list[Any]) -> Pods:
    base, top, codes = body[0], body[1], np.frombuffer(body[2], np.int8)
    capacity = 1_024
    while capacity < len(codes) * 2:
        capacity *= 2
    pods = Pods(base, capacity)
    pods.top = top
    pods.state[: len(codes)] = codes
    rows = _open_rows(codes)
    names = [name for name in COLUMNS if name != "state"]
    for name, column in zip(names, body[3:], strict=False):  # older snapshots lack the last
        getattr(pods, name)[rows] = np.frombuffer(column, COLUMNS[name])
    pods.counts = np.bincount(codes, minlength=STATES).tolist()
    assert len(codes) == top - base
    return pods


def _load_sig(state: QueueingState, values: list[Any]) -> None:
    sig = Sig(0, 0, False)
    _fill(sig, SIG_FIELDS, values[:-2])
    sig.flush_ms = 0  # recomputed from the pods
    sig.fifo = Fifo(sig.sig)
    for shard, reasons, *numbers in values[-2]:
        sig.refusals[shard] = Refusal(tuple((text, count) for text, count in reasons), *numbers)
    for attempt, tried, rounds in values[-1]:
        sig.leftovers[attempt] = Leftovers(tried, rounds)
    state.sigs[sig.sig] = sig


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
        sig.stays, sig.flush_ms = {}, 0
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
    state.gangs_refreshed, state.wake, state.ask_next, state.messages_due, state.gangs_in_flight = (
        {},
        {},
        {},
        {},
        {},
    )
    state.askers, state.preempting, state.ask_due, state.ask_later = {}, {}, [], []
    state.gangs_ready, state.gang_timers, state.gang_message_heap, state.flushes = [], [], [], []
    _index_pods(state)
    for sig in list(state.sigs.values()):
        sig.leftovers = {at: one for at, one in sig.leftovers.items() if one.live}
        state.drop_retired(sig)


def _index_sig(state: QueueingState, sig: Sig, code: Pod, ids: "np.ndarray[Any, Any]") -> None:
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
    rows = _open_rows(codes)
    rows = rows[pods.gang[rows] != 0]
    if len(rows):
        for number, part in by_number(pods.gang[rows].astype(np.int64)):
            gang = state.gangs.get(number)
            if gang is not None:
                ids = (rows[part] + pods.base).astype(np.int64)
                gang.members.frombytes(ids.tobytes())
                gang.waiting = int(np.count_nonzero(codes[rows[part]] == Pod.GANG_PENDING))
    _index_workloads(state)
    for number in sorted(state.gangs):
        if state.gangs[number].is_refreshed:
            state.gangs_refreshed[number] = None
        if not state.gangs[number].committed:
            members.index(state, state.gangs[number])
        preemption.index(state, state.gangs[number])
        members.touch(state, state.gangs[number])


def _index_workloads(state: QueueingState) -> None:
    state.workloads = {}
    known = {workload_of(gang.key) for gang in state.gangs.values() if gang.exists}
    for number in sorted(state.gangs):
        gang = state.gangs[number]
        workload = workload_of(gang.key)
        if workload:
            state.workloads.setdefault(workload, {})[number] = None
            gang.has_workload = workload in known
