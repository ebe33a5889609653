"""Resource claims on a real API with its own controllers, beside kube-scheduler: claims made from a
template get distinct devices, written before the bind, and are given back after their pods.
"""

import json
from typing import Any

import pytest

from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.cluster import KubeCluster
from shared.model.api_outcome import Answer
from shared.model.claims import (
    AllocatedConfig,
    Allocation,
    ClaimChoice,
    DeviceConfig,
    DeviceResult,
)
from shared.model.release import V1_37
from shared.ports.cluster import ClaimsRequest, PodRef
from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.live.test_why import why
from tests.support.kube_api import KubeApi
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
ROOT = "/apis/resource.k8s.io/v1"
CLAIMS = f"{ROOT}/namespaces/default/resourceclaims"
DRIVER = "gpu.example.com"
PARAMETERS = {"rule": "a < b && c > d"}
NODES = ("node-a", "node-b", "node-c")
WITH_DEVICES = {"node-a": 2, "node-b": 1, "node-c": 1}
TAINTED = "node-c"


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    return cluster


def devices(servers: KubeServers) -> None:
    """Publish a class, slices, a taint and a template, as a driver and users would."""
    api = servers.api
    kind = {"apiVersion": "resource.k8s.io/v1"}
    expression = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].kind == "big"'
    of_class = {"selectors": [{"cel": {"expression": expression}}]}
    made = kind | {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": of_class}
    api.create(f"{ROOT}/deviceclasses", made).ok()
    for node, count in WITH_DEVICES.items():
        given = [
            {"name": f"gpu-{number}", "attributes": {"kind": {"string": size}}}
            for number, size in enumerate(("small", *["big"] * count))
        ]
        spec = {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": given,
        }
        made = kind | {"kind": "ResourceSlice", "metadata": {"name": node}, "spec": spec}
        api.create(f"{ROOT}/resourceslices", made).ok()
    rule = {"deviceSelector": {"pool": TAINTED}, "taint": {"key": "k", "effect": "NoSchedule"}}
    made = kind | {"kind": "DeviceTaintRule", "metadata": {"name": "tainted"}, "spec": rule}
    api.create(f"{ROOT}/devicetaintrules", made).ok()
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    config = {"opaque": {"driver": DRIVER, "parameters": PARAMETERS}}
    template = {"spec": {"devices": {"requests": [request], "config": [config]}}}
    made = kind | {"kind": "ResourceClaimTemplate", "metadata": {"name": "one"}, "spec": template}
    api.create(f"{ROOT}/namespaces/default/resourceclaimtemplates", made).ok()


def user(api: KubeApi, name: str, **more: Any) -> None:
    uses = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    api.create(PODS, pod(name, resourceClaims=uses, **more)).ok()


def given(api: KubeApi) -> dict[str, tuple[str, str]]:
    """Return the device of each claim by the pods that it is reserved for."""
    found = {}
    for one in api.get(CLAIMS).ok()["items"]:
        status = one.get("status") or {}
        for result in (status.get("allocation") or {}).get("devices", {}).get("results", []):
            users = ",".join(user["name"] for user in status.get("reservedFor") or [])
            assert users not in found, f"{users} has two claims with devices"
            found[users] = result["pool"], result["device"]
    return found


def test_claims_are_written_before_their_pods_and_given_back(
    servers: KubeServers, case: Case, tmp_path
):
    api = servers.api
    servers.start_controller_manager(("resourceclaim-controller",))
    create_nodes(api, list(NODES))
    devices(servers)
    follow = ("--compatibility-version", V1_37)
    with muster_run(servers.kubeconfig, tmp_path, "-o", "json", *follow) as muster:
        for number in range(3):
            user(api, f"p-{number}")
        names = [f"p-{number}" for number in range(3)]
        until("all are bound", lambda: all(nodes_of(api).get(name) for name in names))
        nodes = nodes_of(api)
        assert sorted(nodes[name] for name in names) == ["node-a", "node-a", "node-b"]
        has = given(api)
        assert {name: pool for name, (pool, _) in has.items()} == {n: nodes[n] for n in names}
        assert len(set(has.values())) == 3, "two claims have one device"
        user(api, "late")
        until("it says why", lambda: why(tmp_path, "default/late").get("state") == "unschedulable")
        said = why(tmp_path, "default/late")
        assert said["reasons"] == [{"reason": "cannot allocate all claims", "nodes": 3}]
        gone = nodes["p-0"], has["p-0"]
        api.request("DELETE", f"{PODS}/p-0", {"gracePeriodSeconds": 0}).ok()
        until("the late one is bound", lambda: nodes_of(api).get("late", "") == gone[0])
        assert given(api)["late"] == gone[1]
        muster.stop()
    assert case.check(tmp_path / "run").bound == 4
    _as_kube_scheduler(servers, sorted(nodes[name] for name in names), said["message"])


def _as_kube_scheduler(servers: KubeServers, nodes: list[str], message: str) -> None:
    """Check that kube-scheduler chooses the same nodes, and says the same."""
    api = servers.api
    for name in nodes_of(api):
        api.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}).ok()
    until("all devices are free", lambda: not given(api))
    servers.start_scheduler()
    theirs = [f"theirs-{number}" for number in range(len(nodes))]
    for name in theirs:
        user(api, name, scheduler="default-scheduler")
    until("kube-scheduler binds", lambda: all(nodes_of(api).get(name) for name in theirs))
    assert sorted(nodes_of(api)[name] for name in theirs) == nodes
    assert len(set(given(api).values())) == len(nodes)
    user(api, "theirs-late", scheduler="default-scheduler")
    until("it says why", lambda: bool(_message(api)))
    assert _message(api) == message


