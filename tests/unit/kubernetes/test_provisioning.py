"""Requests to the cluster autoscaler on the API: what is written, read and deleted."""

import json
import logging
from typing import Any

import pytest

from shared.events.observed import InputRejected, ObjectsSeen
from shared.kubernetes.client.client import ApiError, Response
from shared.kubernetes.client.discovery import may_read
from shared.kubernetes.client.kinds import REQUESTS
from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.other_schedulers import OTHER_KINDS
from shared.kubernetes.objects.groups.pod_groups import Group, group_of, groups_of
from shared.kubernetes.writing.provisioning import NOT_SERVED, ProvisioningRequests
from shared.model.api_outcome import Answer
from shared.model.cluster_objects import ProvisioningRequest
from shared.model.groups.provisioning import request_name
from shared.ports.cluster import NodesRequest, PodRef
from tests.unit.kubernetes.fake_api import FakeApi

API = "/apis/autoscaling.x-k8s.io/v1"
REQUEST = f"{API}/namespaces/team/provisioningrequests"
TEMPLATES, PODS = "/api/v1/namespaces/team/podtemplates", "/api/v1/namespaces/team/pods"
GROUP = "/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups/train"
CLASS = "check-capacity.autoscaling.x-k8s.io"
OWNER = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "train"}
SPEC: dict[str, Any] = {
    "schedulerName": "muster",
    "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
    "tolerations": [{"key": "gpu"}],
}
POD: dict[str, Any] = {
    "metadata": {"name": "a", "uid": "uid-a", "labels": {"app": "x"}, "annotations": {"n": "1"}},
    "spec": {
        **SPEC,
        "nodeName": "",
        "schedulingGates": [{"name": "wait"}],
        "schedulingGroup": {"podGroupName": "train"},
    },
}
WANTED = NodesRequest(
    *("team", "train", "team/train", CLASS),
    samples=(PodRef("uid-a", "team", "a"), PodRef("uid-a", "team", "a")),
    counts=(2, 1),
)
DELETED = NodesRequest("team", "train", "team/train", uid="uid-train")
META = {
    "labels": {"app.kubernetes.io/managed-by": "muster"},
    "annotations": {"muster.io/gang": "team/train"},
    "ownerReferences": [{**OWNER, "uid": "uid-group"}],
}


class Server:
    """Objects by path. `faults` are answered to requests that begin so."""

    def __init__(self) -> None:
        group = {**OWNER, "metadata": {"name": "train", "uid": "uid-group"}}
        self.objects: dict[str, Any] = {API: {}, f"{PODS}/a": POD, GROUP: group}
        self.asked: list[str] = []
        self.faults: dict[str, Response | Answer] = {}

    async def send(
        self, method: str, path: str, body: bytes | None, content_type: str
    ) -> Response | Answer:
        self.asked.append(f"{method} {path}")
        for start, fault in self.faults.items():
            if f"{method} {path}".startswith(start):
                return fault
        if method == "POST":
            made = json.loads(body or b"")
            path = f"{path}/{made['metadata']['name']}"
            if path in self.objects:
                return Response(409, b"{}")
            made["metadata"]["uid"] = f"uid-{made['metadata']['name']}"
            self.objects[path] = made
        if path not in self.objects:
            return Response(404, b"{}")
        found = self.objects.pop(path) if method == "DELETE" else self.objects[path]
        return Response(200, json.dumps(found).encode())

    def writer(self, group: str = GROUP) -> ProvisioningRequests:
        return ProvisioningRequests(self.send, lambda _key: group)

    def written(self) -> dict[str, Any]:
        return {path: one for path, one in self.objects.items() if "uid-train" in str(one)}


async def test_a_request_is_written_with_a_template_for_each_kind_of_member():
    server = Server()
    assert await server.writer().write(WANTED) == ""
    written = server.written()
    assert list(written) == [f"{TEMPLATES}/train-0", f"{TEMPLATES}/train-1", f"{REQUEST}/train"]
    template = written[f"{TEMPLATES}/train-0"]
    assert template["template"] == {"metadata": {"labels": {"app": "x"}}, "spec": SPEC}
    assert template["metadata"] == {"name": "train-0", "uid": "uid-train-0", **META}
    request = written[f"{REQUEST}/train"]
    assert request["metadata"] == {"name": "train", "uid": "uid-train", **META}
    assert request["spec"] == {
        "provisioningClassName": CLASS,
        "podSets": [
            {"podTemplateRef": {"name": "train-0"}, "count": 2},
            {"podTemplateRef": {"name": "train-1"}, "count": 1},
        ],
    }


