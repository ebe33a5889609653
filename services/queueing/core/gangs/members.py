"""Counts a gang's members: how many wait, whether the gang is complete, and when it may be tried.

Used by everything that moves pods; attempts.py has the meaning of permit's answers.
"""

from array import array
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from services.queueing.core.config import (
    GANG_ASK_AGAIN_MS,
    GANG_ASK_AGAIN_MS_MIN,
    GANG_MESSAGE_AFTER_MS,
    GANG_RETRY_MS_MIN,
    HEAD_START_MS,
    MEMBERS_KEPT_MIN,
    backoff_ms,
)
from services.queueing.core.gangs import group_trees, growth, minimums, request_timing
from services.queueing.core.gangs.member_lists import open_members
from services.queueing.core.pods.table import Rows
from services.queueing.core.queues.gang_members import are_held, gang_standing
from services.queueing.core.queues.quota import BORROWS, CLAIMS, PLAIN, GangEntry
from services.queueing.core.state import Gang, QueueingState, by_number
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import (
    gang_message,
    group_condition,
    has_condition,
    is_not_tried_message,
    workload_of,
)
from shared.events.ingest import PodsGone
from shared.model.columns import I64, as_numbers, unpack
from shared.model.groups.trees import COMPOSITE
from shared.model.ids import NO_ATTEMPT, NO_GANG, GangId, PodId, SignatureId

UNKNOWN, BOUND = int(Pod.UNKNOWN), int(Pod.BOUND)


def ensure_gang(state: QueueingState, number: GangId, key: str = "") -> Gang:
    """Return the gang's record, created when a member or the group itself is first seen."""
    gang = state.gangs.get(number)
    if gang is None:
        gang = state.gangs[number] = Gang(number, state.next_seq)
        state.next_seq += 1
    if key and not gang.key:
        gang.key = key
        file(state, gang)
    return gang


def file(state: QueueingState, gang: Gang) -> None:
    """Add a gang whose name is known now to its workload."""
    workload = workload_of(gang.key)
    if workload:
        others = state.workloads.setdefault(workload, {})
        gang.has_workload = any(state.gangs[one].has_workload for one in others)
        others[gang.gang] = None


def update_workload(state: QueueingState, gang: Gang) -> None:
    """Update the workload after its group was added or deleted."""
    others = state.workloads.get(workload_of(gang.key), {})
    is_there = gang.exists or any(state.gangs[one].exists for one in others)
    if gang.has_workload != is_there:
        for one in sorted(others):
            state.gangs[one].has_workload = is_there
            touch(state, state.gangs[one])


def complete(gang: Gang) -> bool:
    """Return whether enough ungated members are known for a try."""
    if not gang.exists or gang.committed or gang.root or not gang.waiting:
        return False
    return gang.waiting + gang.running >= least(gang) and not gang.lacking


def retry_ms(state: QueueingState, gang: Gang) -> int:
    """Return when it may be tried, ms: after its backoff if a shard improved, or sooner if nodes
    come that it asked for; else after the longest backoff.
    """
    if not gang.failures or gang.has_room:
        return 0
    if gang.improved:
        if request_timing.is_provisioned(state, gang):
            return min(gang.until_ms, gang.failed_ms + GANG_RETRY_MS_MIN)
        return gang.until_ms
    return gang.failed_ms + max(state.config.backoff_max_ms, GANG_RETRY_MS_MIN)


def least(gang: Gang) -> int:
    """Return how many of its members must run: one if it was shrunk."""
    return 1 if gang.shrunk else gang.min_count


def is_below_minimum(gang: Gang) -> bool:
    """Return whether some run, fewer than must, and its group says what comes of that: not of
    groups in CompositePodGroups, which start with others.
    """
    is_ruled = gang.exists and gang.started and gang.below_minimum is not None and not gang.root
    return is_ruled and gang.bound > 0 and gang.running < least(gang)


def _note_minimum(state: QueueingState, gang: Gang) -> None:
    """Note since when fewer run than must, if its group says what comes of that."""
    gang.shrunk = gang.shrunk and gang.running > 0
    if not is_below_minimum(gang):
        gang.below_ms = 0
        state.below_minimum.pop(gang.gang, None)
        return
    gang.below_ms = gang.below_ms or state.now_ms
    state.below_minimum[gang.gang] = None


def has_minimum(gang: Gang) -> bool:
    """Return whether enough members run, so that those that wait are above minCount."""
    return gang.started if gang.tree else gang.running >= least(gang)


