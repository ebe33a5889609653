"""What preemption knows of a gang for which it looks for room; see bands for what it does."""

from typing import Any

import msgspec
from msgspec import Struct

from services.preemption.core.transitions import GangPhase, gang_following
from shared.events.placement import PlacesFound


class Band(Struct, array_like=True):
    """One search for places for `needed` of a gang's members, `groups` of (signature, pods). `asks`
    are those of the members that were chosen, each a preemption of its own from its nomination on;
    `waiting` are shards that have not answered theirs. `end` says why it must be closed, `is_again`
    that places were stale: those that other shards keep are given back before the next round.
    """

    ask: int
    gang: int
    needed: int
    groups: list[tuple[int, list[int]]]
    phase: GangPhase = GangPhase.NEW
    rounds: int = 0
    found: dict[int, PlacesFound] = {}
    asks: list[int] = []
    waiting: list[int] = []
    end: str = ""
    is_again: bool = False

    def follow(self, event: str) -> None:
        """Take the transition of `event`; AssertionError with the story when there is none."""
        self.phase = gang_following(self.phase, event, self)

    def __str__(self) -> str:
        """What an assertion says about it."""
        return (
            f"ask {self.ask} for {self.needed} members of gang {self.gang}, round {self.rounds}, "
            f"asks of members {self.asks}, shards {self.waiting} have not answered"
        )

    def answers(self) -> list[PlacesFound]:
        """What the shards found, by shard."""
        return [self.found[shard] for shard in sorted(self.found)]

    def dump(self) -> list[Any]:
        """Plain values in an order that does not depend on the order of answers."""
        plain: list[Any] = msgspec.to_builtins(self, builtin_types=(bytes,))
        plain[_FOUND] = sorted(plain[_FOUND].items())
        plain[_WAITING] = sorted(plain[_WAITING])
        return plain

    @classmethod
    def load(cls, plain: list[Any]) -> "Band":
        """Inverse of dump."""
        columns = list(plain)
        columns[_FOUND] = dict(columns[_FOUND])
        return msgspec.convert(columns, cls)


_FOUND = Band.__struct_fields__.index("found")
_WAITING = Band.__struct_fields__.index("waiting")
