"""What a service's core is to the machine: a pure state machine over events.

`evolve` is the only thing that changes a state. `decide` reads the state and yields events; the
machine applies each one before it asks for the next, so a decision always sees the ones before it.
Work that inputs bring is part of the state (a queue that `evolve` fills and decided events
empty), therefore `decide` needs no other argument, and folding needs no `decide` at all.

Both must be deterministic functions of the state: no clock, randomness, set order or hash seed.
The step's time is `state.now_ms`; how far each journal has been consumed is `state.cursors`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from shared.events.base import Event


class Cursor(Struct, gc=False):
    """How far a journal has been consumed: next position, and the term in force before it."""

    next: int = 0
    term: int = -1


class MachineState:
    """The part of every state that the machine keeps; cores subclass it and only read these."""

    def __init__(self, sources: Sequence[str]) -> None:
        """Start at the beginning of every source journal."""
        self.now_ms = 0
        self.cursors = {source: Cursor() for source in sources}


S = TypeVar("S", bound=MachineState)


class Core(Protocol[S]):
    """A service as a state machine. `sources` are the journals it reads, in fixed order."""

    journal: str
    sources: tuple[str, ...]

    def new(self) -> S:
        """The state before any event."""

    def evolve(self, state: S, event: Event) -> None:
        """Apply one event: a consumed input, a received observation, or one of its own. Total."""

    def decide(self, state: S) -> Iterator[Event]:
        """The step's decisions. Bounded work: what is left keeps `due_ms` at `state.now_ms`."""

    def due_ms(self, state: S) -> int | None:
        """When `decide` has something to do without new input; None = never."""

    def effects(self, state: S) -> Mapping[int, Event]:
        """Effects without a definite outcome, by id, ascending; ids are never used twice."""

    def dump(self, state: S) -> Any:
        """The state (without the machine's part) as msgpack-able plain values; canonical: equal
        states give equal bytes whatever their history.
        """

    def load(self, body: Any) -> S:
        """Inverse of dump."""

    def check(self, state: S) -> None:
        """Assert the invariants that are too dear for every step (called at snapshots)."""


def step(core: Core[S], state: S) -> list[Event]:
    """Run decide to its end, applying each event as it is decided."""
    events: list[Event] = []
    for event in core.decide(state):
        core.evolve(state, event)
        events.append(event)
    return events
