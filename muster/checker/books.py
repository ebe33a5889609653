"""One shard's books: nodes, what stands on them, holds and nominations. Judges nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.checker.filters.fits import Load
from muster.checker.filters.inter_pod_rules import Around, Neighbours, Pairs
from muster.checker.filters.volumes import Volumes
from muster.checker.inputs.journals import Problem
from shared.events.placement import ShardDigest
from shared.events.preemption import DryRunAsked, GangDryRunAsked
from shared.model.objects import Node, PodSpec


@dataclass
class Nomination:
    """A charge at the preemptor's priority."""

    pod: int
    node: int
    spec: PodSpec
    victims: tuple[int, ...]
    gang: int = 0


@dataclass
class OnTheWay:
    """A pod decided for a node that is gone: its bind may land on the next one of that name."""

    node: int
    name: str
    spec: PodSpec


@dataclass
class Ledger:
    """One shard's books at some point of its journal."""

    journal: str
    is_divided: bool = False  # among several shards, none of which knows all pods
    specs: dict[int, PodSpec] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    loads: dict[int, Load] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)
    facts: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    on_the_way: dict[int, OnTheWay] = field(default_factory=dict)
    holds: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    nominations: dict[int, Nomination] = field(default_factory=dict)
    # A gang's own, while members are held in their places; by attempt.
    resting: dict[tuple[int, int], list[Nomination]] = field(default_factory=dict)
    covered: dict[int, set[int]] = field(default_factory=dict)
    asks: dict[int, DryRunAsked] = field(default_factory=dict)
    gang_asks: dict[int, GangDryRunAsked] = field(default_factory=dict)
    namespaces: dict[str, Pairs] = field(default_factory=dict)
    volumes: Volumes = field(default_factory=Volumes)
    digest: ShardDigest | None = None
    remade: int = 0
    problems: list[Problem] = field(default_factory=list)

    def blame(self, rule: str, position: int, text: str) -> None:
        """Note a violation at a position."""
        self.problems.append((rule, f"{self.journal} at {position}: {text}"))

    def around(self, spec: PodSpec, node: int = 0, load: Load | None = None) -> Around | None:
        """What a pod must heed of others, as if one node held `load`; None = nobody has rules."""
        if not any(one.has_rules for one in self.specs.values()):
            return None
        loads = dict(self.loads)
        if load is not None:
            loads[node] = load
        standing = ((where, loads[row]) for row, where in self.nodes.items())
        return Around(spec, Neighbours(standing, self.namespaces, self.is_divided))

    def drop_nomination(self, pod: int) -> None:
        """A pod's own is over."""
        self.nominations.pop(pod, None)
        for key, resting in self.resting.items():
            self.resting[key] = [one for one in resting if one.pod != pod]

    def put(self, pod: int, spec: PodSpec, node: int, mask: int = 0) -> None:
        """Charge a pod to a node, instead of wherever it was charged."""
        kept = mask
        before = self.place.get(pod)
        if before is not None:
            kept = kept or (self.loads[before].devices.get(pod, 0) if before == node else 0)
            self.take(pod)
        self.place[pod] = node
        self.loads.setdefault(node, Load()).add(pod, spec, kept)

    def take(self, pod: int) -> None:
        """Give a pod's charge back, if there is one."""
        node = self.place.pop(pod, None)
        self.volumes.over([pod])
        self.facts.discard(pod)
        self.failed.discard(pod)
        if node is not None:
            self.loads[node].drop(pod)

    def node_came(self, node: int, value: Node) -> None:
        """A node is there, or has changed. `remade` counts those with binds to older ones open."""
        if node not in self.nodes:
            self.remade += any(late.name == value.name for late in self.on_the_way.values())
        self.nodes[node] = value
        self.loads.setdefault(node, Load())

    def node_gone(self, node: int) -> None:
        """Give back what a node carries. What was decided and is not known to have failed may
        still be bound to its name.
        """
        where = self.nodes.pop(node, None)
        for pod, spec in sorted(self.loads.get(node, Load()).pods.items()):
            if where is not None and pod not in self.facts and pod not in self.failed:
                self.on_the_way[pod] = OnTheWay(node, where.name, spec)
            self.take(pod)

    def never_sent(self, pods: Iterable[int]) -> None:
        """Members of an attempt that ended without them."""
        for pod in pods:
            self.on_the_way.pop(pod, None)

    def bind_failed(self, pod: int, node: int) -> None:
        """No bind of this pod to this node lands any more."""
        late = self.on_the_way.get(pod)
        if late is not None and late.node == node:
            del self.on_the_way[pod]
        if self.place.get(pod) == node and pod not in self.facts:
            self.failed.add(pod)

    def release(self, pods: Iterable[int]) -> None:
        """Give back charges that no fact supports."""
        for pod in sorted(pods):
            if pod not in self.facts:
                self.take(pod)
