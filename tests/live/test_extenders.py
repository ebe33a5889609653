"""HTTP extenders of a run on a real API server. One gets the cluster's own objects, and pods go
only where it allows. One binds by requests of its own. One chooses the victims.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from tests.live.checker import journals
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    create_nodes,
    muster_run,
    nodes_of,
    pod,
    result_of,
    until,
)
from tests.parity.oracle.extender_server import ExtenderServer
from tests.support.kube_api import KubeApi
from tests.support.kube_credentials import ADMIN
from tests.support.kube_objects import binding
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NODES = ["node-a", "node-b", "node-c"]
CHOSEN = "node-b"


class OneNode(ExtenderServer):
    """Allows only one node, or none for pods that want that; records the requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        super().__init__()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        self.bodies.append(body)
        kept, failed = [], {}
        for node in body["Nodes"]["items"]:
            name = node["metadata"]["name"]
            if name == CHOSEN and body["Pod"]["metadata"]["name"] != "nowhere":
                kept.append(node)
            else:
                failed[name] = "not in this season"
        return 200, json.dumps({"Nodes": {"items": kept}, "FailedNodes": failed}).encode()


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    create_nodes(cluster.api, NODES, cpu=64)
    return cluster


@pytest.fixture
def extender() -> Iterator[OneNode]:
    server = OneNode()
    yield server
    server.close()


def test_pods_go_where_the_extender_lets_them(
    servers: KubeServers, case: Case, tmp_path: Path, extender: OneNode
):
    api = servers.api
    one = {"urlPrefix": extender.url, "filterVerb": "filter", "httpTimeout": "60s"}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "muster"}],
        "extenders": [one],
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    names = [f"pod-{number}" for number in range(5)]
    for name in (*names, "nowhere"):
        api.create(PODS, pod(name)).ok()

    def conditions() -> list[dict[str, str]]:
        found = api.get(f"{PODS}/nowhere").ok()["status"].get("conditions", [])
        assert isinstance(found, list)
        return found

    with muster_run(servers.kubeconfig, tmp_path, "-o", "json", "--config", str(path)) as muster:
        until("five are bound", lambda: all(nodes_of(api)[name] for name in names))
        until("the sixth has a message", lambda: bool(conditions()))
        assert result_of(muster.stop())["bound"] == 5
    assert {nodes_of(api)[name] for name in names} == {CHOSEN}
    assert conditions()[0]["message"].startswith("0/3 nodes are available: 3 not in this season.")
    asked = extender.bodies[0]
    assert asked["Pod"]["spec"]["schedulerName"] == "muster"
    assert asked["Pod"]["metadata"]["uid"]
    assert {node["status"]["allocatable"]["cpu"] for node in asked["Nodes"]["items"]} == {"64"}
    # The checker does not know the extenders' answers.
    found = case.verdict(journals.of_file(tmp_path / "run" / "journals.db")).problems
    assert all(problem.startswith("default/nowhere ") for problem in found), found
    api.request("DELETE", f"{PODS}/nowhere?gracePeriodSeconds=0").ok()


def scheduled(api: KubeApi, names: list[str]) -> set[str]:
    """Return the pods that have exactly one Scheduled event."""
    found = api.items("/api/v1/namespaces/default/events?fieldSelector=reason%3DScheduled")
    counts = Counter(event["involvedObject"]["name"] for event in found)
    assert all(counts[name] <= 1 for name in names)
    return {name for name in names if counts[name]}


class Binder(ExtenderServer):
    """Writes the bindings itself: not for `never`; for `late` it answers before it has done it; for
    `odd` it reports a failure after it has bound the pod.
    """

    def __init__(self, servers: KubeServers) -> None:
        self.api, self.one_by_one = servers.client(ADMIN), Lock()
        self.names: list[str] = []
        super().__init__()

    def close(self) -> None:
        super().close()
        self.api.close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        assert path == "/bind"
        name, uid = body["PodName"], body["PodUID"]
        self.names.append(name)
        if name == "never":
            return 200, json.dumps({"Error": "not in this season"}).encode()
        if name != "late" or self.names.count(name) > 1:
            path, wanted = f"{PODS}/{name}/binding", binding(name, body["Node"], uid=uid)
            with self.one_by_one:
                reply = self.api.create(path, wanted)
            if not 200 <= reply.status < 300 and name != "odd":
                return 500, b""
        return (500, b"") if name == "odd" else (200, b"{}")


