"""The watches of a bus client, shared by the adapters.

The adapter decides when a record is readable.
"""

import asyncio
from collections.abc import Callable

from shared.model.ids import JournalName, Position


class _Watch:
    __slots__ = ("loop", "notify", "pending", "start")

    def __init__(self, start: Position, notify: Callable[[], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.start = start
        self.notify: Callable[[], None] | None = notify
        self.pending = False

    def schedule(self) -> None:
        # One pending call covers every record until it runs, because it runs after all of them.
        if not self.pending and self.notify is not None:
            self.pending = True
            self.loop.call_soon(self._run)

    def _run(self) -> None:
        # Cleared first: a record that arrives during notify must schedule another call.
        self.pending = False
        if self.notify is not None:
            self.notify()


class Watches:
    """Watches by journal, called in the order in which they were opened."""

    def __init__(self) -> None:
        self._by_journal: dict[JournalName, list[_Watch]] = {}

    def __len__(self) -> int:
        return sum(len(watches) for watches in self._by_journal.values())

    def add(
        self, journal: JournalName, start: Position, notify: Callable[[], None], end: Position
    ) -> Callable[[], None]:
        """Open a watch on a journal whose readable end is `end`; return a function that
        closes it.
        """
        watch = _Watch(start, notify)
        self._by_journal.setdefault(journal, []).append(watch)
        if end > start:
            watch.schedule()

        def cancel() -> None:
            watch.notify = None
            watches = self._by_journal.get(journal, [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._by_journal.pop(journal, None)

        return cancel

    def wake(self, journal: JournalName, end: Position) -> None:
        """Notify that records below `end` are readable."""
        watches = self._by_journal.get(journal)
        if watches is None:
            return
        for watch in watches:
            if end > watch.start:
                watch.schedule()

    def wake_all(self, journal: JournalName) -> None:
        """Notify every watcher of a change that the adapter cannot name."""
        for watch in self._by_journal.get(journal, ()):
            watch.schedule()

    def journals(self) -> list[JournalName]:
        """Return the journals with an open watch, in the order in which they were first watched."""
        return list(self._by_journal)

    def has(self, journal: JournalName) -> bool:
        """Return whether a watch is open on the journal."""
        return journal in self._by_journal

    def clear(self) -> None:
        """End every watch."""
        for watches in self._by_journal.values():
            for watch in watches:
                watch.notify = None
        self._by_journal.clear()
