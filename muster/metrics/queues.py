"""Shows Prometheus what Queues use, may use and are guaranteed, and how many pods wait in them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.queueing.core.state import QueueingState
from services.queueing.core.transitions import Pod
from shared.model.queues import THOUSANDTHS


class QueueCollector(Collector):
    """Collects amounts in Kubernetes' base units: cores, bytes, counts, and devices, also parts of
    them.
    """

    def __init__(self, owners: Callable[[], Sequence[Any]]) -> None:
        """Read nothing before a scrape."""
        self._owners = owners

    def collect(self) -> Iterable[Metric]:
        """Yield the figures of each Queue if this process owns queueing."""
        used = _gauge("used", "What the pods of a Queue and of those below it use, by resource")
        most = _gauge("max", "The most that a Queue and those below it may use, by resource")
        guaranteed = _gauge("guaranteed", "What a Queue gets before others borrow it, by resource")
        waiting = GaugeMetricFamily(
            "muster_queue_waiting_pods", "Pods of a Queue that have no node yet", labels=["queue"]
        )
        for owner in self._owners():
            state = owner.state
            if not isinstance(state, QueueingState) or state.quota is None:
                continue
            pods = _waiting(state)
            for queue in sorted(state.queues, key=lambda one: one.name):
                _add(used, queue.name, state.quota.used.get(queue.name, {}))
                _add(most, queue.name, dict(queue.max))
                _add(guaranteed, queue.name, dict(queue.guaranteed))
                waiting.add_metric([queue.name], pods.get(queue.name, 0))
        yield from (used, most, guaranteed, waiting)


def _gauge(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"muster_queue_{name}", text, labels=["queue", "resource"])


def _add(gauge: GaugeMetricFamily, queue: str, amounts: Mapping[str, int]) -> None:
    for resource, amount in sorted(amounts.items()):
        gauge.add_metric([queue, resource], amount / 1000 if resource in THOUSANDTHS else amount)


def _waiting(state: QueueingState) -> dict[str, int]:
    """Return how many pods of each queue wait or are being tried."""
    pods, found = state.pods, dict[str, int]()
    rows = (pods.state > int(Pod.UNKNOWN)) & (pods.state < int(Pod.RESERVED))
    for number, count in zip(*np.unique(pods.sig[rows], return_counts=True), strict=True):
        queue = state.sigs[number].queue
        found[queue] = found.get(queue, 0) + int(count)
    return found
