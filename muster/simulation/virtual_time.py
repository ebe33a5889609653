"""An asyncio event loop on virtual time, and the clocks of simulated hosts.

Nothing ever sleeps: when all tasks wait, the clock jumps to the next timer. One thread, timers in
order of their time and ties in order of their making, so a run is a function of its inputs. The
loop does no I/O: a coroutine that waits for a socket waits for ever, and the run is called stuck.
"""

import asyncio
import selectors
from collections.abc import Callable
from typing import Any

EPOCH_MS = 1_700_000_000_000
SPINS_MAX = 200_000
"""Turns of the loop without time passing, after which the run is called a livelock."""


class SimulationStuck(RuntimeError):
    """Nothing can happen any more, or things happen for ever without time passing."""


class _Selector(selectors.SelectSelector):
    """Instead of waiting for a descriptor, lets the time pass."""

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
        """Virtual seconds since the loop was made."""
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
