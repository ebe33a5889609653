"""Follows journals from outside while a mesh of processes runs: whole records, and pods in flight.

It keeps every record with the wall time at which it was read, void or not, so that a run can be
judged afterwards; it judges nothing itself.
"""

import asyncio
import time
from collections.abc import Sequence

from shared.events.base import Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import PodsAssigned, PodsGone, PodsPending
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import Record, own_events
from shared.model.columns import unpack
from shared.ports.bus import Bus, BusUnavailable, JournalName

LOOK_S = 0.05


class Follower:
    """One bus client's view of all journals. `records` are the payloads from position 0 on."""

    def __init__(self, bus: Bus, journals: Sequence[str]) -> None:
        """Nothing is read before `run` or `catch_up`."""
        self._bus = bus
        self._readers = {name: Reader(name, Cursor()) for name in journals}
        self.records: dict[str, list[bytes]] = {name: [] for name in journals}
        self.read_ms: dict[str, list[int]] = {name: [] for name in journals}
        self.valid: dict[str, list[tuple[int, int, Record]]] = {name: [] for name in journals}
        self.seen_ms: dict[int, int] = {}
        self.done_ms: dict[int, int] = {}
        self.bound: set[int] = set()
        self._cancels = [
            bus.watch(JournalName(name), 0, lambda: None) for name in journals
        ]

    async def run(self) -> None:
        """Read on until cancelled; a broker that is away is waited for."""
        while True:
            try:
                await self.catch_up()
            except BusUnavailable:
                pass
            await asyncio.sleep(LOOK_S)

    async def catch_up(self) -> int:
        """Read every journal to its present end; returns how many records were new."""
        count = 0
        for name, reader in self._readers.items():
            while batch := await self._bus.read(JournalName(name), reader.next):
                count += len(batch)
                self._take(name, reader, batch)
        return count

    def close(self) -> None:
        """End the watches."""
        for cancel in self._cancels:
            cancel()

    def _take(self, name: str, reader: Reader, batch: list[tuple[int, bytes]]) -> None:
        now_ms = time.time_ns() // 1_000_000
        for position, payload in batch:
            self.records[name].append(payload)
            self.read_ms[name].append(now_ms)
            record = reader.accept(position, payload)
            if record is None:
                continue
            self.valid[name].append((position, now_ms, record))
            if name in ("ingest/0", "binding/0"):
                for event in own_events(record, name):
                    self._learn(event, record.time_ms)

    def _learn(self, event: Event, time_ms: int) -> None:
        match event:
            case PodsPending():
                for pod in unpack(event.ids).tolist():
                    self.seen_ms.setdefault(pod, time_ms)
            case Bound():
                for pod in unpack(event.ids).tolist():
                    self.bound.add(pod)
                    self.done_ms.setdefault(pod, time_ms)
            case PodsGone() | PodsAssigned():
                for pod in unpack(event.ids).tolist():
                    self.done_ms.setdefault(pod, time_ms)
            case BindFailed():
                pass
            case _:
                pass

    def voids(self) -> dict[str, int]:
        """Void records by journal."""
        return {name: reader.voids for name, reader in self._readers.items()}

    def in_flight(self) -> int:
        """Pods that the world journal has shown and that are neither bound nor gone, now."""
        return len(self.seen_ms) - sum(1 for pod in self.done_ms if pod in self.seen_ms)

    def in_flight_at(self, time_ms: int) -> int:
        """The same at an earlier time, by the records' own times."""
        return sum(
            1
            for pod, seen_ms in self.seen_ms.items()
            if seen_ms <= time_ms < self.done_ms.get(pod, time_ms + 1)
        )
