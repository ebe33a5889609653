"""Drives a core by hand: given events, when a step, then events. Invariants are checked each step.

It has no journals and no loop; the test gives every input.
"""

from typing import Generic, Self

import msgspec

from shared.events.base import Event
from shared.machine.core import Core, S, step
from shared.machine.fold import begin_step

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class Steps(Generic[S]):
    """One core with one state."""

    def __init__(self, core: Core[S]) -> None:
        """Start with the state before any event."""
        self.core = core
        self.state: S = core.new()

    def at(self, now_ms: int) -> Self:
        """Let time pass."""
        begin_step(self.state, now_ms)
        return self

    def given(self, *events: Event) -> Self:
        """Apply inputs in this order."""
        for event in events:
            self.core.evolve(self.state, event)
        return self

    def when(self, *events: Event, at_ms: int | None = None) -> list[Event]:
        """Take one step over these inputs; return the decided events."""
        if at_ms is not None:
            self.at(at_ms)
        self.given(*events)
        decided = step(self.core, self.state)
        self.core.check(self.state)
        return decided

    def dumped(self) -> bytes:
        """Return the canonical bytes of the state."""
        return _encoder.encode(self.core.dump(self.state))

    def reload(self) -> Self:
        """Go on with a state loaded from the dump, which must dump the same bytes. The cursors and
        the time stay.
        """
        dumped = self.dumped()
        loaded = self.core.load(msgspec.msgpack.decode(dumped))
        loaded.now_ms, loaded.cursors = self.state.now_ms, self.state.cursors
        self.state = loaded
        assert self.dumped() == dumped
        self.core.check(self.state)
        return self
