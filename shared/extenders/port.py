"""The port of HTTP extenders, which filter and score nodes, choose victims, or bind pods."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shared.extenders.values import Extender, Victims
from shared.ports.cluster import PodRef


class NodesLeft(Struct, frozen=True):
    """The nodes left, what is added to the total of each, and for the others the reasons with node
    counts; `resolvable` counts those where preemption could help. `error`: the call failed.
    """

    nodes: tuple[str, ...] = ()
    scores: tuple[int, ...] = ()
    failed: tuple[tuple[str, int], ...] = ()
    resolvable: int = 0
    error: str = ""


class NodeVictimRefs(Struct, frozen=True):
    """The victims on a node, `violations` of them beyond their budgets, and the other evictable
    pods.
    """

    victims: tuple[PodRef, ...]
    violations: int
    others: tuple[PodRef, ...] = ()


class VictimsLeft(Struct, frozen=True):
    """The victims by node, in the extenders' order. `error`: the call failed."""

    nodes: dict[str, Victims] = {}
    error: str = ""


class ExtenderCalls(Protocol):
    """Calls extenders. May take as long as their timeouts allow; raises nothing."""

    async def filter_and_score(
        self, extenders: Sequence[Extender], namespace: str, name: str, nodes: Sequence[str]
    ) -> NodesLeft:
        """Return the extenders' answer about these nodes, in their order, for a pod."""
        ...

    async def process_preemption(
        self, extenders: Sequence[Extender], pod: PodRef, nodes: Mapping[str, NodeVictimRefs]
    ) -> VictimsLeft:
        """Return the candidate nodes that extenders leave, with the victims there."""
        ...


class Binders(Protocol):
    """Calls extenders that bind pods."""

    writes: bool
    """Whether the extender or bind plugin writes to the cluster; they do not know a
    simulated one.
    """

    async def bind(self, extender: Extender, pod: PodRef, node: str) -> str:
        """Bind a pod; return why it is not bound, empty if it is. Takes no longer than the
        extender's timeout.
        """
        ...
