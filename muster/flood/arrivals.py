"""Arrival processes: the times at which the things of one step come."""

import random
from collections.abc import Iterator
from itertools import count, islice
from math import cos, pi

from muster.flood.workload import Arrivals

STEPS_MAX = 60
"""Halvings of an interval of time: more than a float can tell apart."""


def times_ms(arrivals: Arrivals, number: int, chance: random.Random) -> list[int]:
    """Return this many times in ms since the step began, in order."""
    if arrivals.process == "burst" and not arrivals.size:
        return [0] * number
    return list(islice(endless_ms(arrivals, chance), number))


def endless_ms(arrivals: Arrivals, chance: random.Random) -> Iterator[int]:
    """Yield times in ms since the step began, in order, for ever. A burst has a size."""
    if arrivals.process == "burst":
        return (place // arrivals.size * arrivals.every_ms for place in count())
    if arrivals.process == "even":
        return (int(place * 1000 / arrivals.per_second) for place in count())
    return (int(1000 * second) for second in _by_chance(arrivals, chance))


def _by_chance(arrivals: Arrivals, chance: random.Random) -> Iterator[float]:
    """Yield the times in seconds of a Poisson process. With unit rate they are sums of exponential
    numbers; the rate stretches time.
    """
    expected, second = 0.0, 0.0
    while True:
        expected += chance.expovariate(1.0)
        if arrivals.swing:
            second = _second(arrivals, expected, second)
        else:
            second = expected / arrivals.per_second
        yield second


def _second(arrivals: Arrivals, expected: float, low: float) -> float:
    """Return when this many arrivals are expected, which is not before `low`."""
    high = low + 1.0
    while _expected(arrivals, high) < expected:
        low, high = high, low + 2 * (high - low)
    for _ in range(STEPS_MAX):
        middle = (low + high) / 2
        if _expected(arrivals, middle) < expected:
            low = middle
        else:
            high = middle
    return high


def _expected(arrivals: Arrivals, second: float) -> float:
    """Return the expected number of arrivals until then; the rate begins at its mean and rises."""
    period_s = arrivals.period_ms / 1000
    swung = arrivals.swing * period_s / (2 * pi) * (1 - cos(2 * pi * second / period_s))
    return arrivals.per_second * (second + swung)
