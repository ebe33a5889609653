"""What a user of kube-scheduler expects of a scheduler: preemption, gates."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    Running,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    """Four nodes, and a controller-manager that keeps disruption budgets."""
    create_nodes(cluster.api, [f"node-{number}" for number in range(4)], cpu=2)
    for name, value in (("low", 10), ("high", 1000)):
        body = {"metadata": {"name": name}, "value": value, "apiVersion": "scheduling.k8s.io/v1"}
        cluster.api.create(CLASSES, {**body, "kind": "PriorityClass"}).ok()
    cluster.start_controller_manager()
    return cluster


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path) -> Iterator[Running]:
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
        running.stop()
    case.check(tmp_path / "run")
    delete_pods(servers.api)


def create(servers: KubeServers, name: str, **more: Any) -> None:
    servers.api.create(PODS, pod(name, **more)).ok()


def status_of(servers: KubeServers, name: str) -> dict[str, Any]:
    found = servers.api.get(f"{PODS}/{name}").ok()["status"]
    assert isinstance(found, dict)
    return found


def reasons(servers: KubeServers, name: str) -> list[str]:
    """Return the reasons of a pod's events."""
    path = f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}"
    return [found["reason"] for found in servers.api.items(path)]


def test_the_right_victims_are_evicted_and_guarded_pods_stay(servers: KubeServers, muster: Running):
    api = servers.api
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"guarded": "yes"}}},
    }
    api.create(BUDGETS, budget).ok()
    for number in range(4):
        # Every node is full: two with guarded pods of low priority, two with other pods.
        body = pod(f"low-{number}", cpu="1500m", priorityClassName="low")
        body["metadata"]["labels"]["guarded"] = "yes" if number < 2 else "no"
        api.create(PODS, body).ok()
    until("all bound", lambda: all(nodes_of(api).values()))
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for number in range(4):
        api.request("PATCH", f"{PODS}/low-{number}/status", {"status": running}).ok()
    path = f"{BUDGETS}/guard"
    until("a budget that is kept", lambda: "currentHealthy" in api.get(path).ok()["status"])
    until("both count", lambda: api.get(path).ok()["status"]["currentHealthy"] == 2)
    create(servers, "high", cpu="1500m", priorityClassName="high")
    # No kubelet ends the victims, so their deletion is seen, and then done.
    until("a victim", lambda: bool(leaving(servers)))
    (victim,) = leaving(servers)
    assert victim in ("low-2", "low-3"), "a guarded pod went although another would do"
    conditions = {one["type"]: one for one in status_of(servers, victim)["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
    node = nodes_of(api)[victim]
    until("a nomination", lambda: status_of(servers, "high").get("nominatedNodeName") == node)
    until("its event", lambda: "Preempted" in reasons(servers, victim))
    api.request("DELETE", f"{PODS}/{victim}?gracePeriodSeconds=0").ok()
    until("the place is taken", lambda: nodes_of(api)["high"] == node)
    api.request("DELETE", path).ok()


def leaving(servers: KubeServers) -> list[str]:
    return [
        found["metadata"]["name"]
        for found in servers.api.items(PODS)
        if found["metadata"].get("deletionTimestamp")
    ]


def test_describe_says_what_a_user_of_kube_scheduler_expects(servers: KubeServers, muster: Running):
    create(servers, "small")
    create(servers, "huge", cpu="3")
    until("bound", lambda: bool(nodes_of(servers.api)["small"]))
    node = nodes_of(servers.api)["small"]
    until("its event", lambda: "Scheduled" in reasons(servers, "small"))
    until("why it waits", lambda: "FailedScheduling" in reasons(servers, "huge"))
    small = servers.kubectl("describe", "pod", "small")
    assert f"Successfully assigned default/small to {node}" in small
    assert "PodScheduled" in small
    huge = servers.kubectl("describe", "pod", "huge")
    assert "Warning  FailedScheduling" in huge
    assert "0/4 nodes are available: 4 Insufficient cpu." in huge
    condition = status_of(servers, "huge")["conditions"][0]
    assert condition["reason"] == "Unschedulable"


def test_a_gated_pod_waits_until_its_gate_is_lifted(servers: KubeServers, muster: Running):
    create(servers, "gated", schedulingGates=[{"name": "example.com/wait"}])
    create(servers, "open")
    until("the other is bound", lambda: bool(nodes_of(servers.api)["open"]))
    assert nodes_of(servers.api)["gated"] == ""
    patch = [{"op": "remove", "path": "/spec/schedulingGates"}]
    kind = "application/json-patch+json"
    servers.api.request("PATCH", f"{PODS}/gated", patch, content_type=kind).ok()
    until("bound", lambda: bool(nodes_of(servers.api)["gated"]))


def test_a_node_that_is_cordoned_takes_nothing(servers: KubeServers, muster: Running):
    for number in range(3):
        servers.kubectl("cordon", f"node-{number}")
    create(servers, "one")
    until("bound", lambda: nodes_of(servers.api)["one"] == "node-3")
    create(servers, "two", cpu="1950m")
    until("why it waits", lambda: "FailedScheduling" in reasons(servers, "two"))
    servers.kubectl("uncordon", "node-1")
    until("bound", lambda: nodes_of(servers.api)["two"] == "node-1")
    servers.kubectl("uncordon", "node-0", "node-2")
