"""CompositePodGroups: the root of a tree is tried with the members of all PodGroups in it.

A pod's gang is its PodGroup. A PodGroup in a tree is never tried alone: its root has the age, the
attempts, the backoff and the message. When a PodGroup changes, the root's members are counted
again.
"""

from collections.abc import Iterator

import numpy as np

from services.queueing.core.state import Gang, QueueingState
from shared.model.columns import I64
from shared.model.groups.trees import (
    GroupTree,
    feasible_leaves,
    least_members,
    leaves,
    missing,
    no_quorum,
)
from shared.model.ids import GangId


def root_of(state: QueueingState, gang: Gang) -> Gang:
    """Return the gang with which a gang is tried: the root of its tree, or itself."""
    return state.gangs.get(gang.root, gang) if gang.root else gang


def groups_of(state: QueueingState, gang: Gang) -> Iterator[Gang]:
    """Yield the gangs that have the members of a gang: the PodGroups of its tree, or itself."""
    if not gang.tree:
        yield gang
        return
    for number in leaves(gang.tree):
        group = state.gangs.get(number)
        if group is not None and group.root == gang.gang:
            yield group


def update(state: QueueingState, root: Gang) -> None:
    """Update what a root waits for and has, after a change of a PodGroup in its tree."""
    groups = list(groups_of(state, root))
    root.waiting = sum(group.waiting for group in groups)
    root.running = sum(group.running for group in groups)
    root.lacking = root.problem
    if root.problem or root.attempt or not root.waiting:
        return
    known = {group.gang: group.waiting + group.running for group in groups}
    if feasible_leaves(root.tree, known) is None:
        root.lacking = no_quorum(root.key)


def missing_of(state: QueueingState, root: Gang) -> GroupTree:
    """Return the tree with what each PodGroup needs besides its members that have a node."""
    return missing(root.tree, {group.gang: group.running for group in groups_of(state, root)})


def in_order(state: QueueingState, root: Gang, ids: I64) -> tuple[I64, ...]:
    """Return the members by PodGroup, in the order of the tree."""
    numbers = state.pods.gang[state.pods.rows(ids)]
    columns = (ids[np.flatnonzero(numbers == group.gang)] for group in groups_of(state, root))
    return tuple(column for column in columns if len(column))


def needed_members(state: QueueingState, root: Gang, ids: I64) -> I64:
    """Return the first pending members with which the tree may start; none if it has started or too
    few wait. Preemption makes room for these.
    """
    by_group = {
        int(state.pods.gang_at[column.item(0) - state.pods.base]): column
        for column in in_order(state, root, ids)
    }
    waiting = {GangId(number): len(column) for number, column in by_group.items()}
    counts = least_members(missing_of(state, root), waiting) or {}
    columns = [by_group[gang][:count] for gang, count in counts.items() if count]
    return np.concatenate(columns) if columns else np.zeros(0, np.int64)
