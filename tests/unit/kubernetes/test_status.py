"""Statuses of a live cluster: start times of pods, and the evictions that budgets have counted."""

import pytest

from shared.events.observed import BudgetsSeen, PodsSeen, PodsStartedSeen
from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.watching import watch as kube_watch
from shared.model.columns import pack
from tests.unit.kubernetes.fake_api import FakeApi
from tests.unit.kubernetes.test_watching import NODE
from tests.unit.kubernetes.watch import Watch


@pytest.fixture
async def watch(cluster: KubeCluster, api: FakeApi, monkeypatch):
    monkeypatch.setattr(kube_watch, "BACKOFF_S", 0.01)
    opened = Watch(cluster, api.revision)
    yield opened
    await opened.close()


async def test_a_start_time_is_reported_once_and_alone(
    watch: Watch, cluster: KubeCluster, api: FakeApi
):
    api.put("nodes", "node-0", status=NODE)
    for name in ("a", "b"):
        api.pod(name, nodeName="node-0")
    await watch.until(lambda: sorted(watch.names()) == ["a", "b"])
    assert watch.of(PodsStartedSeen) == []
    running = {"phase": "Running", "startTime": "2026-01-02T03:04:05Z"}
    api.put("pods", "a", status=running)
    await watch.until(lambda: bool(watch.of(PodsStartedSeen)))
    api.put("pods", "a", status=running | {"podIP": "10.0.0.1"})
    api.put("pods", "b", status=running, metadata={"labels": {"app": "x"}})
    await watch.until(lambda: len(watch.of(PodsStartedSeen)) == 2)
    at_ms = pack([1_767_323_045_000])
    assert watch.of(PodsStartedSeen) == [
        PodsStartedSeen("uid-a", at_ms),
        PodsStartedSeen("uid-b", at_ms),
    ]
    assert sorted(watch.names()) == ["a", "b", "b"], "of the second one the labels as well"
    *_, seen, started = (await cluster.list_all("pods")).events
    assert isinstance(seen, PodsSeen)
    assert started == PodsStartedSeen("uid-a\nuid-b", at_ms * 2)


async def test_budgets_name_the_evictions_they_have_counted(
    watch: Watch, cluster: KubeCluster, api: FakeApi
):
    """The status has names; the API is asked about each name once while it is listed."""
    for name in ("a", "b"):
        api.pod(name, nodeName="node-0")

    def named(*names: str) -> None:
        counted = dict.fromkeys(names, "2026-01-02T03:04:05Z")
        api.put("budgets", "b", spec={}, status={"disruptedPods": counted})

    named("a", "gone")
    await watch.until(lambda: len(watch.of(BudgetsSeen)) == 1)
    named("a", "b")
    await watch.until(lambda: len(watch.of(BudgetsSeen)) == 2)
    named()
    await watch.until(lambda: len(watch.of(BudgetsSeen)) == 3)
    decided = [event.budgets[0].disrupted for event in watch.of(BudgetsSeen)]
    assert decided == [("uid-a",), ("uid-a", "uid-b"), ()]
    asked = [path.rpartition("/")[2] for _method, path in api.requests if "/pods/" in path]
    assert asked == ["a", "gone", "b"]
    named("b")
    (seen,) = (await cluster.list_all("budgets")).events
    assert isinstance(seen, BudgetsSeen)
    assert seen.budgets[0].disrupted == ("uid-b",)
