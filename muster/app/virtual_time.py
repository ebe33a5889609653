"""An asyncio event loop on virtual time, and the clocks of hosts on it.

Nothing sleeps: when all tasks wait, the clock jumps to the next timer. There is one thread, and
timers run in order of time, ties in order of creation, so a run is a function of its inputs. The
loop does no I/O: a coroutine that waits for a socket waits for ever, and the run counts as stuck.
"""

import asyncio
import selectors
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from shared.machine.runtime import Host

EPOCH_MS = 1_700_000_000_000
SPINS_MAX = 200_000
"""Turns of the loop at one virtual time after which the run counts as a livelock."""
TICK_S = 0.1


class SimulationStuck(RuntimeError):
    """Nothing can happen any more, or the loop turns for ever at one virtual time."""


class _Selector(selectors.SelectSelector):
    """A selector that advances the virtual time instead of waiting for a descriptor.

    With `on_tick` it calls that every TICK_S of real time, and then looks for signals.
    """

    def __init__(self, advance: Callable[[float | None], None]) -> None:
        super().__init__()
        self._advance = advance
        self.on_tick: Callable[[], None] | None = None
        self._next_tick_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        self._advance(timeout)
        if self.on_tick is None or time.monotonic() < self._next_tick_s:
            return []
        self.on_tick()
        self._next_tick_s = time.monotonic() + TICK_S
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A SelectorEventLoop whose clock moves only when everything waits."""

    def __init__(self, spins_max: int = SPINS_MAX) -> None:
        self._virtual_s = 0.0
        self._spins, self._spins_max = 0, spins_max
        self._selecting = _Selector(self._advance)
        super().__init__(self._selecting)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Return virtual seconds since the loop was made."""
        return self._virtual_s

    def show_with(self, show: Callable[[], None]) -> None:
        """Call `show`, which must decide nothing, every TICK_S of real time; let signals end the
        loop.
        """
        self._selecting.on_tick = show

    def _advance(self, timeout_s: float | None) -> None:
        if timeout_s is None:
            raise SimulationStuck("every task waits for something that cannot come")
        if timeout_s > 0:
            self._virtual_s += timeout_s
            self._spins = 0
        else:
            self._spins += 1
            if self._spins > self._spins_max:
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


async def inline(call: Callable[..., Any], *args: Any) -> Any:
    """Run a call inline: Host.offload without threads."""
    return call(*args)


def virtual_host(loop: asyncio.AbstractEventLoop, owner: str) -> Host:
    """Return a host without threads and chance, so that a run on the loop repeats exactly."""
    numbers = count(1)
    return Host(SimClock(loop), owner, lambda: f"{owner}-{next(numbers)}", inline)
