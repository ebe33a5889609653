"""Follows journals from outside while a mesh of processes runs: whole records, and pods in flight.

It keeps every record, void or not, with the wall time at which it was read, so that a run can be
judged afterwards. It judges nothing itself.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Sequence

from shared.events.base import Event
from shared.events.binding import Bound
from shared.events.ingest import PodsAssigned, PodsGone, PodsPending
from shared.events.observed import WatchAdvanced
from shared.events.preemption import PreemptionClosed
from shared.events.queueing import (
    Dispatched,
    GangDispatched,
    GangWaits,
    Parked,
    PreemptAsked,
    Woken,
)
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import Record, decode, own_events, received_of
from shared.model.columns import unpack
from shared.model.ids import BINDING, INGEST, PREEMPTION, QUEUEING, JournalName
from shared.ports.bus import Bus, BusUnavailable

LOOK_S = 0.05
BACKOFF_MS = 11_000
"""A little longer than the longest backoff."""
TOLD_BY = (INGEST, QUEUEING, PREEMPTION, BINDING)


class Follower:
    """One bus client's view of all journals. `records` are the payloads from position 0 on, `moved`
    counts the records other than heartbeats, `revision` is the cluster's as last recorded,
    `voids_ms` are the times of the void records.
    """

    def __init__(self, bus: Bus, journals: Sequence[JournalName]) -> None:
        """Start before `run` or `catch_up` reads anything."""
        self._bus = bus
        self._readers = {name: Reader(name, Cursor()) for name in journals}
        self.records: dict[str, list[bytes]] = {name: [] for name in journals}
        self.claims_ms: dict[str, list[int]] = {name: [] for name in journals}
        self.acts_ms: dict[str, list[int]] = {name: [] for name in journals}
        self.voids_ms: dict[str, list[int]] = {name: [] for name in journals}
        self.owners: dict[str, list[str]] = {name: [] for name in journals}
        self.seen_ms: dict[int, int] = {}
        self.done_ms: dict[int, int] = {}
        self.bound: set[int] = set()
        self.moved = 0
        self.revision = 0
        self._message: dict[int, bool] = {}
        self._preempts: Counter[int] = Counter()
        self._members: dict[int, set[int]] = {}
        self._gang_waits_ms: dict[int, int] = {}  # since when
        self._cancels = [bus.watch(name, 0, lambda: None) for name in journals]

    async def run(self) -> None:
        """Read until cancelled; wait for a broker that is away."""
        while True:
            try:
                await self.catch_up()
            except BusUnavailable:
                pass
            await asyncio.sleep(LOOK_S)

    async def catch_up(self) -> None:
        """Read every journal to its present end."""
        for name, reader in self._readers.items():
            while batch := await self._bus.read(name, reader.next):
                now_ms = time.time_ns() // 1_000_000
                for position, payload in batch:
                    self.records[name].append(payload)
                    record = reader.accept(position, payload)
                    if record is not None:
                        self._take(name, position, record, now_ms)
                    else:
                        self.voids_ms[name].append(decode(payload, name, position).time_ms)

    def close(self) -> None:
        """End the watches."""
        for cancel in self._cancels:
            cancel()

    def _take(self, name: JournalName, position: int, record: Record, now_ms: int) -> None:
        if record.claim is not None:
            self.claims_ms[name].append(now_ms)
            self.owners[name].append(record.claim.owner)
            return
        self.acts_ms[name].append(now_ms)
        self.moved += bool(record.slices or record.received)
        if name in TOLD_BY:
            for event in own_events(record, name, position):
                self._learn(event, record.time_ms)
        if name == INGEST:
            for event in received_of(record, name, position):
                if isinstance(event, WatchAdvanced):
                    self.revision = event.revision

    def _learn(self, event: Event, time_ms: int) -> None:
        match event:
            case PodsPending():
                ids = unpack(event.ids).tolist()
                for pod in ids:
                    self.seen_ms.setdefault(pod, time_ms)
                if event.gang:
                    self._members.setdefault(event.gang, set()).update(ids)
            case Bound():
                self.bound.update(unpack(event.ids).tolist())
                self._done(event.ids, time_ms)
            case PodsGone() | PodsAssigned():
                self._done(event.ids, time_ms)
            case Parked():
                self._message.update(dict.fromkeys(unpack(event.ids).tolist(), True))
            case Dispatched() | Woken():
                self._message.update(dict.fromkeys(unpack(event.ids).tolist(), False))
            case PreemptAsked():
                for pod in (event.pod, *unpack(event.others).tolist()):
                    self._preempts[pod] += 1
            case PreemptionClosed():
                self._preempts[event.pod] -= 1
            case GangWaits():
                if event.message:
                    self._gang_waits_ms.setdefault(event.gang, time_ms)
                else:
                    self._gang_waits_ms.pop(event.gang, None)
            case GangDispatched():
                self._gang_waits_ms.pop(event.gang, None)
                for part in event.members:
                    self._message.update(dict.fromkeys(unpack(part.ids).tolist(), False))
            case _:
                pass

    def _done(self, ids: bytes, time_ms: int) -> None:
        for pod in unpack(ids).tolist():
            self.done_ms.setdefault(pod, time_ms)

    def voids(self, journal: str) -> int:
        """Return the number of void records in a journal so far."""
        return len(self.voids_ms[journal])

    def flying(self) -> list[int]:
        """Return the pods in the world journal that are now neither bound nor gone."""
        return [pod for pod in self.seen_ms if pod not in self.done_ms]

    def in_flight(self) -> int:
        """Return the number of pods in flight."""
        return len(self.flying())

    def waiting(self) -> list[int]:
        """Return the pods in flight whose last record in queueing is a reason to wait, without an
        open preemption. A gang that was tried a moment ago may be in backoff.
        """
        before_ms = time.time_ns() // 1_000_000 - BACKOFF_MS
        waits_ms = self._gang_waits_ms.items()
        told = {pod for gang, ms in waits_ms if ms < before_ms for pod in self._of(gang)}
        return [
            pod
            for pod in self.flying()
            if (self._message.get(pod) or pod in told) and self._preempts[pod] <= 0
        ]

    def _of(self, gang: int) -> set[int]:
        return self._members.get(gang, set())

    def in_flight_at(self, time_ms: int) -> int:
        """Return the number in flight at an earlier time, by the records' own times."""
        return sum(
            1
            for pod, seen_ms in self.seen_ms.items()
            if seen_ms <= time_ms < self.done_ms.get(pod, time_ms + 1)
        )

    def recovery(
        self, journal: str, after_ms: int, before_ms: float = math.inf
    ) -> tuple[int | None, int | None]:
        """Return when the next claim between two times was read (None: no claim), and when the
        first record after it was read, or without a claim the first after the first time (None: not
        yet).
        """
        claims_ms, acts_ms = self.claims_ms[journal], self.acts_ms[journal]
        claim_ms = next((ms for ms in claims_ms if after_ms < ms < before_ms), None)
        from_ms = after_ms if claim_ms is None else claim_ms
        return claim_ms, next((ms for ms in acts_ms if ms > from_ms), None)

    def acts(self, journal: str, after_ms: int) -> bool:
        """Return whether a journal was claimed after a time, and recorded something since."""
        return None not in self.recovery(journal, after_ms)
