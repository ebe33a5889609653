"""Assumptions of the product about Kubernetes, checked on a real API server."""

from typing import Any

import pytest

from tests.support.kube_objects import binding, pod
from tests.support.kube_server import KubeServers
from tests.unit.worlds.test_api_rules import API_REFUSES, API_TAKES

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]
PODS = "/api/v1/namespaces/default/pods"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.fixture
def created(cluster: KubeServers) -> Any:
    """The metadata of a new pending pod."""
    unnamed = pod("")
    unnamed["metadata"]["generateName"] = "pod-"
    return cluster.api.create(PODS, unnamed).ok()["metadata"]


def bind(servers: KubeServers, name: str, to: str = "node-a", **preconditions: str):
    return servers.api.create(f"{PODS}/{name}/binding", binding(name, to, **preconditions))


def test_a_bind_is_accepted_whether_or_not_its_node_exists(cluster: KubeServers, created):
    name, uid, version = (created[field] for field in ("name", "uid", "resourceVersion"))
    assert bind(cluster, name, uid=uid, resource_version=version).status == 201
    bound = cluster.api.get(f"{PODS}/{name}").ok()
    assert bound["spec"]["nodeName"] == "node-a"
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert cluster.api.get("/api/v1/nodes/node-a").status == 404


@pytest.mark.parametrize("to", ["node-a", "node-b"])
def test_a_second_bind_is_refused_even_to_the_same_node(cluster: KubeServers, created, to):
    bind(cluster, created["name"]).ok()
    refused = bind(cluster, created["name"], to)
    assert refused.status == 409
    assert f'pod {created["name"]} is already assigned to node "node-a"' in refused.message


def test_a_status_patch_fences_every_older_bind(cluster: KubeServers, created):
    name, uid, older = (created[field] for field in ("name", "uid", "resourceVersion"))
    patch = {"status": {"conditions": [UNSCHEDULABLE]}}
    patched = cluster.api.request("PATCH", f"{PODS}/{name}/status", patch).ok()
    refused = bind(cluster, name, uid=uid, resource_version=older)
    assert refused.status == 409
    assert "Precondition failed: ResourceVersion in precondition" in refused.message
    newer = patched["metadata"]["resourceVersion"]
    assert int(newer) > int(older)
    assert bind(cluster, name, uid=uid, resource_version=newer).status == 201


def test_a_bind_of_another_pod_of_the_name_is_refused(cluster: KubeServers, created):
    refused = bind(cluster, created["name"], uid="a-pod-of-yesterday")
    assert refused.status == 409
    assert "Precondition failed: UID in precondition" in refused.message


def test_a_gated_pod_is_refused_and_says_so_itself(cluster: KubeServers):
    gated = pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    made = cluster.api.create(PODS, gated).ok()
    refused = bind(cluster, "gated")
    assert refused.status == 409
    assert "has non-empty .spec.schedulingGates" in refused.message
    # Written by the API server as it stores the pod.
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


def test_a_pod_that_is_being_deleted_is_refused(cluster: KubeServers):
    leaving = pod("leaving")
    leaving["metadata"]["finalizers"] = ["example.com/wait"]
    cluster.api.create(PODS, leaving).ok()
    cluster.api.request("DELETE", f"{PODS}/leaving").ok()
    refused = bind(cluster, "leaving")
    assert refused.status == 409
    assert "is being deleted, cannot be assigned to a host" in refused.message


def test_a_missing_pod_is_not_found(cluster: KubeServers):
    assert bind(cluster, "never-made").status == 404


COLLECTIONS = {
    "v1": "/api/v1",
    "apps/v1": "/apis/apps/v1",
    "batch/v1": "/apis/batch/v1",
}


def tried(servers: KubeServers, made: dict[str, Any]) -> int:
    """The status of creating an object as kubectl does, without storing it."""
    kind = made["kind"]
    folder = COLLECTIONS[made["apiVersion"]] + ("" if kind == "Node" else "/namespaces/default")
    path = f"{folder}/{kind.lower()}s?dryRun=All&fieldValidation=Strict"
    return servers.api.create(path, made).status


@pytest.mark.parametrize("made", [made for made, _ in API_REFUSES])
def test_an_api_server_refuses_what_a_world_refuses_by_its_rules(cluster: KubeServers, made):
    assert tried(cluster, made) in (400, 422)


@pytest.mark.parametrize("made", API_TAKES)
def test_a_world_takes_what_an_api_server_takes(cluster: KubeServers, made):
    assert tried(cluster, made) == 201
