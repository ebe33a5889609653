"""Makes the summary of a flood from its book and its journals."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from muster.flood.book import Book, Times
from muster.flood.journals import Told
from muster.flood.summary import Batches, FloodSummary, Latencies, Series

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

US_MAX = 24 * 3_600_000_000
DIGITS = 3
"""A histogram keeps latencies up to a day with this many digits."""
INTERVALS_MS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000)
INTERVALS_MAX = 300


@dataclass(frozen=True)
class About:
    """What a flood was played against; `started_ms` is when it began, since the epoch."""

    seed: int
    target: str
    scheduler: str
    run: str
    placements: int
    started_ms: int


def summarise(book: Book, about: About, told: Told | None, is_complete: bool) -> FloodSummary:
    """Return the summary. `told` is None where the journals are out of reach."""
    came = ~np.isnan(book.due_ms)
    was_bound = ~np.isnan(book.bound_ms)
    measured = came & book.is_measured
    done = measured & was_bound
    seconds = 0.0
    if np.any(done):
        seconds = float(book.bound_ms[done].max() - book.due_ms[measured].min()) / 1000
    histogram = histogram_of(book.latencies_ms())
    first, last = book.samples[0], book.samples[-1]
    processor_us = writes = None
    if book.bound and first.processor_s is not None and last.processor_s is not None:
        processor_us = round(1e6 * (last.processor_s - first.processor_s) / book.bound, 1)
    if book.bound and first.api_writes is not None and last.api_writes is not None:
        writes = round((last.api_writes - first.api_writes) / book.bound, 3)
    shards = [sum(pods for _, pods in shard) for shard in told.shards] if told else []
    return FloodSummary(
        workload=book.plan.name,
        seed=about.seed,
        target=about.target,
        scheduler=about.scheduler,
        run=about.run,
        placements=about.placements,
        complete=is_complete,
        nodes=len(book.plan.nodes),
        pods=int(np.count_nonzero(came)),
        bound=book.bound,
        gone=int(np.count_nonzero(book.is_gone)),
        waiting=int(np.count_nonzero(came & ~was_bound & ~book.is_gone)),
        measured=int(np.count_nonzero(measured)),
        measured_bound=int(np.count_nonzero(done)),
        seconds=round(seconds, 3),
        pods_per_second=round(int(np.count_nonzero(done)) / seconds, 1) if seconds else 0.0,
        latency_ms=_latencies(histogram),
        latency_histogram=histogram.encode().decode(),
        processor_us_per_pod=processor_us,
        api_writes_per_pod=writes,
        batches=_batches([pods for _, pods in told.batches] if told else []),
        shard_imbalance=round(max(shards) * len(shards) / sum(shards), 3) if any(shards) else None,
        series=_series(book, told, about.started_ms),
    )


def histogram_of(latencies_ms: Times) -> "HdrHistogram":
    """Return a histogram of microseconds."""
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(1, US_MAX, DIGITS)
    latencies_us = np.clip(latencies_ms * 1000, 1, US_MAX).astype(np.int64)
    values, counts = np.unique(latencies_us, return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        histogram.record_value(value, count)
    return histogram


def _latencies(histogram: "HdrHistogram") -> Latencies | None:
    if not histogram.get_total_count():
        return None
    p50, p90, p99, p99_9, most = (
        round(histogram.get_value_at_percentile(percent) / 1000, 3)
        for percent in (50, 90, 99, 99.9, 100)
    )
    return Latencies(p50=p50, p90=p90, p99=p99, p99_9=p99_9, max=most)


def _batches(sizes: Sequence[int]) -> Batches | None:
    if not sizes:
        return None
    ordered = sorted(sizes)
    last = len(ordered) - 1
    p50, p90, p99, most = (ordered[min(last, len(ordered) * p // 100)] for p in (50, 90, 99, 100))
    return Batches(count=len(ordered), p50=p50, p90=p90, p99=p99, max=most)


def _series(book: Book, told: Told | None, started_ms: int) -> Series:
    end_ms = max(1.0, book.samples[-1].at_ms)
    fitting = (one for one in INTERVALS_MS if end_ms / one <= INTERVALS_MAX)
    interval_ms = next(fitting, INTERVALS_MS[-1])
    edges = np.arange(0.0, end_ms + interval_ms, interval_ms)

    def counted(times_ms: Times, weights: Sequence[float] | None = None) -> Times:
        return np.histogram(times_ms[~np.isnan(times_ms)], edges, weights=weights)[0]

    created, bound = counted(book.due_ms), counted(book.bound_ms)
    processors = [(one.at_ms, one.processor_s) for one in book.samples]
    writes = [(one.at_ms, one.api_writes) for one in book.samples]
    never = ~np.isnan(book.due_ms) & np.isnan(book.bound_ms) & book.is_gone
    gone = counted(book.due_ms[never])  # never bound: not part of the queue
    return Series(
        interval_ms=interval_ms,
        created=created.tolist(),
        bound=bound.tolist(),
        waiting=np.cumsum(created - bound - gone).tolist(),
        batch_pods=_means(told.batches if told else [], edges, started_ms),
        shard_pods=[
            _sums(shard, edges, started_ms).astype(int).tolist()
            for shard in (told.shards if told else [])
        ],
        processors=_rates(processors, edges, 1000 / interval_ms),
        api_writes=[round(count) for count in _rates(writes, edges, 1)],
    )


def _sums(told: Sequence[tuple[int, int]], edges: Times, started_ms: int) -> Times:
    times_ms = np.array([time_ms - started_ms for time_ms, _ in told], float)
    found: Times = np.histogram(times_ms, edges, weights=[float(pods) for _, pods in told])[0]
    return found


def _means(told: Sequence[tuple[int, int]], edges: Times, started_ms: int) -> list[float]:
    pods = _sums(told, edges, started_ms)
    counts = _sums([(time_ms, 1) for time_ms, _ in told], edges, started_ms)
    means = np.divide(pods, counts, out=np.zeros_like(pods), where=counts > 0)
    return [round(mean, 1) for mean in means.tolist()]


def _rates(used: Sequence[tuple[float, float | None]], edges: Times, scale: float) -> list[float]:
    """Return how much was used in each interval, times `scale`; nothing where it is unknown."""
    known = [(at_ms, amount) for at_ms, amount in used if amount is not None]
    if len(known) < len(used):
        return []
    totals = np.interp(edges, [at_ms for at_ms, _ in known], [amount for _, amount in known])
    return [round((after - before) * scale, 3) for before, after in pairwise(totals.tolist())]
