"""A bus whose appends fail in every way a real one can, and whose readers lag differently.

One SimLog is the storage and keeps every append for the checker; each process has its own SimBus.
The log decides whether a stale append is refused (as in SQLite) or lands out of place (as in
Kafka). All delays and fates come from one seeded stream.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from shared.bus.watches import Watches
from shared.model.ids import START, JournalName, Position
from shared.ports.bus import (
    AppendUnknown,
    BusUnavailable,
    CutAway,
    WrongPosition,
    check_record,
    split_journal,
)


class Fate(StrEnum):
    """The fate of one append."""

    STORED = "stored"
    LANDED_UNKNOWN = "append-failed-but-landed"
    LOST_UNKNOWN = "append-failed-not-landed"
    LATE_UNKNOWN = "append-failed-landed-late"


FAILURES = (Fate.LANDED_UNKNOWN, Fate.LOST_UNKNOWN, Fate.LATE_UNKNOWN)


@dataclass
class BusFaults:
    """Rates of the bus faults; all zero once the run is healed."""

    append_fails: float = 0.0
    unavailable: float = 0.0
    lag_spike: float = 0.0
    lag_spike_s: float = 0.0

    def heal(self) -> None:
        """End all faults."""
        self.append_fails = self.unavailable = self.lag_spike = 0.0


class SimLog:
    """The storage behind all clients. `refuses`: stale appends are refused, else they land."""

    def __init__(self, rng: random.Random, refuses: bool, faults: BusFaults) -> None:
        self.rng, self.refuses, self.faults = rng, refuses, faults
        self.records: dict[str, list[bytes]] = {}
        self.landed_s: dict[str, list[float]] = {}
        self.first: dict[JournalName, Position] = {}
        self.seen: Counter[str] = Counter()
        self.clients: list[SimBus] = []
        self.on_landed: Callable[[JournalName, bytes], None] | None = None

    def end(self, journal: JournalName) -> Position:
        """Return the next free position."""
        return Position(len(self._held(journal)))

    def _held(self, journal: JournalName) -> list[bytes]:
        held = self.records.get(journal)
        if held is None:
            split_journal(journal)
            held = self.records[journal] = []
            self.landed_s[journal] = []
            self.first[journal] = START
        return held

    def land(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        """Store an append; return its position. Raises WrongPosition."""
        held = self._held(journal)
        at = Position(len(held))
        if at != expected and self.refuses:
            self.seen["stale-append-refused"] += 1
            raise WrongPosition(journal, expected, at, landed=False)
        held.append(payload)
        self.landed_s[journal].append(asyncio.get_running_loop().time())
        for client in self.clients:
            client.arrived(journal)
        if self.on_landed is not None:
            self.on_landed(journal, payload)
        if at != expected:
            self.seen["stale-append-landed"] += 1
            raise WrongPosition(journal, expected, at, landed=True)
        return at

    def land_late(self, journal: JournalName, expected: Position, payload: bytes) -> None:
        """Store an append whose sender no longer waits for it."""
        try:
            self.land(journal, expected, payload)
            self.seen["late-append-landed"] += 1
        except WrongPosition as error:
            self.seen["late-append-landed" if error.landed else "late-append-refused"] += 1

    def fate(self) -> Fate:
        """Draw the fate of an append."""
        if self.rng.random() >= self.faults.append_fails:
            return Fate.STORED
        return FAILURES[self.rng.randrange(len(FAILURES))]


class SimBus:
    """One process's client: a Bus with seeded faults."""

    def __init__(self, log: SimLog) -> None:
        self.log = log
        self._loop = asyncio.get_running_loop()
        self._watches = Watches()
        self._visible: dict[JournalName, Position] = {}
        self._showing: set[JournalName] = set()
        rng = log.rng
        self._lag_s = rng.choice((0.0002, 0.0005, 0.001, 0.003, 0.01))
        self._append_s = rng.choice((0.0002, 0.0005, 0.002, 0.005))
        log.clients.append(self)

    async def append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        """See Bus.append."""
        check_record(journal, payload)
        log, rng = self.log, self.log.rng
        fate = log.fate()
        await asyncio.sleep(self._append_s * (0.5 + rng.random()))
        if fate is Fate.LOST_UNKNOWN:
            raise self._unknown(journal, fate)
        if fate is Fate.LATE_UNKNOWN:
            late_s = rng.choice((0.05, 0.25, 0.6, 2.0, 5.0))
            self._loop.call_later(late_s, log.land_late, journal, expected, payload)
            raise self._unknown(journal, fate)
        position = log.land(journal, expected, payload)
        await asyncio.sleep(self._append_s * (0.5 + rng.random()))
        if fate is Fate.LANDED_UNKNOWN:
            raise self._unknown(journal, fate)
        return position

    def _unknown(self, journal: JournalName, fate: Fate) -> AppendUnknown:
        """Return the error for an append whose drawn fate has happened."""
        self.log.seen[fate] += 1
        return AppendUnknown(f"{journal}: append timed out")

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        """See Bus.read. A client that watches the journal sees the records that have reached it."""
        log = self.log
        end = log.end(journal)
        if start < log.first[journal]:
            raise CutAway(journal, start, log.first[journal])
        if self._watches.has(journal):
            end = min(end, self._visible[journal])
        out: list[tuple[Position, bytes]] = []
        size_bytes = 0
        held = log.records[journal]
        for position in range(start, end):
            out.append((Position(position), held[position]))
            size_bytes += len(held[position])
            if size_bytes >= limit_bytes:
                break
        return out

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        """See Bus.bounds."""
        log = self.log
        if log.faults.unavailable and log.rng.random() < log.faults.unavailable:
            log.seen["bus-unavailable"] += 1
            raise BusUnavailable("the simulated bus does not answer")
        end = log.end(journal)
        return log.first[journal], end

    def watch(
        self, journal: JournalName, start: Position, notify: Callable[[], None]
    ) -> Callable[[], None]:
        """See Bus.watch."""
        end = self.log.end(journal)
        visible = self._visible[journal] = max(start, self._visible.get(journal, START))
        if end > visible:
            self._show_later(journal)
        return self._watches.add(journal, start, notify, visible)

    def arrived(self, journal: JournalName) -> None:
        """Make a stored record visible to this client after its lag."""
        if self._watches.has(journal):
            self._show_later(journal)

    def _show_later(self, journal: JournalName) -> None:
        if journal in self._showing:
            return
        rng, faults = self.log.rng, self.log.faults
        lag_s = self._lag_s * (0.5 + rng.random())
        if faults.lag_spike and rng.random() < faults.lag_spike:
            lag_s += faults.lag_spike_s * rng.random()
            self.log.seen["reader-lag"] += 1
        self._showing.add(journal)
        self._loop.call_later(lag_s, self._show, journal)

    def _show(self, journal: JournalName) -> None:
        self._showing.discard(journal)
        end = self._visible[journal] = max(self._visible.get(journal, START), self.log.end(journal))
        self._watches.wake(journal, end)

    async def cut(self, journal: JournalName, below: Position) -> None:
        """See Bus.cut."""
        log = self.log
        end = log.end(journal)
        log.first[journal] = min(max(below, log.first[journal]), end)
        log.seen["cut"] += 1

    async def close(self) -> None:
        """See Bus.close."""
        self._watches.clear()
        if self in self.log.clients:
            self.log.clients.remove(self)
