"""Finds the newest record of a journal that has a certain event, backwards from the end of a fold.

It reads only as far back as it must.
"""

from collections.abc import Callable

from msgspec import Struct

from shared.events.base import Event
from shared.machine.reader import Reader
from shared.machine.record import Record, all_events, decode
from shared.model.ids import JournalName, Position
from shared.ports.bus import Bus
from shared.replay.start_points import reader_at

WINDOW_RECORDS = 1_000

Holds = Callable[[Event], bool]


class Found(Struct, frozen=True):
    """A record and its matching event (the last one of several)."""

    journal: JournalName
    position: Position
    time_ms: int
    event: Event


async def newest(bus: Bus, reader: Reader, holds: Holds, since_ms: int = 0) -> Found | None:
    """Return the newest matching record below the reader's position and not older than `since_ms`;
    None if there is none, or it was cut. Raises RecordUnreadable, JournalGap, CutAway.
    """
    first, _end = await bus.bounds(reader.journal)
    stop, limit = reader.next, Position(max(first, reader.term))
    while stop > limit:
        start = Position(max(limit, stop - WINDOW_RECORDS))
        window = await _window(bus, reader.journal, start, stop)
        for position, record in reversed(window):
            # Under the present term, so no record after its claim is void.
            found = (
                _find(reader.journal, position, record, holds)
                if record.term == reader.term
                else None
            )
            if found is not None:
                return found
        if window and window[0][1].time_ms < since_ms:
            return None
        stop = start
    return await _newest_before(bus, reader.journal, first, limit, holds) if limit > first else None


async def _window(
    bus: Bus, journal: JournalName, start: Position, stop: Position
) -> list[tuple[Position, Record]]:
    found: list[tuple[Position, Record]] = []
    while start < stop:
        batch = await bus.read(journal, start)
        if not batch:
            break
        found += [(at, decode(payload, journal, at)) for at, payload in batch if at < stop]
        start = Position(batch[-1][0] + 1)
    return found


async def _newest_before(
    bus: Bus, journal: JournalName, first: Position, stop: Position, holds: Holds
) -> Found | None:
    """Search under older terms: only reading forward shows which records are void."""
    reader, last = await reader_at(bus, journal, first), None
    async for position, record in reader.records(bus, stop):
        last = _find(journal, position, record, holds) or last
    return last


def _find(journal: JournalName, position: Position, record: Record, holds: Holds) -> Found | None:
    events = reversed(all_events(record, journal, position))
    event = next((event for event in events if holds(event)), None)
    return None if event is None else Found(journal, position, record.time_ms, event)
