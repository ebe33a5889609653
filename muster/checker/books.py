"""The books of one shard: nodes, the pods charged to them, holds and nominations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.checker.filters.claims import Claims
from muster.checker.filters.fits import Load
from muster.checker.filters.inter_pod_rules import (
    Around,
    Neighbours,
    Pairs,
    keeps_to_hosts,
    reads_widely,
)
from muster.checker.filters.volumes import Name, Volumes
from muster.checker.gangs.domains import domain_of
from muster.checker.inputs.journals import Problem
from muster.checker.preemption.units import Together
from shared.events.placement import ShardDigest
from shared.events.preemption import DryRunAsked, GangDryRunAsked
from shared.model.groups.topology import REST
from shared.model.objects import Node, PodSpec
from shared.model.release import DEFAULT_OPTIONS

SYSTEM_PRIORITY = 2_000_000_000
"""From here on guarantees of queues do not count against pods in no queue."""


@dataclass
class Nomination:
    """A node nominated for a preemptor, charged at the preemptor's priority; with `until_ms` the
    place of a lost member, kept for its gang.
    """

    pod: int
    node: int
    spec: PodSpec
    victims: tuple[int, ...]
    gang: int = 0
    until_ms: int = 0
    claims: bool = False

    def is_before(self, spec: PodSpec) -> bool:
        """Return whether a pod must leave room for it."""
        is_of_system = not spec.queue and spec.priority >= SYSTEM_PRIORITY
        is_of_other_queue = spec.queue != self.spec.queue and not is_of_system
        return self.spec.priority >= spec.priority or (self.claims and is_of_other_queue)


@dataclass
class OnTheWay:
    """A pod whose bind to a deleted node may still land on a new node of the same name."""

    node: int
    name: str
    spec: PodSpec


Standing = tuple[Node, Load]
Within = tuple[tuple[str, ...], tuple[str, ...]]
"""Labels of levels, and the values of the first ones: a topology domain."""


@dataclass
class InTurn:
    """A reservation in a turn of its shard, which then had these nodes and pods."""

    turn: int
    position: int
    pod: int
    spec: PodSpec
    node: Node
    standing: list[Standing]
    claims: set[Name]  # for one pod
    within: Within | None = None


def names_within(standing: Iterable[Standing], within: Within | None) -> set[str] | None:
    """Return the names of the nodes in a topology domain; None for no domain."""
    if within is None:
        return None
    levels, path = within
    return {node.name for node, _load in standing if is_within(node, levels, path)}


def is_within(node: Node, levels: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return whether a node is in the topology domain."""
    if path == REST:
        return domain_of(node.labels, levels, len(levels)) is None
    return domain_of(node.labels, levels, len(path)) == path


