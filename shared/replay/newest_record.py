"""The newest record of a journal in which something holds: read backwards from where a fold ended.

It is for people who ask about now; it reads only as far back as it must.
"""

from collections.abc import Callable

from msgspec import Struct

from shared.events.base import Event
from shared.machine.reader import Reader
from shared.machine.record import Record, decode, own_events, received_of
from shared.ports.bus import Bus, JournalName
from shared.replay.start_points import reader_at

WINDOW_RECORDS = 1_000

Holds = Callable[[Event], bool]


class Found(Struct, frozen=True):
    """A record and the event of it that was looked for (the last one, where there are several)."""

    journal: str
    position: int
    time_ms: int
    event: Event


async def newest(bus: Bus, own: Reader, holds: Holds, since_ms: int = 0) -> Found | None:
    """Looks below the reader's position, at records not older than `since_ms`; None = there is
    none, or it was cut away. Raises RecordUnreadable, JournalGap, CutAway.
    """
    first, _end = await bus.bounds(JournalName(own.journal))
    stop, limit = own.next, max(first, own.term)
    while stop > limit:
        start = max(limit, stop - WINDOW_RECORDS)
        window = await _window(bus, own.journal, start, stop)
        for position, record in reversed(window):
            # Under the term in force, so nothing after its claim is void.
            found = _find(own.journal, position, record, holds) if record.term == own.term else None
            if found is not None:
                return found
        if window and window[0][1].time_ms < since_ms:
            return None
        stop = start
    return await _newest_before(bus, own.journal, first, limit, holds) if limit > first else None


async def _window(bus: Bus, journal: str, start: int, stop: int) -> list[tuple[int, Record]]:
    found: list[tuple[int, Record]] = []
    while start < stop:
        batch = await bus.read(JournalName(journal), start)
        if not batch:
            break
        found += [(at, decode(payload, journal, at)) for at, payload in batch if at < stop]
        start = batch[-1][0] + 1
    return found


async def _newest_before(
    bus: Bus, journal: str, first: int, stop: int, holds: Holds
) -> Found | None:
    """Under older terms: which records are void shows only to those who read forward."""
    reader, last = await reader_at(bus, journal, first), None
    while reader.next < stop:
        batch = await bus.read(JournalName(journal), reader.next)
        if not batch:
            break
        for position, record in reader.accept_all([item for item in batch if item[0] < stop]):
            last = _find(journal, position, record, holds) or last
    return last


def _find(journal: str, position: int, record: Record, holds: Holds) -> Found | None:
    received = received_of(record, journal, position)
    events = (*received, *own_events(record, journal, position))
    event = next((event for event in reversed(events) if holds(event)), None)
    return None if event is None else Found(journal, position, record.time_ms, event)
