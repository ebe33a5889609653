"""Checks gangs with a topology: their members have nodes in one domain, and no member is placed
without the others that run.

Members that are gone, or whose bind failed, count no more once a shard knew of it when it made its
offer. A node that was relabelled is in each of the domains that it ever was in.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.checker.gangs.placed_members import PlacedMembers
from muster.checker.inputs.journals import Journal, Problem, Step
from shared.events.binding import BindFailed
from shared.events.ingest import GangSet, NodesGone, NodesSet, PodsGone, PodsPending
from shared.events.permit import GangCommitted
from shared.events.placement import GangOffered, Reserved
from shared.events.queueing import GangDispatched
from shared.model.columns import unpack
from shared.model.groups.topology import Path, Topology
from shared.model.groups.trees import GroupNode
from shared.model.ids import BINDING, INGEST, PERMIT, QUEUEING
from shared.model.objects import Node

Attempt = tuple[int, int]


@dataclass
class _World:
    """What the world journal says, with positions. `paths`: node -> the domains it ever was in."""

    topology: dict[int, Topology | None] = field(default_factory=dict)
    # Gangs that had another topology before, or groups of a tree that had other groups below.
    changed: set[int] = field(default_factory=set)
    groups: dict[int, set[int]] = field(default_factory=dict)  # of trees: PodGroups below each
    gang_of: dict[int, int] = field(default_factory=dict)
    labels: dict[int, list[dict[str, str]]] = field(default_factory=dict)
    pod_gone: dict[int, int] = field(default_factory=dict)
    node_gone: dict[int, int] = field(default_factory=dict)

    def of(self, gang: int) -> Topology | None:
        """Return the gang's topology; None if it has none, or has had another one."""
        return None if gang in self.changed else self.topology.get(gang)

    def learn_tree(self, tree: Sequence[GroupNode]) -> None:
        """Note the topologies of the groups of a tree."""
        for at, node in enumerate(tree):
            self.learn(node.gang, Topology((node.key,)) if node.key else None)
            end = at + 1
            while end < len(tree) and tree[end].depth > node.depth:
                end += 1
            below = {int(one.gang) for one in tree[at:end] if not one.is_composite}
            if not self.groups.setdefault(node.gang, below) <= below:
                self.changed.add(node.gang)
            self.groups[node.gang] = below

    def learn(self, gang: int, topology: Topology | None) -> None:
        """Note the topology of a gang."""
        before = self.topology.get(gang, topology)
        if before != topology:
            self.changed.add(gang)
        self.topology[gang] = topology

    def together(self, gang: int, pods: Collection[int]) -> Iterator[tuple[int, set[int]]]:
        """Yield the groups with a topology among a gang and the groups of its tree, with those of
        the pods that are below each.
        """
        if gang not in self.groups and self.of(gang) is not None:
            yield gang, set(pods)
        for group, below in self.groups.items() if gang in self.groups else ():
            if below <= self.groups[gang] and self.of(group) is not None:
                yield group, {pod for pod in pods if self.gang_of.get(pod, 0) in below}

    def paths(self, node: int, topology: Topology) -> set[Path | None]:
        """Return the domains of the broadest level allowed that the node ever was in."""
        keys = topology.levels[: topology.highest + 1]
        labels = self.labels.get(node, [])
        return {domain_of(one, topology.levels, len(keys)) for one in labels}


def domain_of(labels: Mapping[str, str], levels: Iterable[str], depth: int) -> Path | None:
    """Return the domain at a depth, at 0 the whole cluster; None for a node without one of the
    labels, which is in no other.
    """
    if not depth:
        return ()
    found = [labels.get(key) for key in levels]
    path = tuple(value for value in found if value is not None)
    return path[:depth] if len(path) == len(found) else None


def domains_of(
    nodes: Sequence[Node], topology: Topology, homes: Collection[str]
) -> Iterator[tuple[str, set[str]]]:
    """Yield the domains that a gang may have, the narrowest first, with the names of their nodes.
    `homes`: names of nodes on which members run.
    """
    for depth in range(topology.lowest + 1, topology.highest, -1):
        found = {node.name: domain_of(node.labels, topology.levels, depth) for node in nodes}
        allowed = {path for path in found.values() if path is not None}
        for path in sorted(allowed):
            if all(found.get(home, path) == path for home in homes):
                name = "/".join(path) or "the whole cluster"
                yield name, {one for one, where in found.items() if where == path}


def check(journals: Mapping[str, Journal]) -> Iterator[Problem]:
    """Yield the violations in one epoch's journals."""
    world = _read(journals[INGEST])
    if not any(world.topology.values()):
        return
    shards = [one for name, one in journals.items() if name.startswith("placement/")]
    known: dict[Attempt, dict[str, int]] = {}
    for shard in shards:
        yield from _shard(shard, world, known)
    yield from _dispatches(journals[QUEUEING], world)
    yield from _commits(journals[PERMIT], world, known, _failures(journals[BINDING]))


def _read(journal: Journal) -> _World:
    world = _World()
    for entry in journal.entries:
        for event in entry.events():
            match event:
                case GangSet() if event.tree:
                    world.learn_tree(event.tree)
                case GangSet() if not event.root:
                    world.learn(event.gang, event.topology)
                case PodsPending():
                    world.gang_of.update(dict.fromkeys(unpack(event.ids).tolist(), event.gang))
                case PodsGone():
                    for pod in unpack(event.ids).tolist():
                        world.pod_gone.setdefault(pod, entry.position)
                case NodesSet():
                    for node, value in zip(unpack(event.ids).tolist(), event.nodes, strict=True):
                        world.labels.setdefault(node, []).append(dict(value.labels))
                case NodesGone():
                    for node in unpack(event.ids).tolist():
                        world.node_gone.setdefault(node, entry.position)
                case _:
                    pass
    return world


