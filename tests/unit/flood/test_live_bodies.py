"""What a flood sends to a live cluster."""

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from muster.flood.plan import AddPods
from muster.flood.targets.live_bodies import LABEL, Bodies, path_of, paths_of, priority_class
from muster.flood.workload import Arrivals, CreatePods, Template
from shared.kubernetes.client.discovery import Collection
from shared.model.groups.topology import Topology
from shared.model.objects import CPU, GPU, MEMORY, Gang, Node, PodSpec, Taint

BODIES = Bodies("muster", "f")
CONTAINER = {"name": "c", "resources": {"requests": {"memory": "1Mi", "cpu": 1}}}


def action(spec=None, gang="", **others) -> AddPods:
    fields: dict[str, Any] = {"containers": [CONTAINER, CONTAINER]}
    spec = spec or PodSpec(requests=((CPU, 2_000), (MEMORY, 2 << 20)))
    if spec.priority:
        fields["priority"] = spec.priority
    is_numbered = others.pop("is_numbered", False)
    if is_numbered:
        fields["hostname"] = "h-{{.Index}}"
    written = {"metadata": {"labels": {"app": "a"}}, "spec": fields}
    template = Template("a", spec, (), False, is_numbered, written)
    step = CreatePods(1, ((template, 1),), "team", Arrivals(), **others)
    gangs = (Gang(key=gang, min_count=3, timeout_ms=9),) if gang else ()
    return AddPods(template, (7,), step, gang, gangs)


def pod(one: AddPods, number: int = 7):
    body = Bodies("muster", "f").pod(one, number)
    assert body.path == "/api/v1/namespaces/team/pods"
    return json.loads(body.content)


def test_a_pod_has_its_name_its_scheduler_an_image_and_the_label():
    found = pod(action())
    assert found["metadata"] == {"name": "pod-7", "labels": {"app": "a", LABEL: "f"}}
    assert found["spec"]["schedulerName"] == "muster"
    assert [one["image"] for one in found["spec"]["containers"]] == ["pause", "pause"]
    assert pod(action(), 8)["metadata"]["name"] == "pod-8"


@pytest.mark.parametrize(("priority", "name"), [(5, "flood-5"), (-5, "flood-minus-5")])
def test_a_priority_becomes_a_class(priority, name):
    spec = pod(action(PodSpec(priority=priority)))["spec"]
    assert spec["priorityClassName"] == name
    assert "priority" not in spec
    body = BODIES.labelled(priority_class(priority))
    assert body.path == "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = json.loads(body.content)
    assert (made["metadata"]["name"], made["value"], body.may_exist) == (name, priority, True)


def test_distinct_pods_request_one_byte_more_each():
    for number in (7, 8):
        containers = pod(action(is_distinct=True), number)["spec"]["containers"]
        memory = [one["resources"]["requests"]["memory"] for one in containers]
        assert memory == [str((2 << 20) + number + 1), "0"]
        assert containers[0]["resources"]["requests"]["cpu"] == 1


def test_a_numbered_template_has_the_number():
    assert pod(action(is_numbered=True), 9)["spec"]["hostname"] == "h-9"


GROUP = "/apis/scheduling.k8s.io"


def test_a_gang_is_what_the_server_has_and_its_pods_name_it():
    one = action(gang="team/gang-0/pods")
    notes, policy = {"muster.io/gang-timeout": "9ms"}, {"gang": {"minCount": 3}}
    bodies = Bodies("muster", "f", Collection(f"{GROUP}/v1alpha1/workloads", "workloads"))
    (body,) = bodies.gangs(one)
    assert body.path == f"{GROUP}/v1alpha1/namespaces/team/workloads"
    made = json.loads(body.content)
    assert (made["metadata"]["name"], made["metadata"]["annotations"]) == ("gang-0", notes)
    assert made["spec"] == {"podGroups": [{"name": "pods", "policy": policy}]}
    spec = json.loads(bodies.pod(one, 0).content)["spec"]
    assert spec["workloadRef"] == {"name": "gang-0", "podGroup": "pods"}
    bodies = Bodies("muster", "f", Collection(f"{GROUP}/v1beta1/podgroups", "podgroups"))
    (body,) = bodies.gangs(one)
    assert body.path == f"{GROUP}/v1beta1/namespaces/team/podgroups"
    made = json.loads(body.content)
    assert (made["apiVersion"], made["kind"]) == ("scheduling.k8s.io/v1beta1", "PodGroup")
    assert (made["metadata"]["name"], made["metadata"]["annotations"]) == ("gang-0", notes)
    assert made["spec"] == {"schedulingPolicy": policy}
    near = replace(one, gangs=(structs.replace(one.gangs[0], topology=Topology(("rack",))),))
    (body,) = bodies.gangs(near)
    constraints = json.loads(body.content)["spec"]["schedulingConstraints"]
    assert constraints == {"topology": [{"key": "rack"}]}
    spec = json.loads(bodies.pod(one, 0).content)["spec"]
    assert spec["schedulingGroup"] == {"podGroupName": "gang-0"}


def test_everything_is_deleted_where_it_was_created():
    found = paths_of(["team"], (), Collection(f"{GROUP}/v1beta1/podgroups", "podgroups"))
    assert found[1] == f"{GROUP}/v1beta1/namespaces/team/podgroups"
    assert not any("groups" in path for path in paths_of(["team"], (), None))


def test_a_node_is_ready_and_has_what_the_plan_says():
    taints = (Taint("k", "v"),)
    allocatable = ((CPU, 1_500), (MEMORY, 7))
    node = Node(uid="", name="n", allocatable=allocatable, labels={"z": "a"}, taints=taints)
    found = json.loads(BODIES.node(node).content)
    assert found["metadata"] == {"name": "n", "labels": {"z": "a", LABEL: "f"}}
    assert found["status"]["allocatable"] == {"cpu": "1500m", "memory": "7"}
    assert found["status"]["conditions"] == [{"type": "Ready", "status": "True"}]
    assert found["spec"]["taints"] == [{"key": "k", "value": "v", "effect": "NoSchedule"}]
    gpus = Node(uid="", name="n", allocatable=(), labels={}, gpu_count=8)
    assert json.loads(BODIES.node(gpus).content)["status"]["capacity"] == {GPU: "8"}


@pytest.mark.parametrize(
    ("kind", "version", "path"),
    [
        ("Service", "v1", "/api/v1/namespaces/n/services"),
        ("StorageClass", "storage.k8s.io/v1", "/apis/storage.k8s.io/v1/storageclasses"),
        ("CSIStorageCapacity", "s/v1", "/apis/s/v1/namespaces/n/csistoragecapacities"),
        ("PersistentVolume", "v1", "/api/v1/persistentvolumes"),
    ],
)
def test_paths_are_those_of_the_api(kind, version, path):
    assert path_of(kind, version, "n") == path
