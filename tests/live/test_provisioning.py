"""Gangs that ask for nodes on a real API server; the test plays the cluster autoscaler. Muster has
the published permissions and no more. And single pods, as autoscalers read them.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    ROOT,
    Running,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.live.test_releases import GANGS_OF, create_group, member_of
from tests.support.kube_api import KubeApi
from tests.support.kube_credentials import MUSTER, User
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
CRD = ROOT / "tests" / "live" / "support" / "provisioning_crd.yaml"
ROLES = [ROOT / "deploy" / f"{name}.yaml" for name in ("rbac", "rbac-provisioning")]
REQUESTS = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
CLASS = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
PLAIN = User("plain")
SERVED, ALONE = 200, "--no-leader-elect"
MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    options = KubeOptions(storage_json=True, authorization_mode="RBAC")
    servers = new_cluster(options, users=[PLAIN])
    files = [word for path in (CRD, *ROLES) for word in ("-f", str(path))]
    servers.kubectl("apply", *files)
    servers.wait_for_crds()
    until("requests are served", lambda: servers.api.get(REQUESTS).status == SERVED)
    create_nodes(servers.api, ["node-0"], cpu=2)
    return servers


@pytest.fixture
def kubeconfig(servers: KubeServers, tmp_path: Path) -> Path:
    return servers.write_kubeconfig(tmp_path / "kubeconfig", MUSTER)


@pytest.fixture
def muster(servers: KubeServers, case: Case, kubeconfig: Path, tmp_path: Path) -> Iterator[Running]:
    """Run Muster; check the run and delete all pods and further nodes afterwards."""
    with muster_run(kubeconfig, tmp_path, ALONE) as running:
        yield running
    case.check(tmp_path / "run")
    delete_pods(servers.api)
    for name in ("node-1", "node-2"):
        servers.api.request("DELETE", f"/api/v1/nodes/{name}")


def group_path(servers: KubeServers, name: str) -> str:
    version = GANGS_OF[servers.options.version]
    return f"/apis/scheduling.k8s.io/{version}/namespaces/default/podgroups/{name}"


def create_gang(servers: KubeServers, name: str) -> None:
    """Create a gang of three, of two kinds, that needs a node for each member."""
    create_group(servers, name, 3)
    notes = {"muster.io/provisioning-class-name": CLASS}
    change = {"metadata": {"annotations": notes}}
    servers.api.request("PATCH", group_path(servers, name), change, content_type=MERGE).ok()
    consumes = {"autoscaling.x-k8s.io/consume-provisioning-request": name}
    for number in range(3):
        body = pod(
            *(f"{name}-{number}", "2" if number else "1500m"),
            tolerations=[{"key": "gpu", "operator": "Exists"}],
            **member_of(servers.options.version, name),
        )
        body["metadata"]["annotations"] = consumes
        servers.api.create(PODS, body).ok()


def requests(api: KubeApi) -> dict[str, Any]:
    return {one["metadata"]["uid"]: one for one in api.items(REQUESTS)}


def answer(api: KubeApi, name: str, *true: str, message: str = "") -> None:
    """Write these conditions as the autoscaler does."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [
        *(
            {
                "type": one,
                "status": "True",
                "reason": one,
                "message": message,
                "lastTransitionTime": now,
            }
            for one in true
        )
    ]
    status = {"status": {"conditions": conditions}}
    api.request("PATCH", f"{REQUESTS}/{name}/status", status, content_type=MERGE).ok()


def condition_of(api: KubeApi, name: str) -> dict[str, Any]:
    status = api.get(f"{PODS}/{name}").ok().get("status", {})
    found = [one for one in status.get("conditions") or () if one["type"] == "PodScheduled"]
    return found[0] if found else {}


def says(api: KubeApi, name: str, text: str) -> bool:
    return str(condition_of(api, name).get("message", "")).endswith(text)


def count(api: KubeApi, group: str) -> int:
    """Return how many members have a node."""
    return sum(bool(node) for name, node in nodes_of(api).items() if name.startswith(f"{group}-"))