async def test_a_repeat_writes_nothing_anew():
    server = Server()
    await server.writer().write(WANTED)
    server.asked.clear()
    assert await server.writer().write(WANTED) == ""
    assert server.asked == [f"GET {API}", f"GET {REQUEST}/train"]


@pytest.mark.parametrize("lost", [f"POST {REQUEST}", f"POST {TEMPLATES}", f"GET {PODS}"])
@pytest.mark.parametrize("answer", [Answer.UNKNOWN, Answer.BUSY, Response(500, b"{}")])
async def test_what_a_crash_left_is_replaced_by_the_repeat(lost: str, answer: Any):
    server = Server()
    server.faults = {lost: answer}
    assert await server.writer().write(WANTED) == ""
    assert f"{REQUEST}/train" not in server.objects
    server.faults.clear()
    changed = {"metadata": POD["metadata"], "spec": {**SPEC, "hostNetwork": True}}
    server.objects[f"{PODS}/a"] = changed
    assert await server.writer().write(WANTED) == ""
    assert len(server.written()) == 3
    left = server.objects[f"{TEMPLATES}/train-0"]
    assert left["template"]["spec"] == changed["spec"]


async def test_a_request_is_deleted_after_its_templates():
    server = Server()
    await server.writer().write(WANTED)
    server.asked.clear()
    assert await server.writer().write(DELETED) == ""
    names = [f"{TEMPLATES}/train-0", f"{TEMPLATES}/train-1", f"{REQUEST}/train"]
    assert server.asked == [f"GET {REQUEST}/train", *(f"DELETE {name}" for name in names)]
    assert server.written() == {}
    assert await server.writer().write(DELETED) == ""


async def test_another_request_of_that_name_is_not_deleted():
    server = Server()
    await server.writer().write(WANTED)
    assert await server.writer().write(NodesRequest("team", "train", "k", uid="older")) == ""
    assert len(server.written()) == 3


@pytest.mark.parametrize("path", [f"{REQUEST}/train", f"{TEMPLATES}/train-0"])
async def test_objects_of_others_are_left_alone(path: str):
    server = Server()
    theirs = {"metadata": {"name": path.rpartition("/")[2], "uid": "u"}}
    server.objects[path] = theirs
    kind = "PodTemplate" if "train-0" in path else "ProvisioningRequest"
    name = theirs["metadata"]["name"]
    text = f"there is a {kind} team/{name} of someone else"
    assert await server.writer().write(WANTED) == text
    assert server.objects[path] == theirs


async def test_why_nothing_is_written_is_told():
    server, kinds = Server(), 33
    many = NodesRequest("team", "t", "k", CLASS, (PodRef("u"),) * kinds, (1,) * kinds)
    text = "its members are of 33 kinds, and at most 32 fit in"
    assert await server.writer().write(many) == text
    forbidden = Response(403, b'{"message": "podtemplates is forbidden"}')
    server.faults = {f"POST {TEMPLATES}": forbidden}
    assert await server.writer().write(WANTED) == "podtemplates is forbidden"
    del server.objects[API]
    assert await server.writer().write(WANTED) == NOT_SERVED


async def test_a_refused_deletion_is_logged(caplog):
    server = Server()
    await server.writer().write(WANTED)
    server.faults = {"DELETE": Response(403, b'{"message": "not allowed"}')}
    await server.writer().write(DELETED)
    assert "ProvisioningRequest team/train was not deleted: not allowed" in caplog.text


async def test_a_pod_that_took_a_members_name_is_no_sample():
    server = Server()
    server.objects[f"{PODS}/a"] = {**POD, "metadata": {**POD["metadata"], "uid": "uid-later"}}
    assert await server.writer().write(WANTED) == ""
    assert server.written() == {}


@pytest.mark.parametrize("gone", [GROUP, f"{PODS}/a"])
async def test_nothing_is_written_for_a_group_or_a_member_that_was_deleted(gone: str):
    server = Server()
    del server.objects[gone]
    assert await server.writer().write(WANTED) == ""
    assert server.written() == {}


async def test_only_a_pod_group_owns_its_request():
    server = Server()
    await server.writer(group="").write(WANTED)
    assert server.objects[f"{REQUEST}/train"]["metadata"]["ownerReferences"] == []


# ------------------------------------------------------------------------------ reading


def condition(kind: str, status: str = "True", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message}


