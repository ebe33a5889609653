"""An asyncio event loop on virtual time, and the clocks of simulated hosts.

Nothing sleeps: when all tasks wait, the clock jumps to the next timer. There is one thread, and
timers run in order of time, ties in order of creation, so a run is a function of its inputs. The
loop does no I/O: a coroutine that waits for a socket waits for ever, and the run counts as stuck.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

EPOCH_MS = 1_700_000_000_000
SPINS_MAX = 200_000
"""Turns of the loop at one virtual time after which the run counts as a livelock."""


class SimulationStuck(RuntimeError):
    """Nothing can happen any more, or the loop turns for ever at one virtual time."""


class _Selector(selectors.SelectSelector):
    """A selector that advances the virtual time instead of waiting for a descriptor."""

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        super().__init__()
        self._advance = advance

    def select(self, timeout: float | None = None) -> list[Any]:
        self._advance(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """A SelectorEventLoop whose clock moves only when everything waits."""

    def __init__(self) -> None:
        self._virtual_s = 0.0
        self._spins = 0
        super().__init__(_Selector(self._advance))
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._virtual_s

    def _advance(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            raise SimulationStuck("every task waits for something that cannot come")
        if timeout_s > 0:
            self._virtual_s += timeout_s
            self._spins = 0
        else:
            self._spins += 1
            if self._spins > SPINS_MAX:
                self._spins = 0
                raise SimulationStuck(f"livelock at {self._virtual_s:.3f} s: no time passes")


class SimClock:
    """A host's wall clock: the loop's time, plus a skew that a fault may change."""

    def __init__(self, loop: asyncio.AbstractEventLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """See Clock.now_ms."""
        return EPOCH_MS + int(self._loop.time() * 1000) + self.skew_ms
