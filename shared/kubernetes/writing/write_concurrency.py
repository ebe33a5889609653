"""Limits the writes in flight; the limit follows the answers, without a fixed rate.

It rises while answers are fast, falls when the server is slow, and falls far when it refuses: TCP's
slow start (RFC 5681) until the first sign of either, then additive increase, multiplicative
decrease. It knows nothing of the requests.
"""

import asyncio
from collections import deque
from contextlib import suppress

WIDTH_FIRST, WIDTH_MIN, WIDTH_MAX = 64.0, 1.0, 192.0
WIDTH_SLOW = 96.0
"""Late answers alone never narrow the window below this: they may be late at any width.
kube-scheduler, which sends 50 requests a second and at first 100 at once, has as many in flight at
2 s each. Only refusals and failures narrow the window to WIDTH_MIN.
"""
DECREASE = 0.7
STARTING = 0.25
"""How much each good answer widens a window that was never too wide: it doubles in three rounds of
answers.
"""
SLOW_S, SLOW_TIMES = 0.25, 4.0
"""An answer that takes longer than this, and this many times as long as the best, means that
requests queue in the server. On a distant server every answer takes long, which means nothing.
"""
FORGET = 0.001
"""How fast the best time is forgotten, per answer."""
REST_S = 0.1
"""Busy answers to requests that were sent together count once."""
CROWDED_S = 1.0
QUIET_S = 0.05
"""Writes of earlier decisions have arrived after that time without a write."""


class WriteWindow:
    """A semaphore, first come first served, whose width follows the server."""

    def __init__(self) -> None:
        """Start with nothing in flight."""
        self.width = WIDTH_FIRST
        self.out = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._best_s = float("inf")
        self._narrowed_s = self._busy_s = float("-inf")
        self._is_starting = True
        self._is_closed = False
        self._is_empty = asyncio.Event()

    @property
    def is_crowded(self) -> bool:
        """Return whether the server has just refused something, so that less urgent requests should
        wait.
        """
        return asyncio.get_running_loop().time() - self._busy_s < CROWDED_S

    async def enter(self) -> None:
        """Wait for room."""
        if self.out < int(self.width) and not self._waiting and not self._is_closed:
            self.out += 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._admit()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Leave the window: the answer is here or will never come."""
        self.out -= 1
        if not self.out:
            self._is_empty.set()
        self._admit()

    async def finish(self, limit_s: float) -> None:
        """Wait until no write is under way and none comes, then admit no more and wait for the
        answers that are missing. Each wait takes at most `limit_s`.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                is_quiet = False
                while not is_quiet:
                    await self._until_empty()
                    await asyncio.sleep(QUIET_S)
                    is_quiet = not self.out
        self._is_closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._until_empty()

    async def _until_empty(self) -> None:
        while self.out:
            self._is_empty.clear()
            await self._is_empty.wait()

    def went_well(self, took_s: float) -> None:
        """Count an answer; a slow one narrows the window, but not below WIDTH_SLOW."""
        if took_s < self._best_s:
            self._best_s = took_s
        else:
            self._best_s += (took_s - self._best_s) * FORGET
        is_slow = took_s > max(SLOW_S, SLOW_TIMES * self._best_s)
        if is_slow and self.width > WIDTH_SLOW:
            self._narrow(WIDTH_SLOW)
        elif self.out >= int(self.width) - 1 and self.width < (
            WIDTH_SLOW if is_slow else WIDTH_MAX
        ):
            self.width += STARTING if self._is_starting else 1.0 / self.width

    def was_busy(self) -> None:
        """Count a 429, a 5xx, or no answer."""
        self._busy_s = asyncio.get_running_loop().time()
        self._narrow(WIDTH_MIN)

    def _narrow(self, least: float) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._narrowed_s >= REST_S:
            self._narrowed_s = now_s
            self._is_starting = False
            self.width = max(least, self.width * DECREASE)

    def _admit(self) -> None:
        waiting = self._waiting
        while waiting and self.out < int(self.width) and not self._is_closed:
            future = waiting.popleft()
            if not future.done():
                self.out += 1
                future.set_result(None)
