"""The pods that wait now: those of the process that decides."""

from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from muster.metrics.collector import SchedulerCollector
from muster.metrics.follow import Followed
from shared.events.ingest import WorldListed
from tests.unit.queueing.inputs import pending, queue


def test_a_process_that_stands_by_shows_no_pods():
    steps, registry = queue(), CollectorRegistry()
    owner = SimpleNamespace(state=steps.state)
    registry.register(SchedulerCollector(Followed(), lambda: [owner]))
    steps.when(WorldListed(complete=False), pending(1, 1, 2))
    assert registry.get_sample_value("scheduler_pending_pods", {"queue": "active"}) == 0
    steps.state.listing_ms = 0
    assert registry.get_sample_value("scheduler_pending_pods", {"queue": "active"}) == 2
