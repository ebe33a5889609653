"""A Kafka client's window of consecutive records of one journal, which moves forward.

Pure bookkeeping; the consumer that fills it is in reader.py.
"""

import asyncio

from shared.model.ids import JournalName, Position


class Feed:
    """The records [first, next) of a journal: fetched, and not yet passed by the reader."""

    def __init__(self, journal: JournalName, start: Position) -> None:
        self.journal = journal
        self.lock = asyncio.Lock()  # one reader at a time may move the window
        self.unread = 0  # broker answers since the last read
        self.full = False
        self.rests = False
        self.paused = False  # whether the consumer is paused, for one of these reasons
        # Whether the window has reached the journal's end since it was moved: from then on an empty
        # window means that nothing has arrived, not that nothing was requested.
        self.caught_up = False
        self.error: Exception | None = None
        self._arrived = asyncio.Event()
        self._records: list[bytes] = []
        self._head = 0
        self.first = start
        self.next = start
        self.size_bytes = 0

    def move(self, start: Position) -> None:
        """Drop the records; the window starts again at `start`."""
        self._records = []
        self._head = 0
        self.first = self.next = start
        self.size_bytes = 0
        self.caught_up = False
        self.error = None

    def add(self, payload: bytes) -> None:
        """Add the record at `next`."""
        self._records.append(payload)
        self.next = Position(self.next + 1)
        self.size_bytes += len(payload)

    def announce(self) -> None:
        """Wake the callers that wait in `arrived`."""
        self._arrived.set()

    async def arrived(self) -> None:
        """Wait for the next `announce`."""
        self._arrived.clear()
        await self._arrived.wait()

    def covers(self, position: Position) -> bool:
        """Return whether the record at this position is in the window."""
        return self.first <= position < self.next

    def leave_behind(self, below: Position) -> None:
        """Drop the records below a position that the window covers or ends at."""
        assert self.first <= below <= self.next, "the window does not reach there"
        for _ in range(below - self.first):
            self.size_bytes -= len(self._records[self._head])
            self._records[self._head] = b""
            self._head += 1
        self.first = below
        if self._head * 2 >= len(self._records):
            del self._records[: self._head]
            self._head = 0

    def read(self, start: Position, limit_bytes: int) -> list[tuple[Position, bytes]]:
        """Return the records from `start`, at least one; they stay in the window."""
        out: list[tuple[Position, bytes]] = []
        total_bytes = 0
        for position in range(start, self.next):
            payload = self._records[self._head + position - self.first]
            out.append((Position(position), payload))
            total_bytes += len(payload)
            if total_bytes >= limit_bytes:
                break
        return out
