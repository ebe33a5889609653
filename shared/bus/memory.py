"""A bus in memory, for tests, simulation and runs that need not be kept.

It keeps nothing beyond the process. All clients of one MemoryLog share one thread.
"""

from collections.abc import Callable

from shared.bus.watches import Watches
from shared.model.ids import START, JournalName, Position
from shared.ports.bus import CutAway, WrongPosition, check_record, split_journal


class _Journal:
    __slots__ = ("first", "records")

    def __init__(self) -> None:
        self.first = START
        self.records: list[bytes] = []

    @property
    def end(self) -> Position:
        return Position(self.first + len(self.records))


class MemoryLog:
    """The shared storage, as a disk or a broker is for the other adapters."""

    def __init__(self) -> None:
        self._journals: dict[JournalName, _Journal] = {}
        self._clients: list[MemoryBus] = []

    def journals(self) -> list[JournalName]:
        """Return the journals ever used, sorted."""
        return sorted(self._journals)

    def _journal(self, journal: JournalName) -> _Journal:
        found = self._journals.get(journal)
        if found is None:
            split_journal(journal)
            found = self._journals[journal] = _Journal()
        return found


class MemoryBus:
    """A client of a MemoryLog."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._watches = Watches()
        log._clients.append(self)

    async def append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        """See Bus.append; never AppendUnknown."""
        check_record(journal, payload)
        held = self._log._journal(journal)
        if expected != held.end:
            raise WrongPosition(journal, expected, held.end, landed=False)
        held.records.append(payload)
        for client in self._log._clients:
            client._watches.wake(journal, held.end)
        return expected

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        """See Bus.read."""
        held = self._log._journal(journal)
        if start < held.first:
            raise CutAway(journal, start, held.first)
        out: list[tuple[Position, bytes]] = []
        size_bytes = 0
        for position in range(start, held.end):
            payload = held.records[position - held.first]
            out.append((Position(position), payload))
            size_bytes += len(payload)
            if size_bytes >= limit_bytes:
                break
        return out

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        """See Bus.bounds."""
        held = self._log._journal(journal)
        return held.first, held.end

    def watch(
        self, journal: JournalName, start: Position, notify: Callable[[], None]
    ) -> Callable[[], None]:
        """See Bus.watch."""
        return self._watches.add(journal, start, notify, self._log._journal(journal).end)

    async def cut(self, journal: JournalName, below: Position) -> None:
        """See Bus.cut."""
        held = self._log._journal(journal)
        first = min(max(below, held.first), held.end)
        del held.records[: first - held.first]
        held.first = first

    async def close(self) -> None:
        """See Bus.close; the log stays."""
        self._watches.clear()
        if self in self._log._clients:
            self._log._clients.remove(self)
