"""An HTTP extender of a run on a real API server: it gets the cluster's own objects, and pods go
only where it lets them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shared.testing.kube_options import KubeOptions
from shared.testing.kube_server import KubeServers
from tests.live.case import Case
from tests.live.checker import journals
from tests.live.conftest import NewCluster
from tests.live.world import PODS, create_nodes, muster_run, nodes_of, pod, result_of, until
from tests.parity.extender_server import ExtenderServer

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES = ["node-a", "node-b", "node-c"]
CHOSEN = "node-b"


class OneNode(ExtenderServer):
    """Lets pods on one node alone, unless they are told to nowhere; it keeps what it is sent."""

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
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions(storage_json=True))
    create_nodes(servers.api, NODES, cpu=64)
    return servers


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
        until("the sixth is told why", lambda: bool(conditions()))
        assert result_of(muster.stop())["bound"] == 5
    assert {nodes_of(api)[name] for name in names} == {CHOSEN}
    assert conditions()[0]["message"].startswith("0/3 nodes are available: 3 not in this season.")
    asked = extender.bodies[0]
    assert asked["Pod"]["spec"]["schedulerName"] == "muster"
    assert asked["Pod"]["metadata"]["uid"]
    assert {node["status"]["allocatable"]["cpu"] for node in asked["Nodes"]["items"]} == {"64"}
    # The checker does not know what extenders say.
    found = case.verdict(journals.of_file(tmp_path / "run" / "journals.db")).problems
    assert all(problem.startswith("default/nowhere ") for problem in found), found
