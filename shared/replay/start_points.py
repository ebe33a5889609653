"""Finds where to begin reading a journal that may have been cut, or whose sources may."""

from collections.abc import Sequence

from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import decode
from shared.model.ids import START, JournalName, Position
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotStore


async def reader_at(bus: Bus, journal: JournalName, start: Position) -> Reader:
    """Return a reader from `start` on. The claim in force there may have been cut: of the records
    before the next claim those of the highest term are valid, as terms only rise.
    """
    reader = Reader(journal, Cursor(start))
    position = start
    while start and (batch := await bus.read(journal, position)):
        for position, payload in batch:
            record = decode(payload, journal, position)
            if record.claim is not None:
                return reader
            reader.term = max(reader.term, record.term)
        position = Position(position + 1)
    return reader


async def beginnings(
    bus: Bus, store: SnapshotStore, journal: JournalName, sources: Sequence[JournalName]
) -> list[Position]:
    """Return the positions from which the journal can be folded, ascending: 0, the empty state, if
    nothing was cut; and kept snapshots whose later records and inputs exist.
    """
    firsts = {name: (await bus.bounds(name))[0] for name in (journal, *sources)}
    found = [
        meta.position
        for meta in store.list(journal)
        if meta.position >= firsts[journal]
        and all(meta.cursors.get(name, 0) >= firsts[name] for name in sources)
    ]
    return sorted(found if any(firsts.values()) else {START, *found})
