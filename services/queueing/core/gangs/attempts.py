"""Gangs in the queue: when the whole gang is tried, the outcome of its attempts, and the lane.

A gang is one entry in the order of priority and age. Its members are single pods again once it is
committed. Queueing does not know their nodes.
"""

import numpy as np
from msgspec import structs

from services.queueing.core.gangs import (
    group_trees,
    growth,
    kept_places,
    minimums,
    preemption,
    provisioning,
)
from services.queueing.core.gangs.group_trees import groups_of, missing_of
from services.queueing.core.gangs.member_lists import members_in, placed_members
from services.queueing.core.gangs.members import (
    drop,
    end_index,
    ensure_gang,
    index,
    least,
    needed,
    note_failure,
    queue_tried,
    touch,
    update_workload,
)
from services.queueing.core.pods import moves
from services.queueing.core.state import Gang, QueueingState, by_number
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import message_refresh
from services.queueing.core.waiting.messages import members_message, timed_out_message
from shared.events.ingest import GangGone, GangSet
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.queueing import (
    GangDispatched,
    GangFailed,
    GangGrows,
    GangShown,
    GangWaits,
    LaneTaken,
    Members,
)
from shared.model.columns import I64, size, unpack
from shared.model.groups.below_minimum import SHRINK
from shared.model.groups.trees import GroupTree, has_topology
from shared.model.ids import NO_ATTEMPT, NO_GANG, AttemptId, GangId, PodId

# ------------------------------------------------------------------ inputs


def on_gang_set(state: QueueingState, event: GangSet) -> None:
    """Add or change a group; a changed one may be tried at once."""
    gang = ensure_gang(state, event.gang, event.key)
    is_changed = event.version > gang.version
    if is_changed:
        gang.failures, gang.verdict, gang.shortage, gang.is_error = 0, "", "", False
        preemption.recall(state, gang)
    gang.exists, gang.version = True, event.version
    gang.min_count, gang.timeout_ms = event.min_count, event.timeout_ms
    gang.topology, gang.minimums, gang.lacking = event.topology, event.minimums, ""
    gang.group_priority, gang.provisioning = event.priority, event.provisioning
    gang.tree, gang.problem = event.tree, event.problem
    if event.root != gang.root:
        _move_to_root(state, gang, event.root)
    provisioning.note_group(state, gang, is_changed)
    gang.below_minimum = event.below_minimum
    if gang.below_minimum is None or gang.below_minimum.rule != SHRINK:
        gang.shrunk = False
    if gang.committed and gang.running < least(gang):
        moves.regroup(state, gang)
    update_workload(state, gang)
    touch(state, gang)


def _move_to_root(state: QueueingState, gang: Gang, root: GangId) -> None:
    """Let a PodGroup be tried with another root, or by itself."""
    before = group_trees.root_of(state, gang)
    gang.root = root
    if root:
        after = ensure_gang(state, root)
        after.seq, after.priority = min(after.seq, gang.seq), max(after.priority, gang.priority)
        after.message_ms = after.message_ms or gang.message_ms
        end_index(state, gang)
    if gang.committed:
        moves.regroup(state, gang)
    touch(state, before)
    if before is not gang and not before.exists:
        drop(state, before)


def on_gang_gone(state: QueueingState, event: GangGone) -> None:
    """Delete a group; its pending members wait for a group of that name."""
    gang = state.gangs.get(event.gang)
    if gang is not None:
        gang.exists = False
        if gang.tree:
            gang.tree, gang.problem, gang.waiting, gang.running = (), "", 0, 0
        if gang.root:
            _move_to_root(state, gang, NO_GANG)
        preemption.recall(state, gang)
        update_workload(state, gang)
        touch(state, gang)
        drop(state, gang)