def test_nodes_that_come_are_used_at_once_all_or_nothing(servers: KubeServers, muster: Running):
    api = servers.api
    create_gang(servers, "train")
    until("nodes are asked for", lambda: bool(requests(api)))
    (request,) = requests(api).values()
    assert request["spec"]["provisioningClassName"] == CLASS
    sets = request["spec"]["podSets"]
    assert sorted(one["count"] for one in sets) == [1, 2]
    (owner,) = request["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("PodGroup", "train")
    template = api.get(f"{TEMPLATES}/{sets[0]['podTemplateRef']['name']}").ok()["template"]
    assert {"key": "gpu", "operator": "Exists"} in template["spec"]["tolerations"]
    assert not template["spec"].keys() & {"nodeName", "schedulingGroup", "schedulingGates"}
    answer(api, "train", "Accepted")
    text = "ProvisioningRequest default/train: Accepted"
    until("the members say so", lambda: says(api, "train-0", text))
    answer(api, "train", "Accepted", "Provisioned")
    create_nodes(api, ["node-1"], cpu=2)
    until("the node is seen", lambda: says(api, "train-1", "default/train: Provisioned"))
    assert count(api, "train") == 0
    create_nodes(api, ["node-2"], cpu=2)
    until("all are bound", lambda: count(api, "train") == 3)
    until("the request is deleted", lambda: not requests(api))
    assert api.items(TEMPLATES) == []


def test_a_killed_process_leaves_one_request_which_the_next_one_follows(
    servers: KubeServers, case: Case, kubeconfig: Path, tmp_path: Path
):
    api = servers.api
    with muster_run(kubeconfig, tmp_path, ALONE) as first:
        create_gang(servers, "killed")
        until("nodes are asked for", lambda: bool(requests(api)))
        first.kill()
    (uid,) = requests(api)
    answer(api, "killed", "Accepted", "Failed", message="no quota")
    with muster_run(kubeconfig, tmp_path, ALONE):
        text = "ProvisioningRequest default/killed: Failed: no quota"
        until("the members say so", lambda: says(api, "killed-0", text))
        assert list(requests(api)) == [uid]
        # A request whose gang is deleted goes, too.
        path = group_path(servers, "killed")
        delete_pods(api)
        api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE).ok()
        api.request("DELETE", path).ok()
        until("the request is deleted", lambda: not requests(api))
    case.check(tmp_path / "run")
    assert api.items(TEMPLATES) == []


def test_members_say_which_permission_is_missing(servers: KubeServers, case: Case, tmp_path: Path):
    words = ["create", "clusterrolebinding", PLAIN.name, "--clusterrole=muster"]
    servers.kubectl(*words, f"--user={PLAIN.name}")
    config = servers.write_kubeconfig(tmp_path / "kubeconfig", PLAIN)
    with muster_run(config, tmp_path, ALONE):
        create_gang(servers, "plain")
        text = "ProvisioningRequest default/plain was not written: provisioningrequests"
        until("it says so", lambda: text in condition_of(servers.api, "plain-0").get("message", ""))
        delete_pods(servers.api)
    case.check(tmp_path / "run")


def test_a_single_pod_without_room_is_what_autoscalers_look_for(
    servers: KubeServers, muster: Running
):
    """The cluster autoscaler reads status and reason of the condition (isUnschedulable in
    utils/kubernetes/listers.go), Karpenter the reason (FailedToSchedule in utils/pod), and of both
    the pod has no node, nominated or not.
    """
    api = servers.api
    api.create(PODS, pod("large", cpu="7")).ok()
    until("it says why", lambda: bool(condition_of(api, "large")))
    found = condition_of(api, "large")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    shown = api.get(f"{PODS}/large").ok()
    assert not shown["spec"].get("nodeName")
    assert not shown["status"].get("nominatedNodeName")
    create_nodes(api, ["node-1"], cpu=8)
    until("it is bound", lambda: nodes_of(api)["large"] == "node-1")
