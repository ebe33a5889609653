"""The bus: where journals live. A port with three adapters under one contract (tests/contract).

It stores opaque records at consecutive positions and tells readers when there are more. It knows
nothing of records' content, of owners, terms or cursors: those belong to the machine.
"""

import re
from collections.abc import Callable
from typing import NewType, Protocol

JournalName = NewType("JournalName", str)
"""`service/partition`, for example `ingest/0` or `placement/2`."""

RECORD_BYTES_MAX = 16 << 20
"""The largest record that every adapter takes."""

_JOURNAL = re.compile(r"([a-z][a-z0-9-]*)/(0|[1-9][0-9]*)")


def journal_name(service: str, partition: int) -> JournalName:
    """The journal of one service partition. Raises ValueError for a name no adapter can hold."""
    name = f"{service}/{partition}"
    split_journal(JournalName(name))
    return JournalName(name)


def split_journal(journal: JournalName) -> tuple[str, int]:
    """(service, partition) of a journal's name. Raises ValueError when it is not one."""
    match = _JOURNAL.fullmatch(journal)
    if match is None:
        raise ValueError(f"journal {journal!r}: must be service/partition, such as placement/2")
    return match[1], int(match[2])


def check_record(journal: JournalName, payload: bytes) -> None:
    """Raises ValueError when a record is larger than every adapter takes."""
    if len(payload) > RECORD_BYTES_MAX:
        raise ValueError(
            f"journal {journal}: a record of {len(payload)} bytes is over {RECORD_BYTES_MAX}"
        )


class WrongPosition(Exception):
    """Someone else wrote to the journal: the record was not stored at the expected position.

    `landed` says whether it was stored elsewhere: False where the bus refuses (memory, SQLite),
    True where it cannot (Kafka); `actual` is then the position it got, else the next free one.
    """

    def __init__(self, journal: str, expected: int, actual: int, landed: bool) -> None:
        super().__init__(f"journal {journal}: expected position {expected}, found {actual}")
        self.expected = expected
        self.actual = actual
        self.landed = landed


class AppendUnknown(Exception):
    """The append failed or timed out: its record may have landed or may still land."""


class CutAway(Exception):
    """The asked position is below the first one kept."""

    def __init__(self, journal: str, asked: int, first: int) -> None:
        super().__init__(f"journal {journal}: position {asked} was cut away, first is {first}")
        self.first = first


class BusUnavailable(Exception):
    """The store cannot be used now; the message names its address and what to check."""


class BusCorrupt(Exception):
    """The store lost records, is damaged, of a newer format, or cannot hold a record: asking again
    does not help. The message names the file or the topic, and the way out.
    """


class Bus(Protocol):
    """One client object per service instance. All calls belong to one event loop's thread."""

    async def append(self, journal: JournalName, expected: int, payload: bytes) -> int:
        """Store a record; returns `expected` once it is durable there.

        Raises WrongPosition, AppendUnknown; BusUnavailable when certainly nothing was sent;
        ValueError above RECORD_BYTES_MAX.
        """
        ...

    async def read(
        self, journal: JournalName, start: int, limit_bytes: int = 4 << 20
    ) -> list[tuple[int, bytes]]:
        """Acknowledged records from `start` on, in order, until they have `limit_bytes` together,
        the last one included, or there are no more; [] at the end. A store that commits all of a
        process's appends in their order may return them ahead of that (docs/adr/0011).

        While this client has a watch open on the journal, [] may also mean "not arrived yet":
        its notify follows. Who must know the true end asks `bounds`. Raises CutAway,
        BusUnavailable.
        """
        ...

    async def bounds(self, journal: JournalName) -> tuple[int, int]:
        """(first position kept, next position to be written). Raises BusUnavailable."""
        ...

    def watch(
        self, journal: JournalName, start: int, notify: Callable[[], None]
    ) -> Callable[[], None]:
        """Call `notify` in the loop's thread, never from inside this call or from an append.

        At least once after a record at a position >= start becomes readable, and again after each
        further one; several may be told of in one call, and a call may be for nothing. At once if
        there is such a record already. Returns what ends the watch.
        """
        ...

    async def cut(self, journal: JournalName, below: int) -> None:
        """Drop the records below a position (at most all there are). Idempotent."""
        ...

    async def close(self) -> None:
        """Free what this client holds. Idempotent; its watches end."""
        ...
