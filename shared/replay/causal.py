"""All journals of a run as one sequence in causal order.

A record comes after everything it consumed, and otherwise by its recorded time, so that differing
clocks of machines do not reverse a story.
"""

from collections.abc import AsyncIterator, Sequence

from shared.machine.reader import Reader
from shared.machine.record import Record
from shared.model.ids import JournalName, Position
from shared.ports.bus import Bus
from shared.replay.start_points import reader_at


class _Head:
    """One journal's next valid record; None at the end."""

    def __init__(self, bus: Bus, reader: Reader, end: Position) -> None:
        self._records, self._end = reader.records(bus, end), end
        self.journal = reader.journal
        self.position = reader.next
        self.record: Record | None = None

    async def advance(self) -> None:
        """Advance to the next valid record."""
        async for position, record in self._records:
            self.position, self.record = position, record
            return
        self.position, self.record = self._end, None


async def causal(
    bus: Bus, journals: Sequence[JournalName]
) -> AsyncIterator[tuple[JournalName, Position, Record]]:
    """Yield (journal, position, record) of every valid record; `journals` in the order
    of the flow.
    """
    heads: dict[JournalName, _Head] = {}
    for journal in journals:
        start, end = await bus.bounds(journal)
        heads[journal] = _Head(bus, await reader_at(bus, journal, start), end)
        await heads[journal].advance()
    while waiting := [head for head in heads.values() if head.record is not None]:
        ready = [head for head in waiting if _is_ready(head, heads)]
        chosen = min(ready or waiting, key=lambda head: head.record.time_ms if head.record else 0)
        record = chosen.record
        assert record is not None
        yield chosen.journal, chosen.position, record
        await chosen.advance()


def _is_ready(head: _Head, heads: dict[JournalName, _Head]) -> bool:
    assert head.record is not None
    return all(
        heads[part.journal].position >= part.stop or heads[part.journal].record is None
        for part in head.record.consumed
        if part.journal in heads
    )
