"""A toy service: it adds up its inputs and reports each sum; one effect per report."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from shared.events.base import Configured, Event
from shared.events.ingest import SourceAdvanced
from shared.events.observed import WatchAdvanced
from shared.events.queueing import Settled
from shared.machine.core import MachineState
from shared.machine.runtime import Host, Owner, OwnerPort
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import INGEST, QUEUEING, EffectId, JournalName
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotStore


class ToyState(MachineState):
    """The sum so far, the sums to report, and the open effects."""

    def __init__(self, sources: tuple[JournalName, ...]) -> None:
        super().__init__(sources)
        self.total = 0
        self.todo: list[int] = []
        self.open: dict[EffectId, Event] = {}


class ToyIngest:
    """Reports the submitted revisions (journal ingest/0)."""

    journal = INGEST
    sources: tuple[JournalName, ...] = ()

    def new(self) -> ToyState:
        return ToyState(self.sources)

    def evolve(self, state: ToyState, event: Event) -> None:
        if isinstance(event, WatchAdvanced):
            state.todo.append(event.revision)
        elif isinstance(event, SourceAdvanced):
            state.todo.pop(0)
            state.total += event.revision
            state.open[EffectId(state.total)] = event

    def decide(self, state: ToyState) -> Iterator[Event]:
        while state.todo:
            yield AddressedAdvance(state.todo[0])

    def due_ms(self, state: ToyState) -> int | None:
        return None

    def effects(self, state: ToyState) -> dict[EffectId, Event]:
        return state.open

    def dump(self, state: ToyState) -> Any:
        return [state.total, state.todo]

    def load(self, body: Any) -> ToyState:
        state = self.new()
        state.total, state.todo = body[0], list(body[1])
        return state

    def check(self, state: ToyState) -> None:
        assert state.total >= 0


class AddressedAdvance(SourceAdvanced, frozen=True, tag="source_advanced"):
    """The same event on the wire, addressed to queueing."""

    def to(self) -> tuple[str, ...]:
        return ("queueing",)


class ToyQueueing(ToyIngest):
    """Adds up the other toy's reports (journal queueing/0)."""

    journal = QUEUEING
    sources: tuple[JournalName, ...] = (INGEST,)

    def evolve(self, state: ToyState, event: Event) -> None:
        if isinstance(event, SourceAdvanced):
            state.todo.append(event.revision)
        elif isinstance(event, Settled):
            state.total += state.todo.pop(0)

    def decide(self, state: ToyState) -> Iterator[Event]:
        while state.todo:
            yield Settled(state.total + state.todo[0])


class HandClock:
    """A clock that a test moves."""

    def __init__(self, now_ms: int = 1_000) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms


class ListShell:
    """Records the effects that it should carry out."""

    def __init__(self) -> None:
        self.effects: list[EffectId] = []

    def start(self, owner: OwnerPort) -> None: ...

    def effect(self, effect_id: EffectId, effect: Event) -> None:
        self.effects.append(effect_id)

    async def stop(self) -> None: ...


async def inline(work: Callable[..., Any], *args: Any) -> Any:
    """Run blocking work inline, without a thread."""
    return work(*args)


def owner(
    core: Any, bus: Bus, store: SnapshotStore, clock: HandClock | None = None, **options: Any
) -> Owner[ToyState]:
    """Return an owner of a toy journal; `name`, `shell`, `policy` and `epoch` are options."""
    name = options.get("name", "one")
    host = Host(clock or HandClock(), name, lambda: name, inline)
    shell = options.get("shell") or ListShell()
    policy = options.get("policy", SnapshotPolicy())
    epoch, rhythm = options.get("epoch", 1), options.get("rhythm")
    return Owner(core, bus, store, host, shell, {}, policy, epoch, rhythm)


async def turn(member: Owner[ToyState], *revisions: int) -> None:
    """Submit some revisions and take one turn, with the new records of its sources."""
    await asyncio.sleep(0)
    for revision in revisions:
        member.submit(WatchAdvanced(revision))
    await member._turn()


__all__ = ["Configured", "HandClock", "ListShell", "ToyIngest", "ToyQueueing", "owner", "turn"]
