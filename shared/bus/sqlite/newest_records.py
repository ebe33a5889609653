"""A cache of the newest records of all journals, so that readers in the process need no SQL.

Bounded by bytes over all journals together: the oldest records leave first, whichever journal they
belong to. Other records are read from the file.
"""

from collections import deque

from shared.model.ids import JournalName, Position

# The consumed head of a list is removed when it is this long and half of the list: amortised O(1).
_COMPACT_RECORDS = 1_024
# Bounds the eviction order, in which records without bytes and void entries cost memory too.
_RECORDS_MAX = 1 << 20


class _Tail:
    """The records [first, first + count) of one journal, without gaps."""

    __slots__ = ("first", "head", "records", "restarts")

    def __init__(self, first: Position) -> None:
        self.first = first
        self.head = 0
        self.records: list[bytes] = []
        # Entries of the shared eviction order that a restart or a cut made void.
        self.restarts = 0

    def pop(self) -> int:
        """Drop the oldest record; return its size in bytes."""
        size_bytes = len(self.records[self.head])
        self.records[self.head] = b""
        self.head += 1
        self.first = Position(self.first + 1)
        if self.head >= _COMPACT_RECORDS and self.head * 2 >= len(self.records):
            del self.records[: self.head]
            self.head = 0
        return size_bytes


class Ring:
    """The cache. Positions are pushed in order; `restart` sets the end of a gap."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._tails: dict[JournalName, _Tail] = {}
        self._order: deque[_Tail] = deque()  # a tail per record, oldest record first

    @property
    def size_bytes(self) -> int:
        """Return the payload bytes held."""
        return self._size_bytes

    def push(self, journal: JournalName, position: Position, payload: bytes) -> None:
        """Add the record after the last one pushed, or the first after a restart."""
        tail = self._tails.get(journal)
        if tail is None:
            tail = self._tails[journal] = _Tail(position)
        assert position == tail.first + len(tail.records) - tail.head, "ring has a gap"
        tail.records.append(payload)
        self._order.append(tail)
        self._size_bytes += len(payload)
        # Void entries at the front are removed at once; those behind a live one wait until it is
        # evicted.
        while self._order and (
            self._order[0].restarts
            or self._size_bytes > self._limit_bytes
            or len(self._order) > _RECORDS_MAX
        ):
            self._evict()

    def _evict(self) -> None:
        tail = self._order.popleft()
        if tail.restarts:
            tail.restarts -= 1
        else:
            self._size_bytes -= tail.pop()

    def _drop(self, tail: _Tail, count: int) -> None:
        for _ in range(count):
            self._size_bytes -= tail.pop()
        tail.restarts += count

    def restart(self, journal: JournalName, position: Position) -> None:
        """Forget the journal's records; the next push is at `position`."""
        tail = self._tails.get(journal)
        if tail is not None:
            self._drop(tail, len(tail.records) - tail.head)
            tail.first = position

    def cut(self, journal: JournalName, below: Position) -> None:
        """Forget the journal's records below a position."""
        tail = self._tails.get(journal)
        if tail is not None:
            held = len(tail.records) - tail.head
            self._drop(tail, min(held, max(0, below - tail.first)))

    def read(
        self, journal: JournalName, start: Position, limit_bytes: int
    ) -> list[tuple[Position, bytes]]:
        """Return the records from `start`, at least one, if the first is held; else []."""
        tail = self._tails.get(journal)
        if tail is None or start < tail.first:
            return []
        index = tail.head + start - tail.first
        out: list[tuple[Position, bytes]] = []
        total_bytes = 0
        records = tail.records
        for at in range(index, len(records)):
            payload = records[at]
            out.append((Position(start + at - index), payload))
            total_bytes += len(payload)
            if total_bytes >= limit_bytes:
                break
        return out
