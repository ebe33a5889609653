"""The interface of a service's core: a pure state machine over events.

`evolve` is the only thing that changes a state. `decide` reads the state and yields events; the
machine applies each one before it asks for the next, so a decision always sees the ones before it.
Work from inputs is part of the state (a queue that `evolve` fills and decided events empty), so
`decide` needs no other argument, and folding needs no `decide` at all.

Both must be deterministic functions of the state: no clock, randomness, set order or hash seed. The
step's time is `state.now_ms`; `state.cursors` has how far each journal is consumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from shared.events.base import Event
from shared.model.ids import START, EffectId, JournalName, Position


class Cursor(Struct, gc=False):
    """How far a journal is consumed: the next position, and the term in force before it."""

    next: Position = START
    term: int = -1


class MachineState:
    """The machine's part of every state; cores subclass it and only read it."""

    def __init__(self, sources: Sequence[JournalName]) -> None:
        """Start at the beginning of every source journal."""
        self.now_ms = 0
        self.cursors = {source: Cursor() for source in sources}


S = TypeVar("S", bound=MachineState)


class Core(Protocol[S]):
    """A service as a state machine. `sources` are the journals it reads, in fixed order."""

    journal: JournalName
    sources: tuple[JournalName, ...]

    def new(self) -> S:
        """Return the state before any event."""

    def evolve(self, state: S, event: Event) -> None:
        """Apply one event: a consumed input, a received observation, or an own decision. Total."""

    def decide(self, state: S) -> Iterator[Event]:
        """Yield the step's decisions. Work is bounded: if some is left, `due_ms` is
        `state.now_ms`.
        """

    def due_ms(self, state: S) -> int | None:
        """Return when `decide` has something to do without new input, ms; None: never."""

    def effects(self, state: S) -> Mapping[EffectId, Event]:
        """Return the effects without a definite outcome, by ascending id; ids are never reused."""

    def dump(self, state: S) -> Any:
        """Return the state without the machine's part as msgpack-able plain values; canonical:
        equal states give equal bytes.
        """

    def load(self, body: Any) -> S:
        """Restore what `dump` returned."""

    def check(self, state: S) -> None:
        """Check the invariants that are too expensive for every step (called at snapshots)."""


def step(core: Core[S], state: S) -> list[Event]:
    """Run decide to its end and apply each event as it is decided; return the events."""
    events: list[Event] = []
    for event in core.decide(state):
        core.evolve(state, event)
        events.append(event)
    return events
