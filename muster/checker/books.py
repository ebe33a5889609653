"""One shard's books: nodes, what stands on them, holds and nominations. Judges nothing."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from muster.checker.fits import Load
from muster.checker.journals import Problem
from shared.events.placement import ShardDigest
from shared.events.preemption import DryRunAsked
from shared.model.objects import Node, PodSpec


@dataclass
class Nomination:
    """A charge at the preemptor's priority."""

    pod: int
    node: int
    spec: PodSpec
    victims: tuple[int, ...]


@dataclass
class Ledger:
    """One shard's books at some point of its journal."""

    journal: str
    specs: dict[int, PodSpec] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    loads: dict[int, Load] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)
    facts: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    holds: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    nominations: dict[int, Nomination] = field(default_factory=dict)
    covered: dict[int, set[int]] = field(default_factory=dict)
    asks: dict[int, DryRunAsked] = field(default_factory=dict)
    digest: ShardDigest | None = None
    problems: list[Problem] = field(default_factory=list)

    def blame(self, rule: str, position: int, text: str) -> None:
        """Note a violation at a position."""
        self.problems.append((rule, f"{self.journal} at {position}: {text}"))

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
        self.facts.discard(pod)
        if node is not None:
            self.loads[node].drop(pod)

    def release(self, pods: Iterable[int]) -> None:
        """Give back charges that no fact supports."""
        for pod in sorted(pods):
            if pod not in self.facts:
                self.take(pod)
