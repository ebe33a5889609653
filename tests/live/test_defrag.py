"""`muster defrag --apply` on a real API server: pods move, a node is free, and no taint is left."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.support.objects import PODS, ROOT, muster_run, nodes_of, until
from tests.support.builders import make_node
from tests.support.kube_objects import deployment
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES = "/api/v1/nodes"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
GPU = "nvidia.com/gpu"
TAINT = {"key": "muster.io/defrag", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    cluster.start_controller_manager()
    return cluster


def gpu_node(name: str) -> dict[str, Any]:
    found = make_node(name).hostname().capacity("16", "64Gi", "110").ready().obj()
    for field in ("capacity", "allocatable"):
        found["status"][field][GPU] = "8"
    return found


def gpu_deployment(name: str, replicas: int, gpus: int, scheduler: str) -> dict[str, Any]:
    """Return a Deployment whose pods end at once when they are evicted: there is no kubelet."""
    amounts = {"cpu": "1", GPU: str(gpus)}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    more = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
    return deployment(name, replicas, containers=[container], **more)


def change(servers: KubeServers, node: str, **spec: Any) -> None:
    servers.api.request("PATCH", f"{NODES}/{node}", {"spec": spec}).ok()


def defrag(servers: KubeServers, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "muster", "defrag", "--kubeconfig", str(servers.kubeconfig)]
    return subprocess.run(
        [*command, "-o", "json", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )


def placed(servers: KubeServers, name: str) -> list[str]:
    """Return the nodes of a Deployment's pods."""
    return sorted(node for pod, node in nodes_of(servers.api).items() if pod.startswith(name))


def taints(servers: KubeServers) -> list[Any]:
    found = servers.api.items(NODES)
    return [taint for node in found for taint in node["spec"].get("taints") or ()]


def fragment(servers: KubeServers, scheduler: str) -> None:
    """Make two nodes, with two pods on the first and a larger one on the second."""
    api = servers.api
    api.create(NODES, gpu_node("node-a")).ok()
    api.create(DEPLOYMENTS, gpu_deployment("small", 2, 1, scheduler)).ok()
    until("small runs", lambda: placed(servers, "small") == ["node-a"] * 2)
    change(servers, "node-a", unschedulable=True)
    api.create(NODES, gpu_node("node-b")).ok()
    api.create(DEPLOYMENTS, gpu_deployment("large", 1, 3, scheduler)).ok()
    until("large runs", lambda: placed(servers, "large") == ["node-b"])
    change(servers, "node-a", unschedulable=False)


@pytest.fixture
def empty(servers: KubeServers) -> Iterator[None]:
    """Delete the nodes and pods of a test after it."""
    yield
    for path in (DEPLOYMENTS, NODES):
        servers.api.request("DELETE", path).ok()
    until("no pod is left", lambda: not servers.api.items(PODS))


@pytest.mark.usefixtures("empty")
def test_pods_move_to_other_nodes_and_free_one(servers: KubeServers, tmp_path):
    with muster_run(servers.kubeconfig, tmp_path) as muster:
        fragment(servers, "muster")
        muster.stop()

    command = [sys.executable, "-m", "muster", "defrag", str(tmp_path / "run")]
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "is of a live cluster: give its --kubeconfig instead" in refused.stderr

    plan = json.loads(defrag(servers).stdout)
    assert [(one["node"], len(one["moves"])) for one in plan["places"]] == [("node-a", 2)]
    assert plan["free"] == []

    # Without a scheduler the first pod gets no node, so that it remains the only one.
    stopped = defrag(servers, "--apply", "--at-most", "1", "--wait", "3")
    assert stopped.returncode == 1
    assert "stopped: after 3 s no replacement of default/small-" in stopped.stderr
    assert len(json.loads(stopped.stdout)["applied"]["moved"]) == 1
    assert sorted(placed(servers, "small")) == ["", "node-a"]
    assert taints(servers) == []

    (tmp_path / "again").mkdir()
    with muster_run(servers.kubeconfig, tmp_path / "again") as muster:
        until("small runs", lambda: "" not in placed(servers, "small"))
        applied = defrag(servers, "--apply")
        assert applied.returncode == 0, applied.stderr
        found = json.loads(applied.stdout)["applied"]
        assert (found["free"], found["skipped"], found["stopped"]) == (1, {}, "")
        assert {one["node"] for one in found["moved"]} == {"node-b"}
        assert placed(servers, "small") == ["node-b"] * 2
        assert taints(servers) == []
        muster.stop()


@pytest.mark.usefixtures("empty")
def test_pods_of_kube_scheduler_move_as_well(servers: KubeServers):
    servers.start_scheduler()
    fragment(servers, "default-scheduler")
    other = gpu_node("node-c")
    other["spec"]["taints"] = [TAINT]
    servers.api.create(NODES, other).ok()
    refused = defrag(servers, "--apply")
    assert refused.returncode == 2
    assert "kubectl taint nodes node-c muster.io/defrag-" in refused.stderr
    servers.api.request("DELETE", f"{NODES}/node-c").ok()

    applied = defrag(servers, "--apply", "--at-most", "1")
    assert applied.returncode == 0, applied.stderr
    assert json.loads(applied.stdout)["applied"]["free"] == 1
    assert placed(servers, "small") == ["node-b"] * 2
    assert taints(servers) == []