def _lacks_minimum(gang: Gang) -> bool:
    """Return whether it is or may be tried for its minimum."""
    if gang.committed or gang.root or has_minimum(gang):
        return False
    return gang.attempt != NO_ATTEMPT or complete(gang)


def is_due(state: QueueingState, gang: Gang) -> bool:
    """Return whether it can be tried now, unless others go first."""
    return complete(gang) and not gang.attempt and retry_ms(state, gang) <= state.now_ms


def ready(state: QueueingState, gang: Gang) -> bool:
    """Return whether it can be tried now."""
    return is_due(state, gang) and not (has_minimum(gang) and growth.must_wait(state, gang))


def touch(state: QueueingState, gang: Gang) -> None:
    """Update the indexes after any change of the gang."""
    if gang.root:
        touch(state, group_trees.root_of(state, gang))
    elif gang.tree:
        group_trees.update(state, gang)
    if gang.minimums:
        gang.lacking = minimums.lacking(state, gang)
    request_timing.update(state, gang.key)
    if gang.below_minimum is not None or gang.below_ms:
        _note_minimum(state, gang)
    growth.note(state, gang, _lacks_minimum(gang))
    if gang_message(gang) != gang.message:
        state.messages_due[gang.gang] = None
    else:
        state.messages_due.pop(gang.gang, None)
    if state.config.group_conditions and has_condition(gang) and gang.exists:
        if group_condition(gang, state.config) != gang.shown:
            state.shown_due[gang.gang] = None
        else:
            state.shown_due.pop(gang.gang, None)
    if gang.attempt:
        state.gangs_in_flight[gang.gang] = None
        _schedule_message(state, gang)
        return
    state.gangs_in_flight.pop(gang.gang, None)
    _schedule_message(state, gang)
    if complete(gang):
        at_ms = retry_ms(state, gang)
        if at_ms <= state.now_ms:
            give_place(state, gang)
        elif gang.timer_ms != at_ms:
            gang.timer_ms = at_ms
            heappush(state.gang_timers, (at_ms, gang.gang))


def give_place(state: QueueingState, gang: Gang) -> None:
    """Add the gang to those that can be tried, if it is missing there."""
    if state.quota is not None and state.quota.has_guarantees:
        state.quota.unsorted_gangs[gang.gang] = None
    else:
        _give_place(state, gang, PLAIN)


def _give_place(state: QueueingState, gang: Gang, standing: int) -> None:
    place = (-gang.priority, gang.seq, gang.gang, standing)
    if gang.place != place:
        gang.place = place
        heappush(ready_gangs(state, standing), place)


def ready_gangs(state: QueueingState, standing: int) -> list[GangEntry]:
    """Return the heap of the gangs of this standing that can be tried."""
    if standing == PLAIN or state.quota is None:
        return state.gangs_ready
    return state.quota.gangs_ready[standing]


def _schedule_message(state: QueueingState, gang: Gang) -> None:
    due_ms = message_due_ms(state, gang)
    if due_ms != gang.due_ms:
        gang.due_ms = due_ms
        if due_ms is not None:
            heappush(state.gang_message_heap, (due_ms, gang.gang))


def message_due_ms(state: QueueingState, gang: Gang) -> int | None:
    """Return when members get their gang's message again, ms. A try is mostly over before that
    matters; and while a gang can be tried, the outcome of its tries is the message.
    """
    if gang.committed and not gang.waiting:
        return None
    look_ms = gang.refresh_ms if state.config.confirm_ms else 0
    if gang.attempt:
        least_ms = gang.tried_ms + GANG_MESSAGE_AFTER_MS
        times = [max(at_ms, least_ms) for at_ms in (gang.message_ms, look_ms) if at_ms]
    else:
        is_gated = is_not_tried_message(gang)
        times = [gang.message_ms] if gang.message_ms and gang.message else []
        times += [look_ms] if look_ms and is_gated else []
    return min(times) if times else None


def index(state: QueueingState, gang: Gang) -> None:
    """Register the gang for improvements of the signatures it was last tried with."""
    for sig in gang.sigs:
        state.gangs_by_sig.setdefault(sig, {})[gang.gang] = None


def end_index(state: QueueingState, gang: Gang) -> None:
    """Forget the signatures it was last tried with."""
    for sig in gang.sigs:
        state.gangs_by_sig.get(sig, {}).pop(gang.gang, None)
    gang.sigs = ()


