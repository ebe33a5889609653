"""A gang's members counted: who waits, whether the whole is complete, when it may be tried.

Used by everything that moves pods; what permit's answers mean is in `gangs`.
"""

from array import array
from heapq import heappush

import numpy as np

from services.queueing.core.config import (
    GANG_ASK_AGAIN_MS,
    GANG_ASK_AGAIN_MS_MIN,
    GANG_RETRY_MS_MIN,
    GANG_TOLD_AFTER_MS,
    MEMBERS_KEPT_MIN,
)
from services.queueing.core.pods.table import Rows
from services.queueing.core.state import Gang, QueueingState, by_number
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import gang_message, gated, workload_of
from shared.events.queueing import Members
from shared.model.columns import I64, pack

UNKNOWN, BOUND = int(Pod.UNKNOWN), int(Pod.BOUND)


def record(state: QueueingState, number: int, key: str = "") -> Gang:
    """The gang's record, made when a member or the group itself is met first."""
    gang = state.gangs.get(number)
    if gang is None:
        gang = state.gangs[number] = Gang(number, state.next_seq)
        state.next_seq += 1
    if key and not gang.key:
        gang.key = key
        file(state, gang)
    return gang


def file(state: QueueingState, gang: Gang) -> None:
    """Keep a gang whose name is known now with the others of its workload."""
    workload = workload_of(gang.key)
    if workload:
        others = state.workloads.setdefault(workload, {})
        gang.has_workload = any(state.gangs[one].has_workload for one in others)
        others[gang.gang] = None


def tell_workload(state: QueueingState, gang: Gang) -> None:
    """The group came or went: its workload may have come or gone with it."""
    others = state.workloads.get(workload_of(gang.key), {})
    is_there = gang.exists or any(state.gangs[one].exists for one in others)
    if gang.has_workload != is_there:
        for one in sorted(others):
            state.gangs[one].has_workload = is_there
            touch(state, state.gangs[one])


def complete(gang: Gang) -> bool:
    """Whether enough ungated members are known for a try."""
    if not gang.exists or gang.committed or not gang.waiting:
        return False
    return gang.waiting + gang.running >= gang.min_count


def retry_ms(state: QueueingState, gang: Gang) -> int:
    """When it may be tried: after its backoff if a shard improved, else after the longest one."""
    if not gang.failures or gang.room:
        return 0
    if gang.improved:
        return gang.until_ms
    return gang.failed_ms + max(state.config.backoff_max_ms, GANG_RETRY_MS_MIN)


def ready(state: QueueingState, gang: Gang) -> bool:
    """Whether it can be tried now."""
    return complete(gang) and not gang.attempt and retry_ms(state, gang) <= state.now_ms


def touch(state: QueueingState, gang: Gang) -> None:
    """Bring the indexes in line after anything about the gang changed."""
    if gang_message(gang) != gang.message:
        state.say[gang.gang] = None
    else:
        state.say.pop(gang.gang, None)
    if gang.attempt:
        state.trying[gang.gang] = None
        _tell_in_time(state, gang)
        return
    state.trying.pop(gang.gang, None)
    _tell_in_time(state, gang)
    if complete(gang):
        at_ms = retry_ms(state, gang)
        if at_ms <= state.now_ms:
            give_place(state, gang)
        elif gang.timer_ms != at_ms:
            gang.timer_ms = at_ms
            heappush(state.gang_timers, (at_ms, gang.gang))


def give_place(state: QueueingState, gang: Gang) -> None:
    """Put the gang among those that can be tried, if it is not there."""
    place = (-gang.priority, gang.seq, gang.gang)
    if gang.place != place:
        gang.place = place
        heappush(state.gangs_ready, place)


def _tell_in_time(state: QueueingState, gang: Gang) -> None:
    due_ms = tell_due_ms(state, gang)
    if due_ms != gang.due_ms:
        gang.due_ms = due_ms
        if due_ms is not None:
            heappush(state.gang_tells, (due_ms, gang.gang))


def tell_due_ms(state: QueueingState, gang: Gang) -> int | None:
    """When members are told again what is said of their gang. A try is mostly over before it is
    worth a word; and while a gang can be tried, what its tries come to says it all.
    """
    if gang.committed:
        return None
    look_ms = gang.look_ms if state.config.confirm_ms else 0
    if gang.attempt:
        least_ms = gang.tried_ms + GANG_TOLD_AFTER_MS
        times = [max(at_ms, least_ms) for at_ms in (gang.tell_ms, look_ms) if at_ms]
    else:
        is_gated = gated(gang)
        times = [gang.tell_ms] if gang.tell_ms and gang.message else []
        times += [look_ms] if look_ms and is_gated else []
    return min(times) if times else None


def index(state: QueueingState, gang: Gang) -> None:
    """Make the gang hear of improvements for the signatures it was last tried with."""
    for sig in gang.sigs:
        if gang.committed:
            state.gangs_by_sig.get(sig, {}).pop(gang.gang, None)
        else:
            state.gangs_by_sig.setdefault(sig, {})[gang.gang] = None


