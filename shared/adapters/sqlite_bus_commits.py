"""Group commit: appends that come in one turn of the loop are written in one transaction.

Services of one process move in step, so several journals grow at once; one sync of the disk is
enough for all of them. Every append keeps its own answer.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from shared.ports.bus import BusUnavailable, JournalName


@dataclass(slots=True)
class Waiting:
    """An append whose record is not written yet."""

    journal: JournalName
    expected: int
    payload: bytes
    answer: asyncio.Future[int]

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless nobody waits any more."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Commits:
    """Collects appends and hands them to `commit`, which answers each of them."""

    def __init__(self, commit: Callable[[list[Waiting]], None]) -> None:
        self._commit = commit
        self._waiting: list[Waiting] = []

    def add(self, journal: JournalName, expected: int, payload: bytes) -> asyncio.Future[int]:
        """The answer to come: the position, or what `Bus.append` raises."""
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        self._waiting.append(Waiting(journal, expected, payload, answer))
        if len(self._waiting) == 1:
            # Two turns: those who are woken beside the first have appended by then.
            loop.call_soon(loop.call_soon, self._flush)
        return answer

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        # Whoever was cancelled meanwhile is gone; nothing is written for it.
        group = [one for one in waiting if not one.answer.done()]
        if not group:
            return
        try:
            self._commit(group)
        except Exception as error:
            for one in group:
                one.fail(error)

    def close(self) -> None:
        """Nothing that still waits is written."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.fail(BusUnavailable(f"{one.journal}: the journal file was closed"))