def test_an_extender_binds_pods_by_requests_of_its_own(
    servers: KubeServers, case: Case, tmp_path: Path
):
    api, binder = servers.api, Binder(servers)
    one = {"urlPrefix": binder.url, "bindVerb": "bind", "httpTimeout": "60s"}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "muster"}],
        "extenders": [one],
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    names = [*(f"bound-{number}" for number in range(5)), "late", "odd"]
    for name in (*names, "never"):
        api.create(PODS, pod(name)).ok()

    def messages() -> list[str]:
        conditions = api.get(f"{PODS}/never").ok()["status"].get("conditions", [])
        return [one["message"] for one in conditions]

    try:
        with muster_run(servers.kubeconfig, tmp_path, "-o", "json", "--config", str(path)) as run:
            until("seven are bound", lambda: all(nodes_of(api)[name] for name in names))
            until("the eighth has a message", lambda: messages() == ["not in this season"])
            said_to_be_bound = set(names) - {"odd"}
            until("they have their events", lambda: scheduled(api, names) == said_to_be_bound)
            result = result_of(run.stop())
        assert result["bound"] == len(said_to_be_bound)
        assert binder.names.count("late") > 1
        assert not nodes_of(api)["never"]
        assert {name: binder.names.count(name) for name in names[:5]} == dict.fromkeys(names[:5], 1)
    finally:
        binder.close()
    found = case.verdict(journals.of_file(tmp_path / "run" / "journals.db")).problems
    assert all(problem.startswith("default/never ") for problem in found), found


class Spares(ExtenderServer):
    """Allows evictions from only one node; records the requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        super().__init__()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        assert path == "/preempt"
        self.bodies.append(body)
        victims = body["NodeNameToVictims"][CHOSEN]
        pods = [{"UID": one["metadata"]["uid"]} for one in victims["Pods"]]
        left = {CHOSEN: {"Pods": pods, "NumPDBViolations": victims["NumPDBViolations"]}}
        return 200, json.dumps({"NodeNameToMetaVictims": left}).encode()


def test_an_extender_chooses_the_victims(servers: KubeServers, case: Case, tmp_path: Path):
    api, spares = servers.api, Spares()
    one = {"urlPrefix": spares.url, "preemptVerb": "preempt", "httpTimeout": "60s"}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "muster"}],
        "extenders": [one],
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    for name, value in (("lowest", 1), ("low", 2), ("urgent", 1_000)):
        api.create(CLASSES, {"metadata": {"name": name}, "value": value}).ok()
    full = {node: f"full-{node}" for node in NODES}
    for node, name in full.items():
        # Without the extender one of the other two pods would be evicted.
        level = "low" if node == CHOSEN else "lowest"
        body = pod(name, cpu="60", priorityClassName=level, nodeName=node)
        api.create(PODS, body).ok()
    try:
        with muster_run(servers.kubeconfig, tmp_path, "--config", str(path)):
            api.create(PODS, pod("urgent", cpu="60", priorityClassName="urgent")).ok()

            def leaving() -> list[str]:
                found = [one["metadata"] for one in api.items(PODS)]
                return [one["name"] for one in found if one.get("deletionTimestamp")]

            until("somebody goes", lambda: bool(leaving()))
            assert leaving() == [full[CHOSEN]]
            api.request("DELETE", f"{PODS}/{full[CHOSEN]}?gracePeriodSeconds=0").ok()
            until("its place is taken", lambda: nodes_of(api)["urgent"] == CHOSEN)
    finally:
        spares.close()
    (asked,) = spares.bodies
    assert asked["Pod"]["metadata"]["name"] == "urgent"
    assert asked["Pod"]["metadata"]["uid"]
    told = {
        node: [one["spec"]["nodeName"] for one in victims["Pods"]]
        for node, victims in asked["NodeNameToVictims"].items()
    }
    assert told == {node: [node] for node in NODES}
    found = case.verdict(journals.of_file(tmp_path / "run" / "journals.db")).problems
    assert not found, found
