"""Drives a core by hand: given events, when a step, then events. Invariants are checked each step.

No journals and no loop: what arrives is what the test gives.
"""

from typing import Any, Generic

import msgspec

from shared.events.base import Event
from shared.machine.core import Core, S, step
from shared.machine.fold import begin_step

_encoder = msgspec.msgpack.Encoder(order="deterministic")


class Steps(Generic[S]):
    """One core with one state."""

    def __init__(self, core: Core[S]) -> None:
        """The state before any event."""
        self.core = core
        self.state: S = core.new()

    def at(self, now_ms: int) -> "Steps[S]":
        """Let time pass."""
        begin_step(self.state, now_ms)
        return self

    def given(self, *events: Event) -> "Steps[S]":
        """Apply inputs in this order."""
        for event in events:
            self.core.evolve(self.state, event)
        return self

    def when(self, *events: Event, at_ms: int | None = None) -> list[Event]:
        """One step over these inputs; returns what was decided."""
        if at_ms is not None:
            self.at(at_ms)
        self.given(*events)
        decided = step(self.core, self.state)
        self.core.check(self.state)
        return decided

    def dumped(self) -> bytes:
        """Canonical bytes of the state."""
        return _encoder.encode(self.core.dump(self.state))

    def reload(self) -> None:
        """Go on with a state loaded from the dump; the cursors and time stay."""
        body: Any = msgspec.msgpack.decode(self.dumped())
        loaded = self.core.load(body)
        loaded.now_ms, loaded.cursors = self.state.now_ms, self.state.cursors
        self.state = loaded