def on_gang_committed(state: QueueingState, event: GangCommitted) -> None:
    """Note the members that have nodes; the others, and later ones, are single pods, or with a
    topology are tried as members that join the others.
    """
    gang = state.gangs.get(event.gang)
    if gang is None or gang.attempt != event.attempt:
        return
    pods = state.pods
    ids = pods.select(unpack(event.ids), Pod.GANG_IN_FLIGHT, event.attempt)
    end_index(state, gang)
    rests = [members_in(state, gang, code) for code in (Pod.GANG_IN_FLIGHT, Pod.GANG_PENDING)]
    gang.attempt, gang.tried_groups, gang.started, gang.failures = NO_ATTEMPT, (), True, 0
    gang.verdict, gang.shortage, gang.is_error = "", "", False
    preemption.recall(state, gang)
    if gang.tree:
        _start_groups(state, unpack(event.ids))
    if len(ids):
        rows = pods.rows(ids)
        pods.move("gang_committed", ids, rows)
        pods.attempt[rows] = 0
        _count_committed(state, gang, ids)
    # A member that was deleted meanwhile may be missing.
    is_whole = gang.running >= least(gang)
    gang.committed = gang.topology is None and not gang.tree and is_whole
    for rest in rests:
        rest = np.setdiff1d(rest, ids)
        if len(rest):
            moves.leave(state, rest, pods.rows(rest))
            pods.attempt[pods.rows(rest)] = 0
            moves.requeue(state, rest)
    if state.kept_places:
        kept_places.note_committed(state, gang, event)
    touch(state, gang)


def _count_committed(state: QueueingState, gang: Gang, ids: I64) -> None:
    """Count members that have nodes now."""
    for number, part in by_number(state.pods.gang[state.pods.rows(ids)].astype(np.int64)):
        group = state.gangs.get(number, gang)
        group.running += len(part)
        if group is not gang:
            touch(state, group)


def _start_groups(state: QueueingState, ids: I64) -> None:
    """Note which PodGroups start; some of their members may be known to be bound already."""
    known = state.pods.known(ids)
    numbers = {GangId(number) for number in state.pods.gang[state.pods.rows(known)].tolist()}
    numbers |= {state.bound_members.get(pod, NO_GANG) for pod in ids.tolist()}
    for number in sorted(numbers & state.gangs.keys()):
        group = state.gangs[number]
        group.started, group.verdict, group.is_error = True, "", False
        touch(state, group)


def on_gang_released(state: QueueingState, event: GangReleased) -> None:
    """End an attempt without holds. It is no failure if the gang has changed since the dispatch."""
    gang = state.gangs.get(event.gang)
    if gang is None or gang.attempt != event.attempt:
        return
    if not event.stale:
        preemption.note_no_room(state, gang, event)
        gang.shortage = text = members_message(gang, event)
        _fail_attempt(state, gang, f"{text} {gang.note}" if gang.note and event.nodes else text)
    _requeue_members(state, gang)


def on_gang_timed_out(state: QueueingState, event: GangTimedOut) -> None:
    """Note the end of a permit timeout. An attempt dispatched meanwhile starts a new one."""
    gang = state.gangs.get(event.gang)
    if gang is None or gang.committed or gang.attempt not in (0, event.attempt):
        return
    _fail_attempt(state, gang, timed_out_message(gang))
    _requeue_members(state, gang)


def _fail_attempt(state: QueueingState, gang: Gang, verdict: str) -> None:
    note_failure(state, gang)
    gang.verdict, gang.is_error = verdict, False
    _show_in_groups(state, gang)
    message_refresh.refresh_gang_message(state, gang)


def _show_in_groups(state: QueueingState, gang: Gang) -> None:
    """Let the conditions of PodGroups that have not started say what their root's message says."""
    for group in groups_of(state, gang) if gang.tree else ():
        if not group.started:
            group.verdict, group.is_error = gang.verdict, gang.is_error
            touch(state, group)


def _requeue_members(state: QueueingState, gang: Gang) -> None:
    ids = members_in(state, gang, Pod.GANG_IN_FLIGHT)
    gang.attempt, gang.tried_groups = NO_ATTEMPT, ()
    if len(ids):
        state.pods.attempt[state.pods.rows(ids)] = 0
        queue_tried(state, gang, ids)
    touch(state, gang)
    if not gang.exists:
        drop(state, gang)


# -------------------------------------------------------------- own events


