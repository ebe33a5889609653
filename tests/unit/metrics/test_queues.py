"""What Queues use and may use, as Prometheus sees it."""

from types import SimpleNamespace

from prometheus_client import CollectorRegistry

from muster.metrics.queues import QueueCollector
from shared.events.ingest import QueuesSet, SignatureDefined
from shared.model.cluster_objects import Queue
from shared.model.objects import PodSpec
from tests.unit.queueing.inputs import pending, queue

LIMITS = (("cpu", 2_500), ("pods", 2))


def test_amounts_are_in_base_units_and_pods_without_a_queue_are_in_none():
    steps = queue(priorities=()).given(
        QueuesSet((Queue(uid="a", name="a", max=LIMITS, guaranteed=(("cpu", 1_000),)),)),
        SignatureDefined(1, PodSpec(queue="a", requests=(("cpu", 500),))),
        SignatureDefined(2, PodSpec()),
    )
    steps.when(pending(1, 1, 2, 3), pending(2, 4))
    registry = CollectorRegistry()
    registry.register(QueueCollector(lambda: [SimpleNamespace(state=steps.state)]))
    found = {
        (sample.name.removeprefix("muster_queue_"), sample.labels.get("resource", "")): sample.value
        for family in registry.collect()
        for sample in family.samples
    }
    assert found == {
        ("used", "cpu"): 1.0,
        ("used", "pods"): 2,
        ("max", "cpu"): 2.5,
        ("max", "pods"): 2,
        ("guaranteed", "cpu"): 1.0,
        ("waiting_pods", ""): 3,
    }


def test_without_queues_there_are_no_figures():
    steps, registry = queue(), CollectorRegistry()
    registry.register(QueueCollector(lambda: [SimpleNamespace(state=steps.state)]))
    assert not any(family.samples for family in registry.collect())