def _shard(
    journal: Journal, world: _World, known: dict[Attempt, dict[str, int]]
) -> Iterator[Problem]:
    """Note up to where the shard knew the other journals when it made each offer; yield members
    that it placed one by one.
    """
    at: dict[str, int] = {}
    for step in journal.steps:
        at.update((part.journal, part.stop) for part in step.record.consumed)
        for event in step.own:
            if isinstance(event, GangOffered):
                read = known.setdefault((event.gang, event.attempt), {})
                for name, stop in at.items():
                    read[name] = max(stop, read.get(name, 0))
            elif isinstance(event, Reserved):
                for pod in unpack(event.ids).tolist():
                    gang = world.gang_of.get(pod, 0)
                    if world.of(gang) is not None:
                        text = f"pod {pod} of gang {gang} is placed without its gang"
                        yield "gang-domain", f"{journal.name} at {step.position}: {text}"


def _failures(journal: Journal) -> dict[int, list[int]]:
    """Return the positions at which each pod's binds failed."""
    found: dict[int, list[int]] = {}
    for entry in journal.entries:
        for event in entry.events():
            if isinstance(event, BindFailed):
                for pod in unpack(event.ids).tolist():
                    found.setdefault(pod, []).append(entry.position)
    return found


def _dispatches(journal: Journal, world: _World) -> Iterator[Problem]:
    """Yield dispatches that do not count the members that have a node."""
    placed = PlacedMembers(world.gang_of)
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            placed.learn(event)
        for event in step.own:
            if not isinstance(event, GangDispatched) or event.tree:
                continue
            if world.of(event.gang) is not None:
                running, needed = placed.running.get(event.gang, set()), placed.needed(event.gang)
                yield from _dispatch(step, event, running, max(1, needed))


def _dispatch(
    step: Step, event: GangDispatched, running: set[int], needed: int
) -> Iterator[Problem]:
    where = f"queueing/0 at {step.position}: gang {event.gang}"
    if event.topology is None:
        yield "gang-domain", f"{where} is sent without its topology"
    placed = set(unpack(event.placed).tolist())
    if placed != running:
        yield "gang-domain", f"{where}: members {sorted(placed)} sent as placed, not {running}"
    if event.min_count != needed:
        text = f"{event.min_count} needed beside {len(running)} that run, not {needed}"
        yield "gang-whole", f"{where}: {text}"


def _commits(
    journal: Journal,
    world: _World,
    known: Mapping[Attempt, Mapping[str, int]],
    failures: Mapping[int, list[int]],
) -> Iterator[Problem]:
    """Yield commits outside the domain of the members that run, and of too few members."""
    places: dict[int, dict[int, tuple[int, int]]] = {}  # by gang: pod -> (node, binding read)
    placed: dict[Attempt, tuple[int, set[int]]] = {}
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            if isinstance(event, GangDispatched):
                before = set(unpack(event.placed).tolist())
                placed[event.gang, event.attempt] = event.min_count + len(before), before
            elif isinstance(event, PodsGone):
                for _least, pods in placed.values():
                    pods.difference_update(unpack(event.ids).tolist())
        for event in step.own:
            if not isinstance(event, GangCommitted):
                continue
            attempt = event.gang, event.attempt
            where = f"permit/0 at {step.position}: gang {event.gang}"
            pods, nodes = unpack(event.ids).tolist(), unpack(event.nodes).tolist()
            least, others = placed.pop(attempt, (0, set()))
            if event.gang not in world.groups and len({*pods, *others}) < least:
                text = f"{len(pods)} members beside {len(others)} that run, {least} needed"
                yield "gang-whole", f"{where}: {text}"
            read = known.get(attempt, {})
            place_of = dict(zip(pods, nodes, strict=True))
            for group, members in world.together(event.gang, pods):
                there = places.setdefault(group, {})
                _forget_those_gone(there, world, failures, read)
                there.update((pod, (place_of[pod], read.get(BINDING, 0))) for pod in members)
                topology = world.of(group)
                if topology is None or topology.highest < 0 or not members:
                    continue
                domains = [world.paths(node, topology) for node, _since in there.values()]
                common = set.intersection(*domains) - {None}
                if not common:
                    found = sorted(str(one) for one in set.union(*domains))
                    text = f"members of {group} in {found}, committed {sorted(members)}"
                    yield "gang-domain", f"{where}: {text}"


def _forget_those_gone(
    there: dict[int, tuple[int, int]],
    world: _World,
    failures: Mapping[int, list[int]],
    read: Mapping[str, int],
) -> None:
    """Forget members that the shards knew to be gone, with failed binds or deleted nodes."""
    for pod, (node, since) in list(there.items()):
        has_failed = any(since <= at < read.get(BINDING, 0) for at in failures.get(pod, ()))
        is_gone = _is_read(world.pod_gone.get(pod), read)
        if has_failed or is_gone or _is_read(world.node_gone.get(node), read):
            del there[pod]


def _is_read(position: int | None, read: Mapping[str, int]) -> bool:
    return position is not None and position < read.get(INGEST, 0)
