"""Histograms as plain lists: Prometheus' cost more than placing a pod in a batch."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence


def exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` upper bounds of buckets, each `factor` times the one before."""
    return tuple(first * factor**power for power in range(count))


class Histogram:
    """Counts values by upper bounds, and sums them."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` ascend; values above the last one are in a bucket of their own."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float, count: int = 1) -> None:
        """Count a value, `count` times."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Yield each upper bound as Prometheus writes it, with the count of values up to it."""
        below = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            below += count
            yield (bound if isinstance(bound, str) else f"{bound:.12g}"), below
