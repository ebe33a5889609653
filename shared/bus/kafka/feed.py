"""What a Kafka client holds of one journal: a window of consecutive records that moves forward.

Pure bookkeeping; the consumer that fills it is in kafka_bus_reader.
"""

import asyncio

from shared.ports.bus import JournalName


class Feed:
    """The records [first, next) of a journal, fetched and not yet left behind by the reader."""

    def __init__(self, journal: JournalName, start: int) -> None:
        self.journal = journal
        self.lock = asyncio.Lock()  # one reader at a time may move the window
        self.unread = 0  # answers of the broker since somebody last read
        self.full = False
        self.rests = False
        self.paused = False  # as the consumer was told: for one of these reasons
        # Whether the window once reached the journal's end since it was moved: from then on an
        # empty window means that nothing has arrived, not that nobody has asked yet.
        self.caught_up = False
        self.error: Exception | None = None
        self._arrived = asyncio.Event()
        self._records: list[bytes] = []
        self._head = 0
        self.first = start
        self.next = start
        self.size_bytes = 0

    def move(self, start: int) -> None:
        """Forget the records; the window starts anew at `start`."""
        self._records = []
        self._head = 0
        self.first = self.next = start
        self.size_bytes = 0
        self.caught_up = False
        self.error = None

    def add(self, payload: bytes) -> None:
        """The record at `next` has arrived."""
        self._records.append(payload)
        self.next += 1
        self.size_bytes += len(payload)

    def announce(self) -> None:
        """Wake whoever waits in `arrived`."""
        self._arrived.set()

    async def arrived(self) -> None:
        """Until the next `announce`."""
        self._arrived.clear()
        await self._arrived.wait()

    def covers(self, position: int) -> bool:
        """Whether the record at this position is held."""
        return self.first <= position < self.next

    def leave_behind(self, below: int) -> None:
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

    def take(self, start: int, limit_bytes: int) -> list[tuple[int, bytes]]:
        """The held records from `start`, at least one; they stay until left behind."""
        out: list[tuple[int, bytes]] = []
        total_bytes = 0
        for position in range(start, self.next):
            payload = self._records[self._head + position - self.first]
            out.append((position, payload))
            total_bytes += len(payload)
            if total_bytes >= limit_bytes:
                break
        return out
