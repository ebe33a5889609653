"""A multiset: how often each thing is held, for things that several pods may hold."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

Thing = TypeVar("Thing", bound=Hashable)


def add(held: dict[Thing, int], more: Iterable[Thing], sign: int) -> None:
    """Count things in (+1) or out (-1); a thing with count 0 is removed."""
    for thing in more:
        count = held.get(thing, 0) + sign
        if count:
            held[thing] = count
        else:
            del held[thing]
