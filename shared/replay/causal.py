"""All journals of a run as one sequence in which nothing comes before its cause.

A record comes after everything it consumed, and otherwise by its recorded time, so that clocks of
different machines may disagree without turning a story around. It reads only.
"""

from collections.abc import AsyncIterator, Sequence

from shared.machine.reader import Reader
from shared.machine.record import Record
from shared.ports.bus import Bus, JournalName
from shared.replay.start_points import reader_at


class _Head:
    """One journal's next valid record."""

    def __init__(self, bus: Bus, reader: Reader, end: int) -> None:
        self._bus, self._end = bus, end
        self._reader = reader
        self._ahead: list[tuple[int, bytes]] = []
        self.journal = reader.journal
        self.position = reader.next
        self.record: Record | None = None

    async def advance(self) -> None:
        """Go to the next valid record; None at the end. `position` is past all before it."""
        self.record = None
        while self._reader.next < self._end:
            if not self._ahead:
                name = JournalName(self.journal)
                self._ahead = (await self._bus.read(name, self._reader.next))[::-1]
            position, payload = self._ahead.pop()
            self.position = position
            self.record = self._reader.accept(position, payload)
            if self.record is not None:
                return
        self.position = self._reader.next


async def causal(bus: Bus, journals: Sequence[str]) -> AsyncIterator[tuple[str, int, Record]]:
    """(journal, position, record) of every valid record; `journals` in the order of the flow."""
    heads: dict[str, _Head] = {}
    for journal in journals:
        start, end = await bus.bounds(JournalName(journal))
        heads[journal] = _Head(bus, await reader_at(bus, journal, start), end)
        await heads[journal].advance()
    while waiting := [head for head in heads.values() if head.record is not None]:
        ready = [head for head in waiting if _is_ready(head, heads)]
        chosen = min(ready or waiting, key=lambda head: head.record.time_ms if head.record else 0)
        record = chosen.record
        assert record is not None
        yield chosen.journal, chosen.position, record
        await chosen.advance()


def _is_ready(head: _Head, heads: dict[str, _Head]) -> bool:
    assert head.record is not None
    return all(
        heads[part.journal].position >= part.stop or heads[part.journal].record is None
        for part in head.record.consumed
        if part.journal in heads
    )
