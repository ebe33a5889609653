"""Bind plugins of a run on a real API server: one binds by requests of its own, one makes two pods
wait for each other, one makes a pod wait for an event.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.checker import journals
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.live.test_extenders import Binder, scheduled
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
ROOT = Path(__file__).parents[2]
QUIET_S = 4.0
BINDS = '''
import asyncio
import json
from urllib.request import Request, urlopen

from muster.plugin import BindPlugin, BoundPod


class Mine(BindPlugin):
    """Binds pods that have a label `mine`."""

    reads = ("labels.mine",)

    async def bind(self, pod: BoundPod, node: str):
        if not pod["labels.mine"]:
            return False
        asked = dict(PodName=pod.name, PodNamespace=pod.namespace, PodUID=pod.uid, Node=node)
        answer = await asyncio.to_thread(self._ask, json.dumps(asked).encode())
        return answer.get("Error") or True

    def _ask(self, body: bytes):
        with urlopen(Request("URL/bind", body), timeout=30) as answer:
            return json.load(answer)
'''


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    create_nodes(cluster.api, ["node-a", "node-b", "node-c"], cpu=64)
    return cluster


@pytest.fixture
def binder(servers: KubeServers) -> Iterator[Binder]:
    binder = Binder(servers)
    yield binder
    binder.close()


def _config(folder: Path, **plugins: list[str]) -> str:
    """Return a profile with only these plugins at these extension points."""
    everything = [{"name": "*"}]
    enabled = {
        point: {"disabled": everything, "enabled": [{"name": name} for name in names]}
        for point, names in plugins.items()
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "muster", "plugins": enabled}],
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def test_a_plugin_binds_pods_by_requests_of_its_own(
    servers: KubeServers, case: Case, tmp_path: Path, binder: Binder
):
    """`late` is bound at the second attempt and `never` is not; DefaultBinder binds the others."""
    api, plugin = servers.api, tmp_path / "mine.py"
    plugin.write_text(BINDS.replace("URL", binder.url), encoding="utf-8")
    mine, others = ["mine-0", "mine-1", "late"], ["other-0", "other-1"]
    for name in (*mine, "never", *others):
        body = pod(name)
        if name not in others:
            body["metadata"]["labels"]["mine"] = "yes"
        api.create(PODS, body).ok()
    words = ["--config", _config(tmp_path, bind=["Mine", "DefaultBinder"]), "--plugin", str(plugin)]
    bound = [*mine, *others]

    def messages() -> list[str]:
        conditions = api.get(f"{PODS}/never").ok()["status"].get("conditions", [])
        return [one["message"] for one in conditions]

    with muster_run(servers.kubeconfig, tmp_path, *words):
        until("five are bound", lambda: all(nodes_of(api)[name] for name in bound))
        until("they have their events", lambda: scheduled(api, bound) == set(bound))
        until("the sixth is told why", lambda: bool(messages()))
    assert messages() == ['running Bind plugin "Mine": not in this season']
    asked = Counter(binder.names)
    assert (asked["mine-0"], asked["mine-1"]) == (1, 1)
    assert asked["late"] > 1
    assert asked.keys() == {*mine, "never"}
    assert not nodes_of(api)["never"]
    found = case.verdict(journals.of_file(tmp_path / "run" / "journals.db")).problems
    assert all(problem.startswith("default/never ") for problem in found), found
    delete_pods(api)


def test_two_pods_wait_for_each_other_at_permit(servers: KubeServers, case: Case, tmp_path: Path):
    """examples/plugins/pairs.py: the first of a pair is bound when the second has come."""
    api = servers.api
    words = ["--config", _config(tmp_path, permit=["Pairs"])]
    words += ["--plugin", str(ROOT / "examples/plugins/pairs.py")]

    def create(name: str, pair: str = "") -> None:
        body = pod(name)
        body["metadata"]["labels"]["pair"] = pair
        api.create(PODS, body).ok()

    with muster_run(servers.kubeconfig, tmp_path, *words):
        create("first", "one")
        create("single")
        until("the pod without companions is bound", lambda: bool(nodes_of(api)["single"]))
        assert not nodes_of(api)["first"]
        create("second", "one")
        until("both are bound", lambda: all(nodes_of(api).values()))
    found = case.verdict(journals.of_file(tmp_path / "run" / "journals.db")).problems
    assert found == [], found


def test_a_pod_waits_for_the_event_that_its_permit_plugin_names(
    servers: KubeServers, case: Case, tmp_path: Path
):
    """examples/plugins/audited.py; while its file is not there, it fails."""
    api, audited, plugin = servers.api, tmp_path / "audited.txt", tmp_path / "mine.py"
    code = (ROOT / "examples/plugins/audited.py").read_text(encoding="utf-8")
    plugin.write_text(code.replace("audited.txt", str(audited)), encoding="utf-8")
    words = ["--config", _config(tmp_path, permit=["Audited"]), "--plugin", str(plugin)]

    def condition() -> tuple[str, str]:
        found = api.get(f"{PODS}/waits").ok()["status"].get("conditions", [])
        return (found[0]["reason"], found[0]["message"]) if found else ("", "")

    with muster_run(servers.kubeconfig, tmp_path, *words):
        api.create(PODS, pod("waits")).ok()
        until("it fails", lambda: condition()[0] == "SchedulerError")
        assert condition()[1].startswith('running Permit plugin "Audited": FileNotFoundError: ')
        audited.write_text("node-z", encoding="utf-8")
        until("it is refused", lambda: condition()[0] == "Unschedulable")
        assert condition()[1] == "0/1 nodes are available: 1 node(s) had not been audited."
        audited.write_text("node-a node-b node-c", encoding="utf-8")
        create_nodes(api, ["node-d"], cpu=1)
        time.sleep(QUIET_S)
        assert not nodes_of(api)["waits"], "another node is nothing to its plugin"
        labels = {"metadata": {"labels": {"audited": "yes"}}}
        api.request("PATCH", "/api/v1/nodes/node-b", labels).ok()
        until("it is bound", lambda: bool(nodes_of(api)["waits"]))
    found = case.verdict(journals.of_file(tmp_path / "run" / "journals.db")).problems
    assert found == [], found
    delete_pods(api)
    api.request("DELETE", "/api/v1/nodes/node-d").ok()
