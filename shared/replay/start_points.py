"""Where reading a journal begins that may have been cut, or whose sources may."""

from collections.abc import Sequence

from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import decode
from shared.ports.bus import Bus, JournalName
from shared.ports.snapshots import SnapshotStore


async def reader_at(bus: Bus, journal: str, start: int) -> Reader:
    """A reader from `start` on. The claim that was in force there may be cut away: of the records
    before the next claim those of the highest term are valid, for terms only rise.
    """
    reader = Reader(journal, Cursor(start))
    position = start
    while start and (batch := await bus.read(JournalName(journal), position)):
        for position, payload in batch:
            record = decode(payload, journal, position)
            if record.claim is not None:
                return reader
            reader.term = max(reader.term, record.term)
        position += 1
    return reader


async def beginnings(
    bus: Bus, store: SnapshotStore, journal: str, sources: Sequence[str]
) -> list[int]:
    """Positions from which the journal can be folded, ascending: 0, the empty state, where nothing
    is cut; and kept snapshots, as far as what came after them and what that consumed is there.
    """
    firsts = {name: (await bus.bounds(JournalName(name)))[0] for name in (journal, *sources)}
    found = [
        meta.position
        for meta in store.list(journal)
        if meta.position >= firsts[journal]
        and all(meta.cursors.get(name, 0) >= firsts[name] for name in sources)
    ]
    return sorted(found if any(firsts.values()) else {0, *found})
