"""Plays a plan against a target, open loop: an action waits for its time, never for an answer."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.flood.book import Book, Sample
from muster.flood.plan import Action, AddPods, Plan
from muster.flood.targets.target import Target

LOOK_S = 0.005
SAMPLE_MS = 100.0


@dataclass
class Progress:
    """Progress of a flood. `left_s`: the time until the last pod is bound, at the present rate;
    None = unknown.
    """

    total: int
    created: int = 0
    bound: int = 0
    waiting: int = 0
    per_second: float = 0.0
    seconds: float = 0.0
    left_s: float | None = None


RATE_S = 3.0
"""The rate is that of the last few seconds."""


@dataclass
class Player:
    """One flood. `show` is called a few times a second. A barrier that pods do not reach within
    `time_limit_s` ends the flood.
    """

    plan: Plan
    target: Target
    time_limit_s: float
    show: Callable[[Progress], None]
    book: Book = field(init=False)
    _recent: list[tuple[float, int]] = field(default_factory=list)
    _to_come_ms: float = 0.0
    _shown_ms: float = -SAMPLE_MS

    def __post_init__(self) -> None:
        """Begin with a fresh book."""
        self.book = Book(self.plan)

    async def play(self) -> bool:
        """Play all stages; return whether every awaited pod was bound or is gone."""
        self.target.start()
        is_complete = await self._stages()
        await self.target.settle()
        self.book.take(self.target.seen())
        self._sample()
        return is_complete

    async def _stages(self) -> bool:
        lengths = [stage[-1][0] if stage else 0 for stage in self.plan.stages]
        for place, stage in enumerate(self.plan.stages):
            began_ms = self.target.now_ms()
            self._to_come_ms = began_ms + sum(lengths[place:])
            for at_ms, action in stage:
                await self._until(began_ms + at_ms)
                self._act(action, began_ms + at_ms)
            if not await self._barrier():
                return False
        return True

    def _act(self, action: Action, due_ms: float) -> None:
        if isinstance(action, AddPods):
            self.book.come(action.numbers, due_ms)
        self.target.act(action)

    async def _until(self, due_ms: float) -> None:
        """Wait until an action is due. Others run first even if it is late."""
        if self.target.now_ms() < due_ms:
            self._look()
        while (left_ms := due_ms - self.target.now_ms()) > 0:
            await asyncio.sleep(min(left_ms, SAMPLE_MS) / 1000)
            self._look()

    async def _barrier(self) -> bool:
        end_s = time.monotonic() + self.time_limit_s
        self._look()
        while self.book.awaited:
            if time.monotonic() > end_s:
                return False
            await asyncio.sleep(LOOK_S)
            self._look()
        return True

    def _look(self) -> None:
        self.book.take(self.target.seen())
        now_ms = self.target.now_ms()
        if now_ms - self._shown_ms >= SAMPLE_MS:
            self._shown_ms = now_ms
            self._sample()
            self.show(self._progress(now_ms / 1000))

    def _sample(self) -> None:
        used = self.target.processor_s(), self.target.api_writes()
        self.book.samples.append(Sample(self.target.now_ms(), *used))

    def _progress(self, now_s: float) -> Progress:
        book = self.book
        self._recent = [one for one in self._recent if one[0] > now_s - RATE_S][-100:]
        self._recent.append((now_s, book.bound))
        (first_s, first), (last_s, last) = self._recent[0], self._recent[-1]
        rate = (last - first) / (last_s - first_s) if last_s > first_s else 0.0
        to_come_s = max(0.0, self._to_come_ms / 1000 - now_s)
        left = self.plan.pods - book.bound
        left_s = max(to_come_s, left / rate) if rate else to_come_s or None
        return Progress(self.plan.pods, book.created, book.bound, book.awaited, rate, now_s, left_s)
