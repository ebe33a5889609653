"""Kueue 0.17 beside Muster on a real API server of 1.37: Kueue admits by quota and chooses racks,
Muster chooses the nodes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    Running,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.support.kube_api import KubeApi
from tests.support.kube_objects import job, node
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers
from tests.support.kueue_server import API, Kueue

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
JOBS = "/apis/batch/v1/namespaces/default/jobs"
WORKLOADS = f"{API}/namespaces/default/workloads"
MERGE = "application/merge-patch+json"
BLOCK, RACK = "example.com/block", "example.com/rack"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
RACKS = {"node-0": "rack-0", "node-1": "rack-0", "node-2": "rack-1", "node-3": "rack-1"}
NODE_CPUS, QUOTA_CPUS, RACK_QUOTA_CPUS = 3, 4, 6


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> Iterator[KubeServers]:
    servers = new_cluster(KubeOptions(storage_json=True))
    api = servers.api
    for name, rack in RACKS.items():
        labels = {BLOCK: "block", RACK: rack, "racks": "yes"}
        body = node(name, cpu=str(NODE_CPUS), labels=labels, ready=True)
        api.create("/api/v1/nodes", body).ok()
    with Kueue(servers):
        create(api, "topologies", "racks", levels=[{"nodeLabel": BLOCK}, {"nodeLabel": RACK}])
        create(api, "resourceflavors", "any")
        create(api, "resourceflavors", "racks", nodeLabels={"racks": "yes"}, topologyName="racks")
        create(api, "workloadpriorityclasses", "high", value=1000)
        create_queue(api, "main", "any", QUOTA_CPUS)
        create_queue(api, "racks", "racks", RACK_QUOTA_CPUS)
        # After Kueue, so that the garbage collector knows its objects at once.
        servers.start_controller_manager()
        yield servers


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[Running]:
    """Run Muster; check the run and delete all Jobs, pods and Workloads afterwards."""
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
        case.check(tmp_path / "run")
        running.stop()
    until("nothing is left", lambda: is_cleared(servers.api))


def is_cleared(api: KubeApi) -> bool:
    """Delete all Jobs, Workloads and pods; return whether there were none of the last two."""
    left = api.items(WORKLOADS) + api.items(PODS)
    for path in (JOBS, WORKLOADS):
        delete(api, path)
    delete_pods(api)
    return not left


def delete(api: KubeApi, path: str) -> None:
    """Delete an object, or all of a collection, and what it owns."""
    api.request("DELETE", path, {"propagationPolicy": "Background"}).ok()


KINDS = {
    "topologies": "Topology",
    "resourceflavors": "ResourceFlavor",
    "clusterqueues": "ClusterQueue",
    "workloadpriorityclasses": "WorkloadPriorityClass",
    "localqueues": "LocalQueue",
}


def create(api: KubeApi, plural: str, name: str, *, namespace: str = "", **fields: Any) -> None:
    """Create an object of Kueue; its fields are its spec's, but for a priority's value."""
    values = fields if "value" in fields else {"spec": fields}
    metadata = {"apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": {"name": name}}
    path = f"{API}/{namespace and f'namespaces/{namespace}/'}{plural}"
    api.create(path, {"kind": KINDS[plural], **metadata, **values}).ok()


def create_queue(api: KubeApi, name: str, flavor: str, cpus: int) -> None:
    """Create a ClusterQueue with a quota, in which high priority preempts low, and its LocalQueue
    in namespace default.
    """
    quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    preemption = {"withinClusterQueue": "LowerPriority"}
    more = {"namespaceSelector": {}, "preemption": preemption}
    create(api, "clusterqueues", name, resourceGroups=groups, **more)
    create(api, "localqueues", name, namespace="default", clusterQueue=name)
    path = f"{API}/namespaces/default/localqueues/{name}"
    until("the queue is active", lambda: condition(api.get(path).ok(), "Active"))


def create_job(
    api: KubeApi, name: str, pods: int, *, queue: str = "main", rack: bool = False, **labels: str
) -> None:
    """Create a Job of pods of one cpu, which no kubelet needs to end."""
    body = job(name, pods, cpu="1", schedulerName="muster", terminationGracePeriodSeconds=0)
    metadata, template = body["metadata"], body["spec"]["template"]
    metadata["labels"] = {"kueue.x-k8s.io/queue-name": queue, **labels}
    del template["spec"]["containers"][0]["resources"]["requests"]["memory"]
    if rack:
        template["metadata"]["annotations"] = {REQUIRED: RACK}
    api.create(JOBS, body).ok()


def create_group(api: KubeApi, name: str, *numbers: int) -> None:
    """Create plain pods, of one cpu each, of a group of three."""
    for number in numbers:
        body = pod(f"{name}-{number}", cpu="1", terminationGracePeriodSeconds=0)
        names = {"queue-name": "main", "pod-group-name": name}
        labels = {f"kueue.x-k8s.io/{label}": value for label, value in names.items()}
        body["metadata"]["labels"] = labels
        body["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "3"}
        api.create(PODS, body).ok()


def condition(found: dict[str, Any], kind: str) -> bool:
    """Return whether a condition of an object is true."""
    conditions = found.get("status", {}).get("conditions", [])
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def nodes_under(api: KubeApi, name: str) -> list[str]:
    """Return the nodes of the bound pods of a Job or a group."""
    return [on for found, on in nodes_of(api).items() if found.startswith(f"{name}-") and on]


def until_bound(api: KubeApi, name: str, count: int) -> None:
    until(f"all of {name} are bound", lambda: len(nodes_under(api, name)) == count)


def is_suspended(api: KubeApi, name: str) -> bool:
    suspended: bool = api.get(f"{JOBS}/{name}").ok()["spec"].get("suspend", False)
    return suspended


def waits_for_quota(api: KubeApi, name: str) -> bool:
    """Return whether Kueue has tried to admit the Workload of a Job or a group, and refused it."""
    (found,) = [one for one in api.items(WORKLOADS) if name in one["metadata"]["name"]] or [{}]
    conditions = found.get("status", {}).get("conditions", [])
    return any("insufficient unused quota" in one["message"] for one in conditions)


def test_a_job_waits_for_quota_and_muster_binds_what_is_admitted(
    servers: KubeServers, muster: Running
):
    api = servers.api
    create_job(api, "first", 3)
    until_bound(api, "first", 3)
    create_job(api, "second", 3)
    until("the second waits for quota", lambda: waits_for_quota(api, "second"))
    assert is_suspended(api, "second")
    assert not nodes_under(api, "second")
    delete(api, f"{JOBS}/first")
    until_bound(api, "second", 3)


def test_a_group_of_plain_pods_is_gated_until_it_is_admitted_and_bound_whole(
    servers: KubeServers, muster: Running
):
    api = servers.api
    create_job(api, "first", 3)
    until_bound(api, "first", 3)
    create_group(api, "team", 0, 1, 2)
    until("the group waits for quota", lambda: waits_for_quota(api, "team"))
    pods = [one for one in api.items(PODS) if one["metadata"]["name"].startswith("team-")]
    gate = {"name": "kueue.x-k8s.io/admission"}
    assert [gate in one["spec"].get("schedulingGates", []) for one in pods] == [True] * 3
    delete(api, f"{JOBS}/first")
    until_bound(api, "team", 3)


def test_the_pods_of_a_job_are_bound_in_the_rack_that_kueue_assigns(
    servers: KubeServers, muster: Running
):
    api = servers.api
    # Both nodes of a rack are needed.
    create_job(api, "wide", 5, queue="racks", rack=True)
    until_bound(api, "wide", 5)
    (workload,) = api.items(WORKLOADS)
    (pods,) = workload["status"]["admission"]["podSetAssignments"]
    assert len({RACKS[name] for name in nodes_under(api, "wide")}) == 1
    assert pods["topologyAssignment"]["levels"] == [BLOCK, RACK]
    assert {one["spec"]["nodeSelector"][RACK] for one in api.items(PODS)} == {
        RACKS[name] for name in nodes_under(api, "wide")
    }


def test_what_kueue_evicts_is_free_for_others(servers: KubeServers, muster: Running):
    api = servers.api
    create_job(api, "first", 3)
    until_bound(api, "first", 3)
    create_job(api, "urgent", 4, **{"kueue.x-k8s.io/priority-class": "high"})
    until_bound(api, "urgent", 4)
    assert is_suspended(api, "first")
    until_bound(api, "first", 0)
    # A person stops the urgent Job.
    (workload,) = [one for one in api.items(WORKLOADS) if "urgent" in one["metadata"]["name"]]
    path = f"{WORKLOADS}/{workload['metadata']['name']}"
    api.request("PATCH", path, {"spec": {"active": False}}, content_type=MERGE).ok()
    until_bound(api, "urgent", 0)
    until_bound(api, "first", 3)
    others = len(RACKS) * NODE_CPUS - 3
    for number in range(others):
        api.create(PODS, pod(f"other-{number}", cpu="1")).ok()
    until_bound(api, "other", others)