def _message(api: KubeApi) -> str:
    conditions = api.get(f"{PODS}/theirs-late").ok()["status"].get("conditions") or [{}]
    return str(conditions[0].get("message", ""))


async def test_parameters_that_json_shows_in_other_bytes_are_no_obstacle(new_cluster: NewCluster):
    """The server compares parameters byte by byte. If it stores protobuf, which is the default, it
    keeps their spaces and bare characters.
    """
    servers = new_cluster(KubeOptions(version=V1_37))
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    config = [{"opaque": {"driver": DRIVER, "parameters": PARAMETERS}}]
    spec = {"devices": {"requests": [request], "config": config}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    made = servers.api.create(CLAIMS, kind | {"metadata": {"name": "c"}, "spec": spec}).ok()
    parameters = DeviceConfig(DRIVER, json.dumps(PARAMETERS))
    given = Allocation(
        (DeviceResult("r", DRIVER, "p", "x"),), (AllocatedConfig("FromClaim", parameters),)
    )
    cluster = KubeCluster(KubeClient(Credentials(str(servers.kubeconfig))), ["muster"])
    await cluster.open()

    async def answer(pod: str, *, back: bool = False) -> tuple[Answer, list[str], bool]:
        """Write for a pod, or give back; return also the users, and whether there are devices."""
        revision = int(servers.api.get(f"{CLAIMS}/c").ok()["metadata"]["resourceVersion"])
        choice = ClaimChoice("default", "c", made["metadata"]["uid"], revision, given)
        request = ClaimsRequest(PodRef(f"uid-{pod}", "default", pod), (choice,), back)
        (found,) = await cluster.write_claims([request])
        status = servers.api.get(f"{CLAIMS}/c").ok().get("status") or {}
        users = [one["name"] for one in status.get("reservedFor") or []]
        return found.answer, users, "allocation" in status

    try:
        assert await answer("p") == (Answer.DONE, ["p"], True)
        assert await answer("q") == (Answer.DONE, ["p", "q"], True)
        assert await answer("p", back=True) == (Answer.DONE, ["q"], True)
        assert await answer("q", back=True) == (Answer.DONE, [], False)
        assert await answer("q", back=True) == (Answer.DONE, [], False)
    finally:
        await cluster.close()
