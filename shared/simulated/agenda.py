"""The timed entries of a simulated cluster: one heap and one timer on the running loop's clock."""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Agenda:
    """Entries (what, argument) by due time, first in first out among equals."""

    def __init__(self, run: Callable[[], None]) -> None:
        """`run` is called when entries are due; it takes them with `pop_due`."""
        self._run = run
        self._heap: list[tuple[float, int, str, Any]] = []
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._start_s: float | None = None
        self._clock: Callable[[], float] = lambda: 0.0

    def start(self) -> None:
        """Start the time at 0."""
        self._clock = asyncio.get_running_loop().time
        self._start_s = self._clock()
        self._set_timer()

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._start_s = None
        self._clock = lambda: 0.0

    def now_s(self) -> float:
        """Return the seconds since `start`; 0 before it."""
        return 0.0 if self._start_s is None else self._clock() - self._start_s

    def loop_s(self) -> float:
        """Return the running loop's own time; 0 before `start`."""
        return self._clock()

    def next_s(self) -> float | None:
        """Return the seconds until the next entry is due; None if there is none."""
        return self._heap[0][0] - self.now_s() if self._heap else None

    def add(self, due_s: float, what: str, argument: Any) -> None:
        """Add an entry."""
        self._count += 1
        heappush(self._heap, (due_s, self._count, what, argument))
        if self._heap[0][1] == self._count:
            self._set_timer()

    def pop_due(self) -> list[tuple[str, Any]]:
        """Return the due entries in order, and set the timer for the next one."""
        now_s = self.now_s() + 1e-9
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            _due_s, _count, what, argument = heappop(self._heap)
            due.append((what, argument))
        self._set_timer()
        return due

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._start_s is not None and self._heap:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._start_s + self._heap[0][0], self._run)
