"""Queues on a real API server: the max holds, and the status says what is wrong."""

import time
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
WAITING = ("older", "guaranteed")
QUEUES = "/apis/muster.io/v1alpha1/queues"


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
    assert placed() == 3
    until("the tree is in use", lambda: valid(api, "team") == ("True", ""))
    patch_queue(api, "team", parent="gone", max={"cpu": "9"})
    until("the status says why", lambda: "gone is no Queue" in valid(api, "team")[1])
    assert placed() == 3
    patch_queue(api, "team", parent="all")
    until("the queue above is full", lambda: valid(api, "team")[0] == "True")
    patch_queue(api, "all", max={"pods": 4})
    until("one more starts", lambda: placed() == 4)


def test_what_is_guaranteed_goes_before_an_older_borrower(servers: KubeServers, muster: Running):
    api = servers.api
    create_queue(api, "lender", guaranteed={"cpu": "1500m"}, max={"cpu": 1})
    until("the status says why", lambda: "above its max 1" in valid(api, "lender")[1])
    patch_queue(api, "lender", max={"cpu": 8})
    until("the tree is in use", lambda: valid(api, "lender")[0] == "True")
    create_queue(api, "borrower")

    def create(name: str, queue: str) -> None:
        body = pod(name, cpu="1500m")
        body["metadata"]["labels"] = {"muster.io/queue": queue}
        api.create(PODS, body).ok()

    def has_node(name: str) -> bool:
        return bool(nodes_of(api)[name])

    for number in range(4):
        create(f"p-{number}", "borrower")
    until("the cluster is full", lambda: all(has_node(f"p-{number}") for number in range(4)))
    create("older", "borrower")
    create("guaranteed", "lender")
    until("both wait", lambda: all("Insufficient" in said(api, one) for one in WAITING))
    time.sleep(2)  # until neither is in backoff, from where the older one would come first
    api.request("DELETE", f"{PODS}/p-0", {"gracePeriodSeconds": 0}).ok()
    until("one starts", lambda: has_node("guaranteed") or has_node("older"))
    assert not has_node("older")
