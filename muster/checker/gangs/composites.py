"""Checks CompositePodGroups: no group starts with fewer members or groups than it needs.

The checker counts itself, from queueing's inputs, how many members each PodGroup still needs. It
judges each commit by the tree that was dispatched, from the leaves up.
"""

from collections.abc import Iterator, Mapping, Sequence

from muster.checker.gangs.placed_members import PlacedMembers
from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.ingest import GangGone, GangSet
from shared.events.permit import GangCommitted
from shared.events.queueing import GangDispatched
from shared.model.columns import unpack
from shared.model.groups.trees import GroupNode


def check(queueing: Journal, permit: Journal, gang_of: Mapping[int, int]) -> Iterator[Problem]:
    """Yield dispatches whose tree is wrong, and commits of groups that do not start."""
    yield from _check_dispatches(queueing, gang_of)
    sent: dict[tuple[int, int], GangDispatched] = {}
    for step in permit.steps:
        for _source, _position, event in step.inputs:
            if isinstance(event, GangDispatched) and event.tree:
                sent[event.gang, event.attempt] = event
        for event in step.own:
            asked = _asked(sent, event)
            if isinstance(event, GangCommitted) and asked is not None:
                for text in _faults(asked.tree, _counts(event, gang_of)):
                    where = f"permit/0 at {step.position}: gang {event.gang}"
                    yield "composite", f"{where} committed with {text}"


def _asked(sent: Mapping[tuple[int, int], GangDispatched], event: Event) -> GangDispatched | None:
    return sent.get((event.gang, event.attempt)) if isinstance(event, GangCommitted) else None


def _check_dispatches(journal: Journal, gang_of: Mapping[int, int]) -> Iterator[Problem]:
    placed, trees = PlacedMembers(gang_of), dict[int, tuple[GroupNode, ...]]()
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            placed.learn(event)
            if isinstance(event, GangSet):
                trees[event.gang] = event.tree
            elif isinstance(event, GangGone):
                trees.pop(event.gang, None)
        for event in step.own:
            if isinstance(event, GangDispatched) and (event.tree or trees.get(event.gang)):
                known = tuple(map(_shape, trees.get(event.gang, ())))
                needs = [
                    (one.gang, one.least, placed.needed(one.gang))
                    for one in event.tree
                    if not one.is_composite and one.least != placed.needed(one.gang)
                ]
                where = f"queueing/0 at {step.position}: gang {event.gang}"
                if known != tuple(map(_shape, event.tree)):
                    yield "composite", f"{where} is dispatched with another tree than it has"
                for gang, least, needed in needs:
                    yield "composite", f"{where} asks for {least} of group {gang}, not {needed}"
                for text in _wrongly_placed(event.tree, placed):
                    yield "composite", f"{where} is dispatched {text}"


def _wrongly_placed(tree: Sequence[GroupNode], placed: PlacedMembers) -> Iterator[str]:
    """Yield each PodGroup of a tree with topologies whose members with a node are others."""
    for node in tree if any(one.key for one in tree) else ():
        sent = set(unpack(node.placed).tolist())
        running = placed.running.get(node.gang, set())
        if not node.is_composite and sent != running:
            yield f"with {sorted(sent)} of group {node.gang} as placed, not {sorted(running)}"


def _shape(node: GroupNode) -> tuple[int, int, bool, str, int]:
    least = node.least if node.is_composite else 0
    return node.gang, node.depth, node.is_composite, node.key, least


def _counts(event: GangCommitted, gang_of: Mapping[int, int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for pod in unpack(event.ids).tolist():
        counts[gang_of.get(pod, 0)] = counts.get(gang_of.get(pod, 0), 0) + 1
    return counts


def _faults(tree: Sequence[GroupNode], counts: Mapping[int, int]) -> Iterator[str]:
    """Yield each group with members that start although it, or a group above it, does not."""
    starts: list[bool] = [False] * len(tree)
    parents = [_parent(tree, at) for at in range(len(tree))]
    for at in reversed(range(len(tree))):
        below = sum(starts[child] for child, parent in enumerate(parents) if parent == at)
        have = below if tree[at].is_composite else counts.get(tree[at].gang, 0)
        starts[at] = have >= tree[at].least
    for at, node in enumerate(tree):
        above: int | None = at
        while above is not None and not node.is_composite and counts.get(node.gang, 0):
            if not starts[above]:
                have, least = counts[node.gang], tree[above].least
                yield f"{have} of group {node.gang}, but {tree[above].gang} needs {least}"
            above = parents[above]
    others = set(counts) - {node.gang for node in tree if not node.is_composite}
    if others:
        yield f"members of {sorted(others)}, which are not in its tree"


def _parent(tree: Sequence[GroupNode], at: int) -> int | None:
    over = (one for one in reversed(range(at)) if tree[one].depth < tree[at].depth)
    return next(over, None)
