"""A member of a service's group: stands by, claims when it should, owns, and starts over.

Safety never depends on who claims: any number of owners only void each other's records.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from shared.machine.record import Record, decode
from shared.machine.runtime import HEARTBEAT_MS, Host, Owner, OwnershipLost
from shared.model.ids import JournalName, Position
from shared.ports.bus import AppendUnknown, Bus, BusUnavailable

MISSED_HEARTBEATS = 3
LAST_RECORDS = 64
RETRY_MS = 200


class Member:
    """Keeps one journal owned. `make_owner` makes an owner with fresh memory for each term."""

    def __init__(
        self, journal: JournalName, bus: Bus, host: Host, make_owner: Callable[[], Owner[Any]]
    ) -> None:
        """Run nothing before `serve`."""
        self.journal = journal
        self.bus, self.host, self.make_owner = bus, host, make_owner
        self.owner: Owner[Any] | None = None
        self.first: Owner[Any] | None = None  # made and read ahead before `serve`
        self.terms = 0
        self.standing_by = ""

    async def serve(self) -> None:
        """Own the journal whenever this member should; run until cancelled or halted."""
        at_start = waits = True
        while True:
            owner, self.first = self.first or self.make_owner(), None
            try:
                if waits and await self._stand_by(at_start) and owner.has_read_ahead:
                    owner = self.make_owner()  # others wrote since it read ahead
                at_start = waits = False
                if not owner.has_read_ahead:
                    await owner.read_ahead()
                self.on_folded(owner)
                await owner.claim()
                self.on_claimed(owner)
                self.owner, self.standing_by = owner, ""
                self.terms += 1
                await owner.run()
            except OwnershipLost:
                self.on_lost()
                await owner.close()
                self.owner, waits = None, True
            except (AppendUnknown, BusUnavailable) as error:
                self.on_bus_failed(error)
                await owner.close()
                self.owner = None
                await asyncio.sleep(RETRY_MS / 1000)

    def on_bus_failed(self, error: Exception) -> None:
        """Hook: the bus does not answer and is tried again."""

    def on_lost(self) -> None:
        """Hook: another process has claimed the journal."""

    def on_standing_by(self) -> None:
        """Hook: `standing_by` owns the journal, and this member waits until it is silent."""

    def on_folded(self, owner: Owner[Any]) -> None:
        """Hook: the journal was folded and may be claimed; raise to refuse it."""

    def on_claimed(self, owner: Owner[Any]) -> None:
        """Hook: the journal is claimed and folded."""

    async def _stand_by(self, at_start: bool) -> bool:
        """Wait until the journal is free: empty, last claimed by this member (at start), or silent
        for three heartbeats. Return whether that took any time.
        """
        first, end = await self.bus.bounds(self.journal)
        holder = await self._holder(first, end) if end else ""
        if end == 0 or (at_start and holder == self.host.owner):
            return False
        self.standing_by = holder or "unknown"
        self.on_standing_by()
        silent_ms = 0
        while silent_ms < MISSED_HEARTBEATS * HEARTBEAT_MS:
            await asyncio.sleep(HEARTBEAT_MS / 1000)
            now_end = (await self.bus.bounds(self.journal))[1]
            silent_ms = silent_ms + HEARTBEAT_MS if now_end == end else 0
            end = now_end
        return True

    async def _holder(self, first: Position, end: Position) -> str:
        """Return the owner in the newest claim that the last records were written under (an older
        owner's void records may be among them); empty if it was cut away.
        """
        start, claimed = Position(max(first, end - LAST_RECORDS)), -1
        while start < end and (batch := await self._records(start)):
            for position, record in batch:
                claimed = max(claimed, position if record.claim is not None else record.term)
                start = Position(position + 1)
        if claimed < first:
            return ""
        claim = (await self._records(Position(claimed), limit_bytes=1))[0][1].claim
        return "" if claim is None else claim.owner

    async def _records(
        self, start: Position, limit_bytes: int = 1 << 20
    ) -> list[tuple[Position, Record]]:
        batch = await self.bus.read(self.journal, start, limit_bytes)
        return [(position, decode(payload, self.journal, position)) for position, payload in batch]
