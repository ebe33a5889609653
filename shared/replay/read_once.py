"""A bus client for replays: every part of a journal is fetched once, however often it is read.

A journal has one owner and several readers, so replaying all of them reads most records many times.
Only reads are passed on; the cache is bounded, the oldest parts leave first.
"""

from collections.abc import Callable

from shared.model.ids import JournalName, Position
from shared.ports.bus import Bus

KEPT_BYTES_MAX = 512 << 20

Stretch = list[tuple[Position, bytes]]


class ReadOnceBus:
    """Reads through another client. The journals must not be written meanwhile."""

    def __init__(self, bus: Bus, kept_bytes_max: int = KEPT_BYTES_MAX) -> None:
        """`close` leaves the client below open."""
        self._bus = bus
        self._kept_bytes_max = kept_bytes_max
        self._kept: dict[tuple[JournalName, int], Stretch] = {}
        self._start_of: dict[tuple[JournalName, int], int] = {}
        self._bytes = 0

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        """See Bus.read."""
        first = self._start_of.get((journal, start))
        if first is None:
            self._keep(journal, stretch := await self._bus.read(journal, start, limit_bytes))
            return list(stretch)
        stretch = self._kept[journal, first]
        return stretch[start - stretch[0][0] :]

    def _keep(self, journal: JournalName, stretch: Stretch) -> None:
        if not stretch:
            return
        first = stretch[0][0]
        self._kept[journal, first] = stretch
        for position, payload in stretch:
            self._start_of[journal, position] = first
            self._bytes += len(payload)
        while self._bytes > self._kept_bytes_max and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[JournalName, int]) -> None:
        for position, payload in self._kept.pop(key):
            if self._start_of.get((key[0], position)) == key[1]:
                del self._start_of[key[0], position]
            self._bytes -= len(payload)

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        """See Bus.bounds."""
        return await self._bus.bounds(journal)

    async def append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        """Never: replays only read."""
        raise AssertionError(f"a replay appends to {journal}")

    async def cut(self, journal: JournalName, below: Position) -> None:
        """Never: replays only read."""
        raise AssertionError(f"a replay cuts {journal}")

    def watch(
        self, journal: JournalName, start: Position, notify: Callable[[], None]
    ) -> Callable[[], None]:
        """Never: a replay ends at the end."""
        raise AssertionError(f"a replay watches {journal}")

    async def close(self) -> None:
        """Clear the cache."""
        self._kept.clear()
        self._start_of.clear()
        self._bytes = 0
