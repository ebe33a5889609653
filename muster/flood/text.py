"""The summary of a flood as lines for people."""

from msgspec.structs import asdict

from muster.cli.terminal import duration
from muster.flood.summary import FloodSummary

WIDTH = 20


def lines_of(result: FloodSummary) -> list[str]:
    """Return the lines."""
    return [f"{name:<{WIDTH}}{value}" for name, value in rows(result)]


def rows(result: FloodSummary) -> list[tuple[str, str]]:
    """Return (name, value), in reading order."""
    latency, batches = result.latency_ms, result.batches
    found = [
        ("workload", f"{result.workload}, seed {result.seed}"),
        ("target", f"{result.target}, {result.scheduler}"),
        ("nodes", f"{result.nodes:,}"),
        ("pods", f"{result.pods:,}"),
        ("bound", f"{result.bound:,}"),
        ("waiting", f"{result.waiting:,}"),
        ("gone", f"{result.gone:,}"),
        ("measured", f"{result.measured_bound:,} of {result.measured:,} pods bound"),
        ("throughput", f"{result.pods_per_second:,.0f} pods/s over {duration(result.seconds)}"),
    ]
    if latency is not None:
        words = " ".join(
            f"{name.replace('_', '.')} {duration(value / 1000)}"
            for name, value in asdict(latency).items()
        )
        found.append(("latency", f"{words} (from when pods were to come)"))
    if result.processor_us_per_pod is not None:
        found.append(("processor time", f"{result.processor_us_per_pod:,.0f} us a pod"))
    if result.api_writes_per_pod is not None:
        found.append(("API writes", f"{result.api_writes_per_pod:,.2f} a pod"))
    if batches is not None:
        spans = f"p50 {batches.p50:,} p90 {batches.p90:,} p99 {batches.p99:,} max {batches.max:,}"
        found.append(("batches", f"{batches.count:,}, pods in each {spans}"))
    if result.placements > 1 and result.shard_imbalance is not None:
        words = f"{result.placements}, the fullest has {result.shard_imbalance:.2f} x the average"
        found.append(("shards", words))
    return [*found, ("kept in", result.run)]
