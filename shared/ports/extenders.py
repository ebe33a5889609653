"""Whoever judges the nodes of a pod from outside: HTTP extenders."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from shared.model.extenders import Extender


class Judgement(Struct, frozen=True):
    """Nodes that are left, what is added to the total of each, and of the others what was said, by
    how many nodes; `resolvable` counts those whose pods could make room. `error`: it came to none.
    """

    nodes: tuple[str, ...] = ()
    scores: tuple[int, ...] = ()
    failed: tuple[tuple[str, int], ...] = ()
    resolvable: int = 0
    error: str = ""


class Judges(Protocol):
    """Asks extenders. May take as long as their time limits allow; nothing is raised."""

    async def judge(
        self, extenders: Sequence[Extender], namespace: str, name: str, nodes: Sequence[str]
    ) -> Judgement:
        """What they say about these nodes, in their order, for a pod."""
        ...