def count(state: QueueingState, rows: Rows, waiting: int = 0, running: int = 0) -> None:
    """Members entered (+1) or left (-1) these states."""
    if not state.gangs:
        return
    for number, part in by_number(state.pods.gang[rows].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None:
            gang.waiting += waiting * len(part)
            gang.running += running * len(part)
            assert gang.waiting >= 0
            touch(state, gang)


def join(state: QueueingState, gang: Gang, ids: I64) -> None:
    """Pods belong to the gang from here on. Those whose story is over go when there are many."""
    if len(gang.members) >= gang.members_max:
        kept = _open(state, gang)
        gang.members = array("q", kept.tobytes())
        gang.members_max = max(MEMBERS_KEPT_MIN, 2 * len(kept))
    gang.members.frombytes(ids.tobytes())
    if gang.failures:
        gang.improved = True


def gate(state: QueueingState, ids: I64) -> I64:
    """Those that plugins of users let in; the others, taken out before, are gated."""
    pods, is_open = state.pods, np.ones(len(ids), np.bool_)
    for sig, part in by_number(pods.sig[pods.rows(ids)].astype(np.int64)):
        if sig in state.gates:
            pods.move("gated", ids[part], pods.rows(ids[part]))
            is_open[part] = False
    return ids[is_open]


def wait(state: QueueingState, gang: Gang, ids: I64, is_new: bool = True) -> None:
    """Members wait for the gang's next try; those that were tried know why."""
    pods = state.pods
    if state.gates:
        ids = gate(state, ids)
        if not len(ids):
            return
    rows = pods.rows(ids)
    pods.move("waits", ids, rows)
    state.line_up(rows, len(ids))
    for sig, _part in by_number(pods.sig[rows].astype(np.int64)):
        gang.priority = max(gang.priority, state.sigs[sig].priority)
    gang.waiting += len(ids)
    if is_new and not gang.tell_ms:
        gang.tell_ms = state.now_ms + GANG_TOLD_AFTER_MS
    touch(state, gang)


def reorder(state: QueueingState) -> None:
    """Gangs go by the highest order of those members that need something yet."""
    pods = state.pods
    rows = np.flatnonzero((pods.gang != 0) & (pods.state != UNKNOWN) & (pods.state < BOUND))
    highest: dict[int, int] = {}
    for number, sig in zip(pods.gang[rows].tolist(), pods.sig[rows].tolist(), strict=True):
        order = state.sigs[sig].priority
        highest[number] = max(highest.get(number, order), order)
    for number, order in highest.items():
        if number in state.gangs:
            state.gangs[number].priority = order


def members_in(state: QueueingState, gang: Gang, code: Pod) -> I64:
    """Members in this state, by id."""
    ids = _open(state, gang)
    there: I64 = ids[state.pods.state[ids - state.pods.base] == code]
    return there


def needed(gang: Gang) -> int:
    """How many of those who wait must have a node."""
    return max(1, gang.min_count - gang.running)


def waiting_groups(state: QueueingState, gang: Gang) -> tuple[Members, ...]:
    """Everybody of the gang who waits, by signature: the highest priority first."""
    pods = state.pods
    ids = members_in(state, gang, Pod.WAITING)
    ids = ids[pods.seq[pods.rows(ids)].argsort(kind="stable")]
    groups = by_number(pods.sig[pods.rows(ids)].astype(np.int64))
    groups.sort(key=lambda group: (-state.sigs[group[0]].priority, group[0]))
    return tuple(Members(sig, pack(ids[part])) for sig, part in groups)


def _open(state: QueueingState, gang: Gang) -> I64:
    """Members whose story is not over, by id."""
    pods = state.pods
    ids = pods.known(np.unique(np.frombuffer(gang.members, np.int64).copy()))
    rows = ids - pods.base
    there: I64 = ids[(pods.state[rows] < BOUND) & (pods.gang[rows] == gang.gang)]
    return there


def forget(state: QueueingState, rows: Rows) -> None:
    """Drop the records of groups that do not exist and have no members left."""
    for number, _part in by_number(state.pods.gang[rows].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None and not gang.exists:
            drop(state, gang)


def drop(state: QueueingState, gang: Gang) -> None:
    """Drop the record of a deleted group, if no member is left."""
    if len(_open(state, gang)):
        return
    gang.committed = True
    index(state, gang)
    del state.gangs[gang.gang]
    others = state.workloads.get(workload_of(gang.key))
    if others is not None:
        others.pop(gang.gang)
        if not others:
            del state.workloads[workload_of(gang.key)]
    state.say.pop(gang.gang, None)
    state.trying.pop(gang.gang, None)
    state.gang_asks.pop(gang.gang, None)
    state.gangs_looked.pop(gang.gang, None)


def ask_early_ms(gang: Gang) -> int:
    """When it may ask preemption again if something improved: gangs that make room in vain, or give
    each other hope with what they give back, must not go on so at once and without end.
    """
    if not gang.asks:
        return 0
    wait_ms = GANG_ASK_AGAIN_MS_MIN << min(gang.asks - 1, 30)
    return gang.told_ms + min(wait_ms, GANG_ASK_AGAIN_MS)


def improved(state: QueueingState, sig: int) -> None:
    """A shard could take pods of this signature again."""
    for number in sorted(state.gangs_by_sig.get(sig, {})):
        gang = state.gangs[number]
        gang.improved = True
        gang.ask_ms = min(gang.ask_ms, ask_early_ms(gang))
        touch(state, gang)