def on_gang_dispatched(state: QueueingState, event: GangDispatched) -> None:
    """Note the attempt; the members belong to permit until its answer."""
    gang = state.gangs[event.gang]
    assert not gang.attempt, f"gang {gang.gang}: attempt {gang.attempt} is open"
    pods = state.pods
    for part in event.members:
        ids = unpack(part.ids)
        rows = pods.rows(ids)
        pods.move("gang_dispatched", ids, rows)
        pods.attempt[rows] = event.attempt
        group = state.gangs[GangId(int(pods.gang[rows][0]))] if event.tree else gang
        group.waiting -= len(ids)
    gang.tried_groups = tuple(dict.fromkeys(event.leaves))
    gang.attempt, gang.tried_ms, gang.improved = event.attempt, state.now_ms, False
    gang.has_room, gang.held = False, ""
    for sig in gang.sigs:
        state.gangs_by_sig[sig].pop(gang.gang, None)
    gang.sigs = tuple(sorted({part.sig for part in event.members}))
    index(state, gang)
    state.next_attempt = event.attempt + 1
    touch(state, gang)


def on_gang_waits(state: QueueingState, event: GangWaits) -> None:
    """Note that the message was sent."""
    gang = state.gangs[event.gang]
    is_new = event.message != gang.message
    gang.message = event.message
    message_refresh.note_gang_message(state, gang, is_new)
    touch(state, gang)


def on_gang_failed(state: QueueingState, event: GangFailed) -> None:
    """Note the error; the members wait for the next try."""
    gang = state.gangs[event.gang]
    preemption.recall(state, gang)
    _fail_attempt(state, gang, event.message)
    gang.is_error, gang.improved = True, False
    _show_in_groups(state, gang)
    touch(state, gang)


def on_gang_shown(state: QueueingState, event: GangShown) -> None:
    """Note what the gang's PodGroup is to say."""
    gang = state.gangs[event.gang]
    gang.shown = event.message
    touch(state, gang)


def on_gang_grows(state: QueueingState, event: GangGrows) -> None:
    """Let members that waited for other gangs go on as single pods."""
    gang = state.gangs[event.gang]
    ids = members_in(state, gang, Pod.GANG_PENDING)
    moves.leave(state, ids, state.pods.rows(ids))
    moves.requeue(state, ids)
    touch(state, gang)


def on_lane_taken(state: QueueingState, event: LaneTaken) -> None:
    """Give the gang the lane: for a while nothing of its priority or less is dispatched."""
    state.lane.gang, state.lane.until_ms = event.gang, event.until_ms
    state.lane.priority = state.gangs[event.gang].priority


# --------------------------------------------------------------- decisions


def decide_gang_dispatch(
    state: QueueingState, gang: Gang, members: tuple[Members, ...]
) -> GangDispatched:
    """Return the dispatch of these members of the gang."""
    groups = (GangId(int(state.pods.gang_at[_row(state, part)])) for part in members)
    may_grow = not gang.tree and sum(size(part.ids) for part in members) > needed(gang)
    return GangDispatched(
        AttemptId(state.next_attempt),
        gang.gang,
        gang.version,
        needed(gang),
        members,
        gang.timeout_ms,
        lane=state.lane.gang == gang.gang,
        preempts=not gang.minimums and preemption.may_preempt(state, members),
        topology=gang.topology,
        placed=placed_members(state, gang) if gang.topology is not None else b"",
        minimums=minimums.of_attempt(state, gang),
        tree=_asked_tree(state, gang),
        leaves=tuple(groups) if gang.tree else (),
        minimum_only=may_grow and growth.must_wait(state, gang),
    )


def _asked_tree(state: QueueingState, root: Gang) -> GroupTree:
    """Return the tree with what its groups need; with topologies also who has a node."""
    tree = missing_of(state, root) if root.tree else ()
    if not has_topology(tree):
        return tree
    placed = {one.gang: placed_members(state, one) for one in groups_of(state, root)}
    return tuple(
        structs.replace(node, placed=placed[node.gang]) if placed.get(node.gang) else node
        for node in tree
    )


def _row(state: QueueingState, part: Members) -> int:
    return PodId(unpack(part.ids).item(0)) - state.pods.base
