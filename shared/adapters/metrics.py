"""Metrics for Prometheus: the machine's plain counters, read at each scrape.

Nothing is counted twice and nothing on the hot path knows Prometheus: incrementing one of its
counters costs more than placing a pod in a batch (measured: docs/explanation/performance.md).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shared.scheduling.api.custom.failures import failures
from shared.scheduling.api.custom.plugin import PLUGINS

COUNTERS = {
    "records": "Records appended to the journal",
    "bytes": "Bytes appended to the journal",
    "events": "Events decided",
    "inputs": "Events consumed from other journals",
    "steps": "Steps taken",
    "voids": "Void records skipped in other journals",
    "snapshots": "Snapshots taken",
    "snapshots_bad": "Snapshots that could not be used when the journal was folded",
}


class MachineCollector(Collector):
    """Collects from the present owners. `owners` yields runtime Owners."""

    def __init__(self, owners: Callable[[], Sequence[Any]]) -> None:
        """Read nothing before a scrape."""
        self._owners = owners

    def collect(self) -> Iterable[Metric]:
        """Yield one family per counter, labelled by journal; position and submissions as gauges."""
        owners = [owner for owner in self._owners() if owner is not None]
        for name, text in COUNTERS.items():
            family = CounterMetricFamily(f"muster_{name}", text, labels=["journal"])
            for owner in owners:
                family.add_metric([owner.journal], getattr(owner.stats, name))
            yield family
        position = GaugeMetricFamily(
            "muster_journal_position", "Next position of the journal", labels=["journal"]
        )
        waiting = GaugeMetricFamily(
            "muster_offers_waiting", "Observations not recorded yet", labels=["journal"]
        )
        evictions = CounterMetricFamily(
            "muster_evictions", "Pods evicted for others", labels=["beyond_budget"]
        )
        for owner in owners:
            for beyond, count in enumerate(getattr(owner.shell, "evictions", ())):
                evictions.add_metric([str(bool(beyond)).lower()], count)
            position.add_metric([owner.journal], owner.folded.own_reader.next)
            waiting.add_metric([owner.journal], owner.submitted)
        yield from (position, waiting, evictions)


class PluginCollector(Collector):
    """Counts how often users' plugins were asked about one node, and raised."""

    def collect(self) -> Iterable[Metric]:
        """Yield one sample for each plugin."""
        scalar = CounterMetricFamily(
            "muster_plugin_scalar", "Nodes a plugin was asked about one by one", labels=["plugin"]
        )
        errors = CounterMetricFamily(
            "muster_plugin_errors",
            "Exceptions and unusable answers of a plugin's method",
            labels=["plugin", "method"],
        )
        for name, found in sorted(PLUGINS.items()):
            made = found.made.values()
            scalar.add_metric([name], sum(one.scalar_calls for one in made))
        counts: Counter[tuple[str, str]] = Counter()
        for failure in failures():
            counts[failure.plugin, failure.method] += failure.count
        for labels, count in sorted(counts.items()):
            errors.add_metric(labels, count)
        yield from (scalar, errors)


class LeftOutCollector(Collector):
    """Counts the cluster's objects that cannot be used at present."""

    def __init__(self, counts: Callable[[], Mapping[str, int]]) -> None:
        """`counts` returns the number by kind."""
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Yield one sample for each kind with such objects."""
        family = GaugeMetricFamily(
            "muster_left_out", "Objects that cannot be used as they are now", labels=["kind"]
        )
        for kind, count in self._counts().items():
            family.add_metric([kind], count)
        yield family


def registry_of(
    owners: Callable[[], Sequence[Any]], left_out: Callable[[], Mapping[str, int]] = dict
) -> CollectorRegistry:
    """Return a registry for these owners; `left_out` returns counts by kind."""
    registry = CollectorRegistry()
    registry.register(MachineCollector(owners))
    registry.register(PluginCollector())
    registry.register(LeftOutCollector(left_out))
    return registry