@pytest.mark.parametrize(
    ("conditions", "phase", "message"),
    [
        ([], "", ""),
        ([condition("Accepted")], "Accepted", ""),
        (
            [condition("Accepted"), condition("Provisioned", "False", "no\nroom")],
            *("Accepted", "no room"),
        ),
        (
            [condition("Accepted"), condition("Provisioned", message="found")],
            *("Provisioned", "found"),
        ),
        (
            [condition("Provisioned"), condition("BookingExpired", message="e")],
            "BookingExpired",
            "e",
        ),
        ([condition("Provisioned"), condition("CapacityRevoked")], "CapacityRevoked", ""),
        ([condition("Accepted"), condition("Failed", message="quota")], "Failed", "quota"),
    ],
)
async def test_the_condition_that_counts_is_read(
    cluster: KubeCluster, api: FakeApi, conditions: Any, phase: str, message: str
):
    api.install("requests", "autoscaling.x-k8s.io/v1", "provisioningrequests")
    fields = {"spec": {"provisioningClassName": CLASS}, "metadata": META}
    status = {"status": {"conditions": conditions}} if conditions else {}
    api.put("requests", "train", **fields, **status)
    (event,) = (await cluster.list_all("objects")).events
    assert isinstance(event, ObjectsSeen)
    (one,) = event.objects
    assert isinstance(one, ProvisioningRequest)
    assert (one.gang, one.class_name) == ("team/train", CLASS)
    assert (one.phase, one.message) == (phase, message)


async def test_only_our_requests_are_watched_and_each_names_its_gang(
    cluster: KubeCluster, api: FakeApi
):
    api.install("requests", "autoscaling.x-k8s.io/v1", "provisioningrequests")
    api.put("requests", "train")
    *_, event = (await cluster.list_all("objects")).events
    assert isinstance(event, InputRejected)
    assert (event.what, event.field, event.rule) == (
        "ProvisioningRequest default/train",
        *("metadata.annotations.muster.io/gang", "is required"),
    )
    asked = [path for method, path in api.requests if path.startswith(f"{REQUESTS.path}?limit=2")]
    assert asked == [
        f"{REQUESTS.path}?limit=2000&labelSelector=app.kubernetes.io%2Fmanaged-by%3Dmuster"
    ]


async def test_requests_that_may_not_be_read_are_not_used(
    cluster: KubeCluster, api: FakeApi, caplog
):
    api.install("requests", "autoscaling.x-k8s.io/v1", "provisioningrequests")
    api.fails(f"GET {REQUESTS.path}", 403, "forbidden")
    with caplog.at_level(logging.INFO):
        await cluster.list_all("objects")
    assert "ProvisioningRequests are not used: there is no permission to read them" in caplog.text
    api.fails(f"GET {REQUESTS.path}", 500, "broken")
    with pytest.raises(ApiError, match="500: broken"):
        await may_read(cluster.client, REQUESTS)


# ------------------------------------------------------------------------------- groups


def notes(name: str) -> Fields:
    annotations = {"muster.io/provisioning-class-name": name}
    return Fields("PodGroup team/train", "metadata", {"annotations": annotations})


def groups(metadata: Fields) -> list[Group]:
    """Return a group of each kind with these metadata."""
    gang = {"policy": {"gang": {"minCount": 2}}}
    workload = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "spec": {"podGroups": [{"name": "a", **gang}, {"name": "b", **gang}]},
    }
    ours = {"schedulingPolicy": gang["policy"]}
    others = [kind.read(metadata, Fields("", "spec", {"minMember": 2})) for kind in OTHER_KINDS]
    of_workload = groups_of(metadata, Fields("", "", workload)).values()
    return [*of_workload, group_of(metadata, Fields("", "spec", ours)), *others]


def test_every_kind_of_group_may_name_a_class():
    assert [one.gang("k").provisioning for one in groups(notes(CLASS))] == [CLASS] * 5
    assert [one.gang("k").provisioning for one in groups(notes(""))] == [""] * 5


@pytest.mark.parametrize("name", ["Check", "a b", "a..b", "-a", "a/b", "a" * 254])
def test_a_wrong_class_is_named_with_its_rule(name: str):
    with pytest.raises(WorldError) as error:
        groups(notes(name))
    rejection = error.value.rejection
    assert rejection.field == "metadata.annotations.muster.io/provisioning-class-name"
    assert "is not a name such as a.example.com" in rejection.rule


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("team/train", "team/train"),
        ("team/train@volcano", "team/train.volcano"),
        ("team/jobs/group/3", "team/jobs.group.3"),
    ],
)
def test_a_request_has_the_name_of_its_group(key: str, name: str):
    assert request_name(key) == name


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("team/train", GROUP.replace("v1beta1", "v1alpha2")),
        ("team/train@volcano", ""),
        ("team/jobs/group", ""),
    ],
)
async def test_the_owner_of_a_request_is_found(
    cluster: KubeCluster, api: FakeApi, key: str, path: str
):
    assert cluster._group_path(key) == ""
    api.scheduling = {"v1alpha2": ["podgroups"]}
    await cluster.groups_as()
    assert cluster._group_path(key) == path
