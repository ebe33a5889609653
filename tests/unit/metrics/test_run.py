"""The metrics of a whole run beside its summary, which is counted from the journals."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from muster.app.mesh import Mesh
from muster.app.pacing import VIRTUAL
from muster.app.runner import Runner
from muster.app.virtual_time import VirtualLoop, virtual_host
from muster.explain.run_summary import RunSummary
from muster.explain.summary import summarise
from muster.metrics.collector import registry_with
from muster.metrics.follow import Followed
from shared.bus.memory import MemoryBus, MemoryLog
from shared.simulated.cluster import SimCluster
from shared.snapshots.memory import MemorySnapshots
from shared.worlds.settings import Choice, load_world

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "manifests"
PROFILE = "default-scheduler"


@pytest.fixture(scope="module", params=[1, 3])
def played(request: pytest.FixtureRequest) -> tuple[RunSummary, CollectorRegistry]:
    """Return the summary of the example world with so many shards, and the metrics."""
    return run(request.param)


def run(placements: int) -> tuple[RunSummary, CollectorRegistry]:
    loop, log = VirtualLoop(), MemoryLog()
    world = load_world([str(EXAMPLE)], Choice(plain=False, speed=None, seed=None)).world
    cluster, followed = SimCluster(world), Followed()
    mesh = Mesh(
        bus_of=lambda _journal: MemoryBus(log),
        store=MemorySnapshots(),
        cluster=cluster,
        placements=placements,
        config={"queueing": {"confirm_ms": 1_000}},
        pace=VIRTUAL,
        host=virtual_host(loop, "muster"),
        follow=followed.attach,
    )
    runner = Runner(world, cluster, mesh, MemoryBus(log), 1_000, lambda _: None, is_virtual=True)
    with asyncio.Runner(loop_factory=lambda: loop) as running:
        outcome = running.run(runner.run())
    summary = summarise(world.name, outcome, Path(), placements, is_virtual=True)
    return summary, registry_with(followed, mesh.owners)


def scheduled(registry: CollectorRegistry) -> float | None:
    labels = {"result": "scheduled", "profile": PROFILE}
    return registry.get_sample_value("scheduler_schedule_attempts_total", labels)


def total(registry: CollectorRegistry, sample: str) -> float:
    """Return the sum of a sample over all labels."""
    families = registry.collect()
    return sum(one.value for family in families for one in family.samples if one.name == sample)


def test_each_pod_that_was_bound_is_a_scheduled_attempt(played):
    summary, registry = played
    assert summary.ever_bound > 0
    assert scheduled(registry) == summary.ever_bound
    assert total(registry, "scheduler_pod_scheduling_attempts_count") == summary.ever_bound
    assert total(registry, "scheduler_pod_scheduling_sli_duration_seconds_count") == (
        summary.ever_bound
    )


def test_the_pods_that_wait_are_in_the_queues(played):
    summary, registry = played
    assert summary.waiting > 0
    assert total(registry, "scheduler_pending_pods") == summary.waiting


def test_preemptions_have_the_victims_of_the_summary(played):
    summary, registry = played
    assert summary.victims > 0
    assert total(registry, "scheduler_preemption_victims_sum") == summary.victims
    assert total(registry, "scheduler_preemption_victims_count") == summary.preemptions
    assert total(registry, "scheduler_preemption_attempts_total") >= summary.preemptions


def test_each_pod_was_added_once(played):
    summary, registry = played
    added = [
        registry.get_sample_value(
            "scheduler_queue_incoming_pods_total",
            {"queue": queue, "event": "UnschedulablePodAdd"},
        )
        for queue in ("active", "unschedulable")
    ]
    assert sum(count or 0 for count in added) == summary.pods


def test_each_dispatch_and_each_search_ended_once(played):
    _summary, registry = played
    dispatches = total(registry, "muster_batch_size_count")
    assert total(registry, "muster_batch_ended_total") == dispatches > 0
    searches = total(registry, "muster_search_pods_count")
    assert total(registry, "muster_search_ended_total") == searches > 0
