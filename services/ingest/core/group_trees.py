"""CompositePodGroups: which groups are in which tree, and what is published of it.

A PodGroup in a tree is published with the tree's root, and the root, after them, with the whole
tree. A composite group that children name before it exists is a root with a problem. Of groups in a
circle the first by key is the root.
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from services.ingest.core.signatures import acquire_gang, forget_gang
from services.ingest.core.state import GangRecord, IngestState
from shared.events.ingest import GangGone, GangSet, UnitJoined
from shared.model.columns import pack
from shared.model.groups.trees import GroupNode, no_quorum
from shared.model.ids import NO_GANG, GangId
from shared.model.objects import Gang

DEPTH_MAX = 3
"""Of CompositePodGroups above a PodGroup (WorkloadMaxTreeDepth of kube-scheduler, less one)."""
Publish = Callable[[IngestState, GangRecord, Gang], None]


def index_group(state: IngestState, key: str, gang: Gang) -> None:
    """Index a group by its parent."""
    if gang.parent:
        state.children.setdefault(gang.parent, {})[key] = None


def enter(state: IngestState, gang: Gang) -> None:
    """Add a group to its tree."""
    if gang.parent:
        acquire_gang(state, gang.parent, 0)
        index_group(state, gang.key, gang)


def leave(state: IngestState, gang: Gang) -> None:
    """Remove a group from its tree."""
    if gang.parent:
        others = state.children[gang.parent]
        del others[gang.key]
        if not others:
            del state.children[gang.parent]
            _forget_parent(state, gang.parent)


def _forget_parent(state: IngestState, key: str) -> None:
    record = state.gangs[key]
    if record.gang is None and record.root:
        record.root = NO_GANG
        state.outbox.append(GangGone(record.id))
    forget_gang(state, key)


def top_of(state: IngestState, key: str) -> str:
    """Return the key of the topmost group of the tree that a group is in."""
    path = [key]
    while (parent := _parent(state, path[-1])) and parent not in path:
        path.append(parent)
    return min(path[path.index(parent) :]) if parent else path[-1]


def _parent(state: IngestState, key: str) -> str:
    record = state.gangs.get(key)
    return record.gang.parent if record is not None and record.gang is not None else ""


def publish_trees(state: IngestState, keys: Iterable[str], publish: Publish) -> None:
    """Publish the trees with these groups; `publish` publishes a PodGroup."""
    for key in dict.fromkeys([top_of(state, key) for key in keys]):
        record = state.gangs.get(key)
        if record is None or not (key in state.children or record.gang is not None):
            continue
        if record.gang is not None and not record.gang.is_in_tree:
            record.root = NO_GANG
            publish(state, record, record.gang)
        else:
            _publish_tree(state, key, record, publish)


def _publish_tree(state: IngestState, key: str, root: GangRecord, publish: Publish) -> None:
    problems: list[str] = []
    tree = tuple(_nodes(state, key, (), problems))
    for child in _below(state, key, (key,)):
        record = state.gangs[child]
        gang = record.gang
        assert gang is not None, f"group {child} has a parent and no object"
        if gang.min_groups and record.root:
            record.root = NO_GANG
            state.outbox.append(GangGone(record.id))
        elif not gang.min_groups and record.root != root.id:
            record.root = root.id
            record.version += 1
            publish(state, record, gang)
    root.root, root.version = root.id, root.version + 1
    gang = root.gang or Gang(key=key, min_count=1)
    if root.gang is None:
        problems.append(no_quorum(key))
    state.outbox.append(
        GangSet(
            *(root.id, key, 1, gang.timeout_ms, root.version),
            priority=gang.priority,
            tree=tree,
            problem=problems[-1] if problems else "",
        )
    )
    _publish_units(state, key)


def _nodes(
    state: IngestState, key: str, above: tuple[str, ...], problems: list[str]
) -> Iterator[GroupNode]:
    """Yield the tree below a group, and append what cannot be scheduled in it."""
    record, path = state.gangs[key], (*above, key)
    gang = record.gang or Gang(key=key, min_count=1, min_groups=1)
    topology = gang.topology.levels[0] if gang.topology is not None else ""
    if not gang.min_groups:
        yield GroupNode(record.id, gang.min_count, len(above), key=topology)
    elif len(path) > DEPTH_MAX:
        problems.append(f"composite pod groups are deeper than {DEPTH_MAX}: {key}")
    else:
        least, depth = gang.min_groups, len(above)
        yield GroupNode(record.id, least, depth, is_composite=True, key=topology)
        for child in _children(state, key):
            if child not in path:
                yield from _nodes(state, child, path, problems)


def _children(state: IngestState, key: str) -> list[str]:
    """Return the groups right below a composite group, the oldest first."""

    def age(child: str) -> tuple[str, str]:
        gang = state.gangs[child].gang
        return (gang.created if gang is not None else ""), child

    return sorted(state.children.get(key, ()), key=age)


def _below(state: IngestState, key: str, above: tuple[str, ...]) -> Iterator[str]:
    """Yield the groups below a composite group, parents first."""
    for child in _children(state, key):
        if child not in above:
            yield child
            yield from _below(state, child, (*above, child))


def _publish_units(state: IngestState, key: str) -> None:
    """Publish the members of units in a tree."""
    for one in (key, *_below(state, key, (key,))):
        record = state.gangs[one]
        if record.pods and unit_of(state, record.id) is not None:
            slots = state.pods.live()
            members = slots[state.pods.gangs[slots] == record.id]
            join_unit(state, record.id, pack(np.sort(state.pods.ids[members])))


def unit_of(state: IngestState, gang: GangId) -> tuple[GangId, int] | None:
    """Return which gang's pods preemption evicts together with those of this gang, and their
    priority: the highest group above them with disruptionMode all. None if each falls alone.
    """
    unit, priority, path = NO_GANG, 0, [state.gang_keys[gang]]
    while (record := state.gangs.get(path[-1])) is not None and record.gang is not None:
        unit = record.id if record.gang.is_unit else unit
        priority = record.gang.priority or 0
        parent = record.gang.parent
        if not parent or parent in path:
            break
        path.append(parent)
    return (unit, priority) if unit else None


def join_unit(state: IngestState, gang: GangId, ids: bytes) -> None:
    """Publish pods of a group in a tree if preemption evicts them with others."""
    found = unit_of(state, gang)
    if found is not None:
        state.outbox.append(UnitJoined(*found, ids))
