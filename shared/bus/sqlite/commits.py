"""Group commit: appends that come together are written in one transaction, in order.

Services of one process move in step, so several journals grow at once, and one sync of the disk
serves all of them. Every append keeps its own answer. If no other process writes the file, its
records are readable before their commit (docs/adr/0011): then none can be withdrawn any more, and
after a failed commit nothing is ever written again.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shared.model.ids import JournalName, Position
from shared.ports.bus import BusUnavailable

QUIET_TURNS = 4
"""Turns of the loop without another append before a commit: an append of a reader follows two turns
after the append it read.
"""


@dataclass(slots=True)
class Waiting:
    """An append whose record is not durable yet."""

    journal: JournalName
    expected: Position
    payload: bytes
    answer: asyncio.Future[Position]

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless the caller was cancelled."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Commits:
    """Collects appends and hands them to `commit`, which answers each of them."""

    def __init__(self, commit: Callable[[list[Waiting]], None], ahead: bool) -> None:
        self._commit = commit
        self._ahead = ahead
        self._waiting: list[Waiting] = []
        self._seen = self._quiet = 0
        self._failure: Exception | None = None

    def add(
        self, journal: JournalName, expected: Position, payload: bytes
    ) -> asyncio.Future[Position]:
        """Return the future answer: the position, or the errors of `Bus.append`."""
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting.append(Waiting(journal, expected, payload, answer))
        if len(self._waiting) == 1:
            self._seen = self._quiet = 0
            loop.call_soon(self._look)
        return answer

    def _look(self) -> None:
        """Flush when no more appends come."""
        if not self._waiting:
            return
        self._quiet = self._quiet + 1 if self._seen == len(self._waiting) else 0
        self._seen = len(self._waiting)
        if self._quiet < QUIET_TURNS:
            asyncio.get_running_loop().call_soon(self._look)
        else:
            self.flush()

    def flush(self) -> None:
        """Commit the waiting appends now."""
        waiting, self._waiting = self._waiting, []
        if not self._ahead:
            # Skip cancelled appends: no reader has seen them.
            waiting = [one for one in waiting if not one.answer.done()]
        if not waiting:
            return
        try:
            self._commit(waiting)
        except Exception as error:
            if self._ahead:
                self._failure = error
            for one in waiting:
                one.fail(error)

    def fail(self, error: Exception) -> None:
        """Fail all appends from now on."""
        self._failure = error
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.fail(error)

    def close(self) -> None:
        """Write the records that others may have read; drop the other waiting appends."""
        if self._ahead and self._failure is None:
            self.flush()
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.fail(BusUnavailable(f"{one.journal}: the journal file was closed"))
