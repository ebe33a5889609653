"""Queues on a real API server: the max holds, and the status says what is wrong."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.checker import journals
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
from tests.support.kube_api import KubeApi
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
QUEUES = "/apis/muster.io/v1alpha1/queues"
WHY = "to give queue lender its guarantee"


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions(storage_json=True))
    servers.kubectl("apply", "-f", str(ROOT / "deploy" / "queues.yaml"))
    servers.wait_for_crds()
    create_nodes(servers.api, ["a", "b"], cpu=4)
    create_queue(servers.api, "all", max={"pods": 3})
    create_queue(servers.api, "team", parent="all", max={"cpu": "1500m"})
    return servers


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[Running]:
    """Run Muster; check the run, where nodes alone are not what pods wait for, and delete all pods
    afterwards.
    """
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
    verdict = case.verdict(journals.of_file(tmp_path / "run" / "journals.db"))
    assert [one for one in verdict.problems if " is at its max for " not in one] == []
    delete_pods(servers.api)


def create_queue(api: KubeApi, name: str, **spec: Any) -> None:
    meta = {"apiVersion": "muster.io/v1alpha1", "kind": "Queue", "metadata": {"name": name}}
    api.create(QUEUES, {**meta, "spec": spec}).ok()


def patch_queue(api: KubeApi, name: str, **spec: Any) -> None:
    merge = "application/merge-patch+json"
    api.request("PATCH", f"{QUEUES}/{name}", {"spec": spec}, content_type=merge).ok()


def valid(api: KubeApi, name: str) -> tuple[str, str]:
    """Return the status and the message of the condition Valid."""
    status = api.request("GET", f"{QUEUES}/{name}").ok().get("status", {})
    found = [one for one in status.get("conditions", ()) if one["type"] == "Valid"]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


def notes(api: KubeApi) -> list[str]:
    """Return what events say."""
    return [one.get("note") or "" for one in api.items("/apis/events.k8s.io/v1/events")]


def said(api: KubeApi, name: str) -> str:
    """Return the first message of a pod's conditions."""
    conditions = api.request("GET", f"{PODS}/{name}").ok()["status"].get("conditions", ())
    return next((one.get("message", "") for one in conditions), "")


def test_the_max_holds_and_the_status_says_what_is_wrong(servers: KubeServers, muster: Running):
    api = servers.api

    def placed() -> int:
        return sum(map(bool, nodes_of(api).values()))

    for number in range(5):
        body = pod(f"p-{number}", cpu="500m")
        body["metadata"]["labels"] = {"muster.io/queue": "team"}
        api.create(PODS, body).ok()
    full = "queue team is at its max for cpu (1500m/1500m)"
    waiting = [f"p-{number}" for number in range(5)]
    until("the others say why", lambda: sum(said(api, name) == full for name in waiting) == 2)
    until("three run", lambda: placed() == 3)
    until("the tree is in use", lambda: valid(api, "team") == ("True", ""))
    patch_queue(api, "team", parent="gone", max={"cpu": "9"})
    until("the status says why", lambda: "gone is no Queue" in valid(api, "team")[1])
    assert placed() == 3
    patch_queue(api, "team", parent="all")
    until("the queue above is full", lambda: valid(api, "team")[0] == "True")
    patch_queue(api, "all", max={"pods": 4})
    until("one more starts", lambda: placed() == 4)


def test_a_queue_gets_its_guarantee_before_older_pods_and_from_borrowers(
    servers: KubeServers, muster: Running
):
    api = servers.api
    create_queue(api, "lender", guaranteed={"cpu": "1500m"}, max={"cpu": 1})
    until("the status says why", lambda: "above its max 1" in valid(api, "lender")[1])
    patch_queue(api, "lender", max={"cpu": 8})
    until("the tree is in use", lambda: valid(api, "lender")[0] == "True")
    create_queue(api, "borrower")

    def create(name: str, queue: str) -> None:
        body = pod(name, cpu="1500m", terminationGracePeriodSeconds=0)
        body["metadata"]["labels"] = {"muster.io/queue": queue}
        api.create(PODS, body).ok()

    def borrowers() -> int:
        return sum(name.startswith("b-") and bool(node) for name, node in nodes_of(api).items())

    for number in range(4):
        create(f"b-{number}", "borrower")
    until("the cluster is full", lambda: borrowers() == 4)
    create("older", "borrower")
    until("it waits", lambda: "Insufficient" in said(api, "older"))
    create("claims", "lender")
    until("it has a node", lambda: bool(nodes_of(api)["claims"]))
    until("the event says why", lambda: any(one.endswith(WHY) for one in notes(api)))
    create("beyond", "lender")
    until("it waits, too", lambda: "No preemption victims" in said(api, "beyond"))
    assert borrowers() == 3
    assert not nodes_of(api)["older"]
