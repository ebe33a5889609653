"""Lists a gang's members: those in a state, with a node, open, or pending by signature."""

from collections.abc import Iterable

import numpy as np

from services.queueing.core.gangs import group_trees, minimums
from services.queueing.core.state import Gang, QueueingState, by_number
from services.queueing.core.transitions import Pod
from shared.events.queueing import Members
from shared.model.columns import I64, pack

BOUND = int(Pod.BOUND)
NO_IDS: I64 = np.zeros(0, np.int64)


def members_in(state: QueueingState, gang: Gang, code: Pod) -> I64:
    """Return the members in this state, by id."""
    ids = open_members(state, gang)
    rows = ids - state.pods.base
    is_there = state.pods.state[rows] == code
    if gang.tried_groups and code is Pod.GANG_IN_FLIGHT:
        is_there &= state.pods.attempt[rows] == gang.attempt
    there: I64 = ids[is_there]
    return there


def placed_members(state: QueueingState, gang: Gang) -> bytes:
    """Return the members that have a node, by id."""
    if not gang.running:
        return b""
    groups = {group.gang for group in group_trees.groups_of(state, gang)}
    bound = [pod for pod, number in state.bound_members.items() if number in groups]
    reserved = members_in(state, gang, Pod.RESERVED)
    return pack(np.sort(np.concatenate((reserved, np.array(bound, np.int64)))))


def pending_groups(state: QueueingState, gang: Gang) -> tuple[Members, ...]:
    """Return all pending members by signature, the highest priority first; before them those that
    its parts need.
    """
    pods = state.pods
    ids = members_in(state, gang, Pod.GANG_PENDING)
    ids = ids[pods.seq[pods.rows(ids)].argsort(kind="stable")]
    columns: tuple[I64, ...] = (ids,)
    if gang.minimums:
        columns = minimums.first_and_rest(state, gang, ids)
    elif gang.tree:
        columns = group_trees.in_order(state, gang, ids)
    return _by_signature(state, columns)


def needed_groups(state: QueueingState, root: Gang) -> tuple[Members, ...]:
    """Return the first pending members with which a tree may start, by signature."""
    ids = members_in(state, root, Pod.GANG_PENDING)
    ids = ids[state.pods.seq[state.pods.rows(ids)].argsort(kind="stable")]
    needed_ids = group_trees.needed_members(state, root, ids)
    return _by_signature(state, (needed_ids,)) if len(needed_ids) else ()


def _by_signature(state: QueueingState, columns: Iterable[I64]) -> tuple[Members, ...]:
    pods, found = state.pods, list[Members]()
    for column in columns:
        groups = by_number(pods.sig[pods.rows(column)].astype(np.int64))
        groups.sort(key=lambda group: (-state.sigs[group[0]].priority, group[0]))
        found += [Members(sig, pack(column[part])) for sig, part in groups]
    return tuple(found)


def open_members(state: QueueingState, gang: Gang) -> I64:
    """Return the members that are not finished, by id; of a root those of its tree, and those in
    its open attempt.
    """
    if gang.tree or gang.tried_groups:
        groups = {group.gang: group for group in group_trees.groups_of(state, gang)}
        groups |= {one: state.gangs[one] for one in gang.tried_groups if one in state.gangs}
        return np.unique(
            np.concatenate([NO_IDS, *(_open_members_of(state, one) for one in groups.values())])
        )
    return _open_members_of(state, gang)


def _open_members_of(state: QueueingState, gang: Gang) -> I64:
    pods = state.pods
    ids = pods.known(np.unique(np.frombuffer(gang.members, np.int64).copy()))
    rows = ids - pods.base
    there: I64 = ids[(pods.state[rows] < BOUND) & (pods.gang[rows] == gang.gang)]
    return there
