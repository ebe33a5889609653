"""Shows Prometheus what was followed, and the pods that wait now."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from muster.metrics.follow import Followed
from muster.metrics.histogram import Histogram
from muster.metrics.lag import Lag
from muster.metrics.queues import QueueCollector
from muster.metrics.reasons import plugin_of
from services.queueing.core.state import QueueingState
from services.queueing.core.transitions import Pod
from shared.adapters.metrics import registry_of

QUEUES = {
    "active": (Pod.READY, Pod.LEFTOVER, Pod.NOMINATED),
    "backoff": (Pod.BACKOFF,),
    "unschedulable": (Pod.PARKED, Pod.ASKING, Pod.PREEMPTING, Pod.GANG_PENDING),
    "gated": (Pod.GATED,),
}
"""kube-scheduler's queues, which do not hold pods that are being tried."""


class SchedulerCollector(Collector):
    """Collects under kube-scheduler's names."""

    def __init__(self, followed: Followed, owners: Callable[[], Sequence[Any]]) -> None:
        """Read nothing before a scrape."""
        self._followed, self._owners = followed, owners

    def collect(self) -> Iterable[Metric]:
        """Yield attempts and preemptions, and the queues if this process owns queueing."""
        found, victims = self._followed.attempts, self._followed.victims
        yield _counter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods, by result",
            ("result", "profile"),
            found.results,
        )
        yield _histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time from an attempt's dispatch to the pod's bind, or until it waits again",
            ("result", "profile"),
            found.durations_s,
        )
        yield _histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from when a pod could be tried first to its bind, by attempts",
            ("attempts",),
            {(attempts,): one for attempts, one in found.sli_s.items()},
        )
        yield _histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts of each pod that was bound",
            (),
            {(): found.attempts},
        )
        yield _counter(
            "scheduler_queue_incoming_pods",
            "Pods added to queues, by queue and event",
            ("queue", "event"),
            found.incoming,
        )
        yield _counter(
            "scheduler_preemption_attempts",
            "Pods and gangs for which preemption was asked",
            (),
            {(): found.preemptions},
        )
        yield _histogram(
            "scheduler_preemption_victims",
            "Victims of each preemption",
            (),
            {(): victims},
        )
        pending = GaugeMetricFamily(
            "scheduler_pending_pods", "Pods that wait, by queue", labels=["queue"]
        )
        unschedulable = GaugeMetricFamily(
            "scheduler_unschedulable_pods",
            "Pods that no node fits, by each plugin that refused a node",
            labels=["plugin", "profile"],
        )
        for owner in self._owners():
            if isinstance(owner.state, QueueingState):
                # The pods of a process that stands by wait for another one.
                is_open = not owner.state.listing_ms
                for queue, codes in QUEUES.items():
                    counts = owner.state.pods.counts
                    pending.add_metric([queue], is_open * sum(counts[code] for code in codes))
                for labels, count in sorted(_unschedulable(owner.state).items()):
                    unschedulable.add_metric(labels, count)
        yield from (pending, unschedulable)


class ServiceCollector(Collector):
    """Collects how services keep up."""

    def __init__(self, followed: Followed, owners: Callable[[], Sequence[Any]], lag: Lag) -> None:
        """Read nothing before a scrape."""
        self._followed, self._owners, self._lag = followed, owners, lag

    def collect(self) -> Iterable[Metric]:
        """Yield turns, lag, open effects, and what batches save."""
        followed = self._followed
        turns_s = {(journal,): one for journal, one in followed.turns_s.items()}
        yield _histogram("muster_turn_duration_seconds", "Time of a turn", ("journal",), turns_s)
        yield _histogram(
            "muster_batch_size",
            "Pods of each dispatch to a shard",
            (),
            {(): followed.attempts.batches},
        )
        yield _counter(
            "muster_batch_ended",
            "Dispatches to a shard, by why no more equal pods went with them",
            ("reason",),
            {(reason,): count for reason, count in followed.attempts.ended.items()},
        )
        placed = {(journal,): one.pods for journal, one in followed.searches.items()}
        yield _histogram(
            "muster_search_pods", "Pods that each search for a node placed", ("journal",), placed
        )
        yield _counter(
            "muster_search_ended",
            "Searches for a node, by why they placed no more pods",
            ("journal", "reason"),
            {
                (journal, reason): count
                for journal, one in followed.searches.items()
                for reason, count in one.ended.items()
            },
        )
        lag = GaugeMetricFamily(
            "muster_reader_lag_records",
            "Records of a source that the journal has not consumed",
            labels=["journal", "source"],
        )
        effects = GaugeMetricFamily(
            "muster_effects_open", "Requests without a definite outcome", labels=["journal"]
        )
        for owner in self._owners():
            effects.add_metric([owner.journal], len(owner.core.effects(owner.state)))
        for labels, records in sorted(self._lag.records.items()):
            lag.add_metric(labels, records)
        yield from (lag, effects)


def _counter(
    name: str, text: str, labels: Sequence[str], counts: Mapping[Any, int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


def _histogram(
    name: str, text: str, labels: Sequence[str], found: Mapping[Any, Histogram]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, one in sorted(found.items()):
        family.add_metric(values, list(one.buckets()), one.total)
    return family


def _unschedulable(state: QueueingState) -> Counter[tuple[str, str]]:
    """Return how many pods wait because of each plugin, by plugin and profile."""
    pods: Counter[tuple[str, str]] = Counter()
    for number, sig in state.sigs.items():
        count = sig.parked_live + len(state.preempting.get(number, ()))
        if count:
            reasons = {text for one in sig.refusals.values() for text, _nodes in one.reasons}
            for plugin in {plugin_of(reason) for reason in reasons} - {""}:
                pods[plugin, sig.scheduler] += count
    return pods


def registry_with(
    followed: Followed,
    owners: Callable[[], Sequence[Any]],
    left_out: Callable[[], Mapping[str, int]] = dict,
    lag: Lag | None = None,
) -> CollectorRegistry:
    """Return a registry of these owners' counters, of what was followed, and of the lag that was
    measured last.
    """
    registry = registry_of(owners, left_out)
    registry.register(SchedulerCollector(followed, owners))
    registry.register(ServiceCollector(followed, owners, lag or Lag(owners)))
    registry.register(QueueCollector(owners))
    return registry
