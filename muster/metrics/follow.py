"""Follows the owners of a process: the inputs and decisions of their cores, and the time of turns.

An owner is followed from its claim on, so what it folds before is not counted. Steps that are not
recorded in the end, because the bus failed, are counted.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.metrics.attempts import Attempts
from muster.metrics.batches import Searches
from muster.metrics.histogram import Histogram, exponential
from shared.events.base import Event
from shared.events.preemption import EvictAsked
from shared.machine.core import Core
from shared.machine.runtime import Owner
from shared.model.columns import size
from shared.model.ids import EffectId, JournalName, service_of

Handlers = dict[type[Event], Callable[[Any, Any], None]]
VICTIMS = exponential(1, 2, 7)
TURN_S = exponential(0.0001, 2, 16)


class FollowedCore(Core[Any]):
    """A core whose events a handler sees before it applies them."""

    def __init__(self, core: Core[Any], handlers: Handlers) -> None:
        """Follow `core`."""
        self.journal, self.sources = core.journal, core.sources
        self._core, self._handlers = core, handlers

    def new(self) -> Any:
        return self._core.new()

    def evolve(self, state: Any, event: Event) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(state, event)
        self._core.evolve(state, event)

    def decide(self, state: Any) -> Iterator[Event]:
        return self._core.decide(state)

    def due_ms(self, state: Any) -> int | None:
        return self._core.due_ms(state)

    def effects(self, state: Any) -> Mapping[EffectId, Event]:
        return self._core.effects(state)

    def dump(self, state: Any) -> Any:
        return self._core.dump(state)

    def load(self, body: Any) -> Any:
        return self._core.load(body)

    def check(self, state: Any) -> None:
        self._core.check(state)


class Followed:
    """What the owners of this process have done since they were followed. `searches`: by shard's
    journal.
    """

    def __init__(self) -> None:
        """Follow nothing yet."""
        self.attempts = Attempts()
        self.victims = Histogram(VICTIMS)
        self.turns_s: dict[JournalName, Histogram] = {}
        self.searches: dict[JournalName, Searches] = {}

    def attach(self, owner: Owner[Any]) -> None:
        """Follow an owner that has just claimed its journal."""
        journal = owner.journal
        owner.on_turn = self.turns_s.setdefault(journal, Histogram(TURN_S)).add
        match service_of(journal):
            case "queueing":
                handlers = self.attempts.handlers
            case "placement":
                handlers = self.searches.setdefault(journal, Searches()).handlers
            case "preemption":
                handlers = {EvictAsked: self._evicts}
            case _:
                return
        owner.core = FollowedCore(owner.core, handlers)

    def _evicts(self, _state: Any, event: EvictAsked) -> None:
        self.victims.add(size(event.victims))