@dataclass
class Ledger:
    """The books of one shard at some position of its journal."""

    journal: str
    is_divided: bool = False  # among several shards, none of which knows all pods
    version: str = DEFAULT_OPTIONS.compatibility  # of the kube-scheduler that decisions follow
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
    # Nominations of a gang while members are held in those places, by attempt.
    resting: dict[tuple[int, int], list[Nomination]] = field(default_factory=dict)
    # Of lost members: places to keep in this step, gangs that end theirs, and pods by number.
    places_due: dict[int, Nomination] = field(default_factory=dict)
    places_unsure: set[int] = field(default_factory=set)
    ended_holds: set[int] = field(default_factory=set)
    kept_pods: dict[int, int] = field(default_factory=dict)
    covered: dict[int, set[int]] = field(default_factory=dict)
    together: Together = field(default_factory=Together)
    asks: dict[int, DryRunAsked] = field(default_factory=dict)
    gang_asks: dict[int, GangDryRunAsked] = field(default_factory=dict)
    namespaces: dict[str, Pairs] = field(default_factory=dict)
    volumes: Volumes = field(default_factory=Volumes)
    claims: Claims = field(default_factory=Claims)
    digest: ShardDigest | None = None
    turn: int = 0  # the present turn of this shard, 0: none
    # The turns in which members of gangs were asked for last, by attempt; 0: in none.
    gang_turns: dict[tuple[int, int], int] = field(default_factory=dict)
    # The domains to hold members of gangs with a topology in, by attempt and pod.
    hold_domains: dict[tuple[int, int], dict[int, Within]] = field(default_factory=dict)
    # What this shard had at the turns of others, and reservations in its own turns.
    counted: dict[int, list[Standing]] = field(default_factory=dict)
    in_turns: list[InTurn] = field(default_factory=list)
    retired: set[int] = field(default_factory=set)
    remade: int = 0
    problems: list[Problem] = field(default_factory=list)

    def blame(self, rule: str, position: int, text: str) -> None:
        """Add a violation at a position."""
        self.problems.append((rule, f"{self.journal} at {position}: {text}"))

    def around(
        self,
        spec: PodSpec,
        instead: Mapping[int, Load] = {},
        within: Within | None = None,
    ) -> Around | None:
        """Return the inter-pod rules for a pod as if nodes held these loads; None if no
        pod has any. `within`: the domain whose nodes alone a spread counts.
        """
        if not any(one.has_rules for one in self.specs.values()):
            return None
        loads = {**self.loads, **instead}
        standing = [(where, loads[row]) for row, where in self.nodes.items()]
        names = names_within(standing, within)
        others = Neighbours(standing, self.namespaces, self.version, self.is_divided, names)
        return Around(spec, others)

    def is_wide(self, spec: PodSpec) -> bool:
        """Return whether the pod needs a turn: it has rules that read the pods of several nodes,
        among them claims for one pod, or such rules of others may count it.
        """
        if not self.is_divided:
            return False
        owners = (one for sig, one in self.specs.items() if sig not in self.retired)
        return (
            not keeps_to_hosts(spec)
            or bool(self.volumes.exclusive(spec))
            or any(
                reads_widely(owner, spec, self.namespaces, self.version)
                for owner in owners
                if owner.has_rules
            )
        )

    def standing(self) -> list[Standing]:
        """Return the present nodes with copies of their pods."""
        return [(where, self.loads[row].without(())) for row, where in self.nodes.items()]

    def drop_nomination(self, pod: int) -> None:
        """Remove the pod's nomination."""
        self.nominations.pop(pod, None)
        for key, resting in self.resting.items():
            self.resting[key] = [one for one in resting if one.pod != pod]

    def put(self, pod: int, spec: PodSpec, node: int, mask: int = 0) -> None:
        """Charge a pod to a node and release its earlier charge."""
        kept = mask
        before = self.place.get(pod)
        if before is not None:
            kept = kept or (self.loads[before].devices.get(pod, 0) if before == node else 0)
            self.uncharge(pod)
        self.place[pod] = node
        self.loads.setdefault(node, Load()).add(pod, spec, kept)

    def uncharge(self, pod: int) -> None:
        """Release the pod's charge, if it has one."""
        node = self.place.pop(pod, None)
        self.volumes.over([pod])
        self.facts.discard(pod)
        self.failed.discard(pod)
        if node is not None:
            self.loads[node].drop(pod)

    def node_came(self, node: int, value: Node) -> None:
        """Add or update a node. `remade` counts nodes that have open binds to an older
        node's name.
        """
        if node not in self.nodes:
            self.remade += any(late.name == value.name for late in self.on_the_way.values())
        self.nodes[node] = value
        self.loads.setdefault(node, Load())

    def node_gone(self, node: int) -> None:
        """Remove a node and release its charges. A decided bind that has not failed may still land
        on a node of the same name.
        """
        where = self.nodes.pop(node, None)
        for pod, spec in sorted(self.loads.get(node, Load()).pods.items()):
            if where is not None and pod not in self.facts and pod not in self.failed:
                self.on_the_way[pod] = OnTheWay(node, where.name, spec)
            self.uncharge(pod)

    def never_sent(self, pods: Iterable[int]) -> None:
        """Forget binds that were never sent: members of an attempt that ended without them."""
        for pod in pods:
            self.on_the_way.pop(pod, None)

    def bind_failed(self, pod: int, node: int) -> None:
        """Note that no bind of this pod to this node can land."""
        late = self.on_the_way.get(pod)
        if late is not None and late.node == node:
            del self.on_the_way[pod]
        if self.place.get(pod) == node and pod not in self.facts:
            self.failed.add(pod)

    def release(self, pods: Iterable[int]) -> None:
        """Release the charges of pods that the cluster does not show on a node."""
        for pod in sorted(pods):
            if pod not in self.facts:
                self.uncharge(pod)
