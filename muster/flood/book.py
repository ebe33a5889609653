"""What happened to each pod of a flood: when it was to come, and when it was bound."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from muster.flood.plan import Plan

Times = NDArray[np.float64]


@dataclass
class Seen:
    """What a target has seen since the last look: pods with a node, since when (ms since the flood
    began) and which one, and pods that are gone.
    """

    bound: Sequence[int] = ()
    bound_ms: Sequence[float] = ()
    gone: Sequence[int] = ()
    nodes: Sequence[str] = ()


@dataclass
class Sample:
    """Resources used until `at_ms`: processor seconds, and writes to the API; None = unknown."""

    at_ms: float
    processor_s: float | None
    api_writes: int | None


@dataclass
class Book:
    """Times in ms since the flood began; NaN = not yet. A pod's latency begins when it was to come,
    not when it came: a target that is late makes the latency longer, not the load smaller.
    """

    plan: Plan
    due_ms: Times = field(init=False)
    bound_ms: Times = field(init=False)
    is_gone: NDArray[np.bool_] = field(init=False)
    is_wanted: NDArray[np.bool_] = field(init=False)
    is_measured: NDArray[np.bool_] = field(init=False)
    samples: list[Sample] = field(default_factory=list)
    created: int = 0
    bound: int = 0
    awaited: int = 0
    """Pods that came, that barriers wait for, and that are neither bound nor gone."""

    def __post_init__(self) -> None:
        """Begin with pods that are all still to come."""
        pods = self.plan.pods
        self.due_ms, self.bound_ms = np.full(pods, np.nan), np.full(pods, np.nan)
        self.is_gone = np.zeros(pods, np.bool_)
        self.is_wanted, self.is_measured = self._of(True), self._of(False)

    def _of(self, is_wanted: bool) -> NDArray[np.bool_]:
        found = np.zeros(self.plan.pods, np.bool_)
        for numbers in self.plan.numbers(is_wanted):
            found[numbers.start : numbers.stop] = True
        return found

    def come(self, numbers: Sequence[int], due_ms: float) -> None:
        """Keep when pods were to come; they are created now."""
        pods = np.asarray(numbers)
        self.due_ms[pods] = due_ms
        self.created += len(pods)
        self.awaited += int(np.count_nonzero(self.is_wanted[pods]))

    def take(self, seen: Seen) -> None:
        """Keep what was seen; the first bind of a pod counts."""
        if seen.bound:
            pods, times_ms = np.asarray(seen.bound), np.asarray(seen.bound_ms)
            new = np.isnan(self.bound_ms[pods])
            pods, times_ms = pods[new], times_ms[new]
            self.bound_ms[pods] = times_ms
            self.bound += len(pods)
            self.awaited -= int(np.count_nonzero(self.is_wanted[pods] & ~self.is_gone[pods]))
        if seen.gone:
            pods = np.asarray(seen.gone)
            pods = pods[~self.is_gone[pods]]
            self.is_gone[pods] = True
            unbound = self.is_wanted[pods] & np.isnan(self.bound_ms[pods])
            self.awaited -= int(np.count_nonzero(unbound))

    def latencies_ms(self) -> Times:
        """Return the latencies of the measured pods that were bound."""
        measured = self.is_measured & ~np.isnan(self.bound_ms)
        return np.maximum(self.bound_ms[measured] - self.due_ms[measured], 0.0)