def count(state: QueueingState, rows: Rows, waiting: int = 0, running: int = 0) -> None:
    """Count members that entered (+1) or left (-1) these states."""
    if not state.gangs:
        return
    for number, part in by_number(state.pods.gang[rows].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None:
            gang.waiting += waiting * len(part)
            gang.running += running * len(part)
            assert gang.waiting >= 0
            touch(state, gang)


def count_bound(state: QueueingState, ids: I64, rows: Rows) -> None:
    """Count members that have a node for good, and remember them: the table of pods forgets them,
    and their end counts. Those that were reserved are about to leave that state.
    """
    numbers = state.pods.gang[rows]
    for at in np.flatnonzero(numbers).tolist():
        gang = GangId(numbers.item(at))
        if gang in state.gangs:
            state.bound_members[PodId(ids.item(at))] = gang
            state.gangs[gang].running += 1
            state.gangs[gang].bound += 1


def resume(state: QueueingState, rows: Rows) -> None:
    """Commit again the gangs of these bound pods that had fallen below minCount, if enough run."""
    for number in np.unique(state.pods.gang[rows]).tolist():
        gang = state.gangs.get(number)
        if gang is None:
            continue
        may_commit = gang.topology is None and not gang.tree and not gang.root
        if gang.started and may_commit and not gang.attempt and gang.running >= least(gang):
            gang.committed = True
        touch(state, gang)


def count_ended(state: QueueingState, event: PodsGone) -> list[Gang]:
    """Count bound members that ended; return the committed gangs of which fewer than minCount are
    left. A member that finished after the start has done its part, so it still counts: its gang
    must not wait for a pod that nobody will create.
    """
    deleted = set(unpack(event.deleted).tolist())
    fallen: dict[GangId, Gang] = {}
    for pod in as_numbers(event.ids):
        gang = state.gangs.get(state.bound_members.pop(pod, NO_GANG))
        if gang is None:
            continue
        gang.bound -= 1
        if gang.started and pod not in deleted:
            touch(state, gang)
            continue
        gang.running -= 1
        assert gang.running >= 0
        if gang.committed and gang.running < least(gang):
            fallen[gang.gang] = gang
        touch(state, gang)
    return list(fallen.values())


def fallen(state: QueueingState, numbers: NDArray[np.int32]) -> list[Gang]:
    """Return those of these gangs that were committed and have fallen below minCount."""
    known = np.unique(numbers).tolist()
    gangs = [state.gangs[number] for number in known if number in state.gangs]
    return [gang for gang in gangs if gang.committed and gang.running < least(gang)]


def join(state: QueueingState, gang: Gang, ids: I64) -> None:
    """Add pods to the gang. Finished members are removed when there are many."""
    if len(gang.members) >= gang.members_max:
        kept = open_members(state, gang)
        gang.members = array("q", kept.tobytes())
        gang.members_max = max(MEMBERS_KEPT_MIN, 2 * len(kept))
    gang.members.frombytes(ids.tobytes())
    root = group_trees.root_of(state, gang)
    if root.failures:
        root.improved = True
        touch(state, root)


def apply_gates(state: QueueingState, ids: I64) -> I64:
    """Return the pods that users' PreEnqueue plugins allow; the others, removed before, become
    gated.
    """
    pods, is_open = state.pods, np.ones(len(ids), np.bool_)
    for sig, part in by_number(pods.sig[pods.rows(ids)].astype(np.int64)):
        if sig in state.gates:
            pods.move("gated", ids[part], pods.rows(ids[part]))
            is_open[part] = False
    return ids[is_open]


def queue_members(state: QueueingState, gang: Gang, ids: I64, is_new: bool = True) -> None:
    """Let members wait for the gang's next try; those that were tried have a message."""
    pods = state.pods
    if state.gates:
        ids = apply_gates(state, ids)
        if not len(ids):
            return
    rows, root = pods.rows(ids), group_trees.root_of(state, gang)
    pods.move("waits", ids, rows)
    state.assign_order(rows, len(ids))
    for sig, _part in by_number(pods.sig[rows].astype(np.int64)):
        gang.priority = max(gang.priority, state.sigs[sig].priority)
        root.priority = max(root.priority, gang.priority)
    gang.waiting += len(ids)
    if is_new and not root.message_ms:
        root.message_ms = state.now_ms + GANG_MESSAGE_AFTER_MS
    touch(state, gang)


def queue_tried(state: QueueingState, gang: Gang, ids: I64) -> None:
    """Let members of an ended attempt wait for the next one."""
    for number, part in by_number(state.pods.gang[state.pods.rows(ids)].astype(np.int64)):
        queue_members(state, state.gangs.get(number, gang), ids[part], is_new=False)


def reorder(state: QueueingState) -> None:
    """Reorder gangs by the highest order of the members that are not finished."""
    pods = state.pods
    rows = np.flatnonzero((pods.gang != 0) & (pods.state != UNKNOWN) & (pods.state < BOUND))
    highest: dict[GangId, int] = {}
    for number, sig in zip(pods.gang[rows].tolist(), pods.sig[rows].tolist(), strict=True):
        order = state.sigs[sig].priority
        highest[number] = max(highest.get(number, order), order)
    for number, order in highest.items():
        if number in state.gangs:
            state.gangs[number].priority = order
    for gang in state.gangs.values():
        if gang.tree:
            groups = [group.priority for group in group_trees.groups_of(state, gang)]
            gang.priority = max(groups, default=gang.priority)


def needed(gang: Gang) -> int:
    """Return how many pending members need a node for minCount."""
    return max(1, least(gang) - gang.running)


def rejoin(state: QueueingState, ids: I64, failed: bool) -> I64:
    """Let members wait for their gangs' next try, after a backoff if they `failed` to be bound;
    return the pods of no such gang, all removed before.
    """
    single = np.ones(len(ids), np.bool_)
    for number, part in by_number(state.pods.gang[state.pods.rows(ids)].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None and not gang.committed:
            single[part] = False
            state.pods.attempt[state.pods.rows(ids[part])] = 0
            if failed:
                note_failure(state, group_trees.root_of(state, gang))
            queue_members(state, gang, ids[part], is_new=False)
    return ids[single]


def hold_back(state: QueueingState, ids: I64) -> I64:
    """Let members above minCount wait for gangs that lack theirs; return the other pods, all
    removed before.
    """
    if not (state.lacking_minimum and len(ids)):
        return ids
    free = np.ones(len(ids), np.bool_)
    for number, part in by_number(state.pods.gang[state.pods.rows(ids)].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None and growth.must_wait(state, gang):
            free[part] = False
            queue_members(state, gang, ids[part], is_new=False)
    return ids[free]


def note_failure(state: QueueingState, gang: Gang) -> None:
    """Count a failure and start the gang's backoff."""
    gang.failures += 1
    gang.failed_ms = state.now_ms
    # Releasing the holds of this try is an improvement too: without a least wait the gang would
    # wake itself for ever.
    wait_ms = max(backoff_ms(state.config, gang.failures), GANG_RETRY_MS_MIN)
    gang.until_ms = state.now_ms + wait_ms


def forget(state: QueueingState, rows: Rows) -> None:
    """Drop the records of groups without object and members."""
    for number, _part in by_number(state.pods.gang[rows].astype(np.int64)):
        gang = state.gangs.get(number)
        if gang is not None and not gang.exists:
            drop(state, gang)


def drop(state: QueueingState, gang: Gang) -> None:
    """Drop the record of a deleted group if it has no member left, and of a root if no PodGroup
    names it.
    """
    if len(open_members(state, gang)) or gang.tried_groups:
        return
    if gang.key.endswith(COMPOSITE) and any(
        other.root == gang.gang for other in state.gangs.values()
    ):
        return
    gang.committed = True
    end_index(state, gang)
    del state.gangs[gang.gang]
    if gang.bound:  # a new group with this number must not count them
        for pod in [pod for pod, one in state.bound_members.items() if one == gang.gang]:
            del state.bound_members[pod]
    others = state.workloads.get(workload_of(gang.key))
    if others is not None:
        others.pop(gang.gang)
        if not others:
            del state.workloads[workload_of(gang.key)]
    state.messages_due.pop(gang.gang, None)
    state.shown_due.pop(gang.gang, None)
    state.gangs_in_flight.pop(gang.gang, None)
    state.gang_asks.pop(gang.gang, None)
    state.gangs_refreshed.pop(gang.gang, None)
    state.below_minimum.pop(gang.gang, None)
    state.lacking_minimum.pop(gang.gang, None)
    state.growing.pop(gang.gang, None)


def ask_early_ms(gang: Gang) -> int:
    """Return when it may ask preemption again after an improvement, ms. Gangs whose asks fail, or
    that improve each other's nodes by releasing holds, must not repeat that at once for ever.
    """
    if not gang.asks:
        return 0
    wait_ms = GANG_ASK_AGAIN_MS_MIN << min(gang.asks - 1, 30)
    return gang.ask_closed_ms + min(wait_ms, GANG_ASK_AGAIN_MS)


def note_improved(state: QueueingState, sig: SignatureId) -> None:
    """Note that a shard may fit pods of this signature again."""
    for number in sorted(state.gangs_by_sig.get(sig, {})):
        gang = state.gangs[number]
        gang.improved = True
        gang.ask_ms = min(gang.ask_ms, ask_early_ms(gang))
        touch(state, gang)


def first_ready(state: QueueingState, may_borrow: bool = True) -> Gang | None:
    """Return the gang of highest priority, then age, that can be tried now; one that borrows only
    if it `may_borrow`.
    """
    _give_places(state)
    if state.quota is None or not state.quota.has_guarantees:
        return _first(state, state.gangs_ready)
    standings = (PLAIN, CLAIMS, BORROWS) if may_borrow else (PLAIN, CLAIMS)
    found = [_first(state, ready_gangs(state, standing)) for standing in standings]
    ready = [gang for gang in found if gang is not None]
    return min(ready, key=lambda gang: (-gang.priority, gang.seq), default=None)


def first_claiming(state: QueueingState) -> Gang | None:
    """Return the first gang that can be tried now whose minimum claims."""
    _give_places(state)
    return _first(state, ready_gangs(state, CLAIMS))


def _give_places(state: QueueingState) -> None:
    """Add the gangs that can be tried since the last look."""
    while state.gang_timers and state.gang_timers[0][0] <= state.now_ms:
        gang = _pop_timer(state)
        if gang is not None and is_due(state, gang):
            give_place(state, gang)
    if state.growing:
        _give_places_back(state)
    if state.quota is not None and state.quota.unsorted_gangs:
        numbers, state.quota.unsorted_gangs = state.quota.unsorted_gangs, {}
        for gang in (state.gangs[number] for number in numbers if number in state.gangs):
            standing = gang_standing(state, gang, needed(gang)) if complete(gang) else PLAIN
            _give_place(state, gang, standing)


def _first(state: QueueingState, heap: list[GangEntry]) -> Gang | None:
    while heap:
        gang = state.gangs.get(heap[0][2])
        if gang is not None and gang.place == heap[0]:
            is_first = heap[0][0] == -gang.priority and ready(state, gang)
            if is_first and not are_held(state, gang, needed(gang)):
                standing = heap[0][3]
                if standing != CLAIMS or gang_standing(state, gang, needed(gang)) == CLAIMS:
                    return gang
                _give_place(state, gang, BORROWS)
            else:
                gang.place = None
                if complete(gang) and has_minimum(gang):
                    state.growing[gang.gang] = None
        heappop(heap)
    return None


def _give_places_back(state: QueueingState) -> None:
    """Add gangs that waited for others' minimums to those that can be tried."""
    waited = [state.gangs[number] for number in state.growing]
    for gang in waited:
        if not gang.committed and (not complete(gang) or ready(state, gang)):
            del state.growing[gang.gang]
            if complete(gang):
                give_place(state, gang)


def _pop_timer(state: QueueingState) -> Gang | None:
    """Remove the first timer and return its gang."""
    at_ms, number = heappop(state.gang_timers)
    gang = state.gangs.get(number)
    if gang is not None and gang.timer_ms == at_ms:
        gang.timer_ms = None
    return gang


def head_starts(state: QueueingState) -> list[Gang]:
    """Return the gangs dispatched a moment ago: they need several hops for what a single pod gets
    in one, so younger pods must not take their room meanwhile.
    """
    since_ms = state.now_ms - HEAD_START_MS
    return [
        gang
        for gang in map(state.gangs.__getitem__, state.gangs_in_flight)
        if gang.tried_ms > since_ms
    ]


def next_timer_ms(state: QueueingState) -> int | None:
    """Return when the next failed gang may be tried, ms."""
    while state.gang_timers:
        at_ms, number = state.gang_timers[0]
        gang = state.gangs.get(number)
        waits = gang is not None and not gang.attempt and complete(gang)
        if gang is not None and waits and retry_ms(state, gang) == at_ms:
            return at_ms
        _pop_timer(state)
    return None
