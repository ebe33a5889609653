"""Where reading a journal begins that may have been cut: its first record, and the term there."""

from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import decode
from shared.ports.bus import Bus, JournalName


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
