"""Reads a journal: decides which records count and which are void.

Every reader applies the same rule to the same order: a claim's position becomes the term in force,
and a record written under any other term is void. So a zombie may append anything. A claim of an
older epoch than one already claimed is void too: a reset ends the old journals permanently.
"""

import math
from collections.abc import AsyncIterator, Iterable, Iterator

from shared.machine.core import Cursor
from shared.machine.record import NEWER, RECORD_FORMAT_VERSION, Record, RecordUnreadable, decode
from shared.model.ids import JournalName, Position
from shared.ports.bus import Bus

LOST = "before: the bus lost records; run 'muster reset', and start with an empty --run-dir"


class JournalGap(Exception):
    """Positions of a journal are missing, or its records are out of sequence: data was lost."""


class Reader:
    """Follows one journal from a cursor; knows the term in force and the last sequence number."""

    def __init__(self, journal: JournalName, cursor: Cursor, seq: int = -1) -> None:
        """Continue after `cursor`. Without `seq` the sequence is checked from the next claim on,
        or from the second record read.
        """
        self.journal = journal
        self.next = cursor.next
        self.term = cursor.term
        self.seq = seq
        self.epoch = 0
        self.voids = 0

    def check_end(self, end: Position) -> None:
        """Check the journal's end. Raises JournalGap if it is before what was read or written."""
        if end < self.next:
            raise JournalGap(f"{self.journal}: ends at {end}, but went up to {self.next} {LOST}")

    def accept(self, position: Position, payload: bytes) -> Record | None:
        """Return the record at the reader's position, or None if it is void. Advances.

        Raises JournalGap if a position was skipped or a valid record is out of sequence, and
        RecordUnreadable.
        """
        if position != self.next:
            raise JournalGap(f"{self.journal}: expected position {self.next}, found {position}")
        record = decode(payload, self.journal, position)
        self.next = Position(position + 1)
        if record.claim is not None:
            if record.claim.version > RECORD_FORMAT_VERSION:
                rule = f"claim.version: {record.claim.version} is not {RECORD_FORMAT_VERSION}"
                raise RecordUnreadable(f"{self.journal} at {position}: {rule}: {NEWER}")
            if record.claim.epoch < self.epoch:
                self.voids += 1
                return None
            self.epoch = record.claim.epoch
            self.term, self.seq = position, 0
            return record
        if record.term > position:
            raise RecordUnreadable(f"{self.journal} at {position}: term {record.term} not yet")
        if record.term != self.term:
            self.voids += 1
            return None
        if self.seq >= 0 and record.seq != self.seq + 1:
            raise JournalGap(
                f"{self.journal} at {position}: sequence {record.seq} after {self.seq}"
            )
        self.seq = record.seq
        return record

    def accept_all(
        self, batch: Iterable[tuple[Position, bytes]]
    ) -> Iterator[tuple[Position, Record]]:
        """Yield the valid records of a batch with their positions."""
        for position, payload in batch:
            record = self.accept(position, payload)
            if record is not None:
                yield position, record

    async def records(
        self, bus: Bus, stop: float = math.inf
    ) -> AsyncIterator[tuple[Position, Record]]:
        """Yield the valid records from here on, below `stop` or to the journal's present end."""
        name = self.journal
        while self.next < stop and (batch := await bus.read(name, self.next)):
            for found in self.accept_all(item for item in batch if item[0] < stop):
                yield found

    async def read(
        self, bus: Bus, piece_bytes: int, limit_bytes: int
    ) -> tuple[list[tuple[Position, Record]], int, bool]:
        """Read the valid records from here on, in pieces, until `limit_bytes` are exceeded or a
        piece is not full; return them, the bytes read, and whether there may be more.
        """
        records: list[tuple[Position, Record]] = []
        size_bytes, is_full = 0, True
        while is_full and size_bytes < limit_bytes:
            batch = await bus.read(self.journal, self.next, piece_bytes)
            records += self.accept_all(batch)
            piece = sum(len(payload) for _position, payload in batch)
            size_bytes += piece
            is_full = piece >= piece_bytes
        return records, size_bytes, is_full
