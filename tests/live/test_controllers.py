"""Pods that controllers create and KWOK runs: a Deployment and a Job, from start to end."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.support.case import Case
from tests.live.support.objects import PODS, Running, muster_run, nodes_of, until
from tests.support.kube_objects import deployment, job, node
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
REPLICAS = 1000


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    """Twenty nodes that KWOK plays the kubelets of."""
    for number in range(20):
        cluster.api.create("/api/v1/nodes", node(f"node-{number:02}", cpu="16")).ok()
    cluster.start_controller_manager()
    cluster.start_kwok()
    return cluster


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path) -> Iterator[Running]:
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
        case.check(tmp_path / "run")
        running.stop()


def phases(servers: KubeServers, app: str) -> list[str]:
    found: list[dict[str, Any]] = servers.api.items(f"{PODS}?labelSelector=app%3D{app}")
    return [one["status"].get("phase", "") for one in found]


def test_a_deployment_of_a_thousand_pods_runs(servers: KubeServers, muster: Running):
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = deployment("web", REPLICAS, cpu="50m", memory="32Mi", schedulerName="muster")
    servers.api.create(path, body).ok()
    until("all run", lambda: phases(servers, "web").count("Running") == REPLICAS)
    spread = list(nodes_of(servers.api).values())
    counts = sorted(spread.count(name) for name in set(spread))
    # Scores are whole percents, and a pod here is a third of one.
    assert counts[-1] - counts[0] <= 8, "equal pods are spread evenly over equal nodes"
    patch = {"spec": {"replicas": 10}}
    servers.api.request("PATCH", f"{path}/web", patch).ok()
    until("fewer run", lambda: len(phases(servers, "web")) == 10)


def test_a_job_completes_and_its_place_is_used_again(servers: KubeServers, muster: Running):
    path = "/apis/batch/v1/namespaces/default/jobs"
    # Each takes most of a node: the second job fits only once the first one's pods are done.
    for name in ("first", "second"):
        servers.api.create(path, job(name, 20, cpu="12", schedulerName="muster")).ok()
    for name in ("first", "second"):
        until(
            f"{name} completes",
            lambda name=name: phases(servers, name).count("Succeeded") == 20,  # type: ignore[misc]
            limit_s=120,
        )
