"""The bus: the store of journals. A port with three adapters under one contract (tests/contract).

It stores opaque records at consecutive positions and notifies readers of new ones. It knows nothing
of records' content, owners, terms or cursors: those belong to the machine.
"""

import re
from collections.abc import Callable
from typing import Protocol

from shared.model.ids import JournalName, Position

RECORD_BYTES_MAX = 16 << 20
"""The largest record that every adapter accepts."""

_JOURNAL = re.compile(r"([a-z][a-z0-9-]*)/(0|[1-9][0-9]*)")


def split_journal(journal: JournalName) -> tuple[str, int]:
    """Return (service, partition) of a journal's name. Raises ValueError if it is not one."""
    match = _JOURNAL.fullmatch(journal)
    if match is None:
        raise ValueError(f"journal {journal!r}: must be service/partition, such as placement/2")
    return match[1], int(match[2])


def check_record(journal: JournalName, payload: bytes) -> None:
    """Check a record's size. Raises ValueError if it is larger than every adapter accepts."""
    if len(payload) > RECORD_BYTES_MAX:
        raise ValueError(
            f"journal {journal}: a record of {len(payload)} bytes is over {RECORD_BYTES_MAX}"
        )


class WrongPosition(Exception):
    """Another process wrote to the journal: the record was not stored at the expected position.

    `landed`: whether it was stored elsewhere: False where the bus refuses (memory, SQLite), True
    where it cannot (Kafka). `actual` is then its position, else the next free one.
    """

    def __init__(
        self, journal: JournalName, expected: Position, actual: Position, landed: bool
    ) -> None:
        super().__init__(f"journal {journal}: expected position {expected}, found {actual}")
        self.expected = expected
        self.actual = actual
        self.landed = landed


class AppendUnknown(Exception):
    """The append failed or timed out: its record may have landed or may still land."""


class CutAway(Exception):
    """The requested position is below the first one kept."""

    def __init__(self, journal: JournalName, asked: Position, first: Position) -> None:
        super().__init__(f"journal {journal}: position {asked} was cut away, first is {first}")
        self.first = first


class BusUnavailable(Exception):
    """The store is unavailable; the message names its address and what to check."""


class BusCorrupt(Exception):
    """The store lost records, is damaged, has a newer format, or cannot hold a record: retrying
    does not help. The message names the file or topic, and the way out.
    """


class Bus(Protocol):
    """One client per service instance. All calls belong to one event loop's thread."""

    async def append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        """Store a record; return `expected` once it is durable there.

        Raises WrongPosition, AppendUnknown; BusUnavailable if certainly nothing was sent;
        ValueError above RECORD_BYTES_MAX.
        """
        ...

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        """Return acknowledged records from `start` on, in order, until they have `limit_bytes`
        together, the last one included, or there are no more; [] at the end. A store that commits
        all appends of a process in order may return them before the commit (docs/adr/0011).

        While this client watches the journal, [] may also mean "not arrived yet": its notify
        follows. `bounds` returns the true end. Raises CutAway, BusUnavailable.
        """
        ...

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        """Return (first position kept, next position to be written). Raises BusUnavailable."""
        ...

    def watch(
        self, journal: JournalName, start: Position, notify: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `notify` in the loop's thread, never from inside this call or from an append.

        It is called at least once after a record at a position >= start becomes readable, and again
        after each further one; one call may announce several, and a call may be for nothing. It is
        called at once if there is such a record already. Return a function that ends the watch.
        """
        ...

    async def cut(self, journal: JournalName, below: Position) -> None:
        """Drop the records below a position. Idempotent."""
        ...

    async def close(self) -> None:
        """Close the client and its watches. Idempotent."""
        ...
