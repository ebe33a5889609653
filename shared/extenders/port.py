"""Whoever judges the nodes of a pod, or binds it, from outside: HTTP extenders."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from shared.extenders.values import Extender, Victims
from shared.ports.cluster import PodRef


class Judgement(Struct, frozen=True):
    """Nodes that are left, what is added to the total of each, and of the others what was said, by
    how many nodes; `resolvable` counts those whose pods could make room. `error`: it came to none.
    """

    nodes: tuple[str, ...] = ()
    scores: tuple[int, ...] = ()
    failed: tuple[tuple[str, int], ...] = ()
    resolvable: int = 0
    error: str = ""


class Going(Struct, frozen=True):
    """Who would have to go from a node, `violations` of them beyond their budgets, and who else
    there could go.
    """

    victims: tuple[PodRef, ...]
    violations: int
    others: tuple[PodRef, ...] = ()


class Verdict(Struct, frozen=True):
    """By node who goes, in the order in which it was said. `error`: it came to none."""

    nodes: dict[str, Victims] = {}
    error: str = ""


class Judges(Protocol):
    """Asks extenders. May take as long as their time limits allow; nothing is raised."""

    async def judge(
        self, extenders: Sequence[Extender], namespace: str, name: str, nodes: Sequence[str]
    ) -> Judgement:
        """What they say about these nodes, in their order, for a pod."""
        ...

    async def judge_victims(
        self, extenders: Sequence[Extender], pod: PodRef, nodes: Mapping[str, Going]
    ) -> Verdict:
        """What they leave of the nodes on which pods would go for this one, and who goes there."""
        ...


class Binders(Protocol):
    """Asks extenders to bind pods."""

    writes: bool
    """Whether the extender itself, or a plugin that binds, tells the cluster; they do not know a
    simulated one.
    """

    async def bind(self, extender: Extender, pod: PodRef, node: str) -> str:
        """Why the pod is not bound, empty = it is. Takes no longer than the extender may."""
        ...
