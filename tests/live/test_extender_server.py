"""A real kube-scheduler asks `muster extender`. Pods go only where Muster's filters let them, none
gets room twice, preemption spares pods whose eviction would not help, and without Muster
kube-scheduler does what `ignorable` says.
"""

import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.conftest import NewCluster
from tests.live.support.objects import PODS, ROOT, Running, nodes_of, pod, until
from tests.support.builders import make_node
from tests.support.kube_api import KubeApi
from tests.support.kube_credentials import User
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers
from tests.support.server_process import free_ports

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
MUSTER = User("muster-extender")
MILLI, GPUS = "muster.io/gpu-milli", "nvidia.com/gpu"
PAGE = ROOT / "docs" / "how-to" / "try-as-an-extender.md"
SHARED = "Insufficient gpu"


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions(authorization_mode="RBAC"), users=[MUSTER])
    servers.kubectl("apply", "-f", str(ROOT / "deploy" / "rbac-extender.yaml"))
    for name, value in (("low", 10), ("high", 100), ("highest", 1_000)):
        servers.api.create(CLASSES, {"metadata": {"name": name}, "value": value}).ok()
    return servers


@pytest.fixture(autouse=True)
def no_pods(servers: KubeServers) -> Iterator[None]:
    yield
    for one in servers.api.items(PODS):
        servers.api.request("DELETE", f"{PODS}/{one['metadata']['name']}?gracePeriodSeconds=0")
    for one in servers.api.items("/api/v1/nodes"):
        servers.api.request("DELETE", f"/api/v1/nodes/{one['metadata']['name']}").ok()


class Extender:
    """`muster extender` on a port of its own, as a user with its published role."""

    def __init__(self, servers: KubeServers, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self._kubeconfig = servers.write_kubeconfig(folder / "muster.kubeconfig", MUSTER)
        self._folder = folder
        self.url = f"http://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[Running]:
        """Run it, ready; at the end it must have written no error."""
        words = ["extender", "--kubeconfig", str(self._kubeconfig), "--listen", str(self.port)]
        with Running(words, self._folder / "extender.log") as run:
            until("it is ready", self._is_ready)
            yield run
            run.process.send_signal(signal.SIGINT)
            assert run.process.wait(60) == 0, run.said()
            assert "Traceback" not in run.said()

    def _is_ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/readyz") as answer:
            return bool(answer.status == 200)
        return False


@contextmanager
def kube_scheduler(servers: KubeServers, extender: Extender, **more: Any) -> Iterator[None]:
    """Run kube-scheduler with the page's extender for pods that ask for a share of a GPU."""
    shown = PAGE.read_text(encoding="utf-8").partition("```yaml")[2].partition("```")[0]
    (one,) = yaml.safe_load(shown)["extenders"]
    one |= {"urlPrefix": extender.url, "httpTimeout": "60s"}
    names = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}
    scheduler = servers.start_scheduler(extenders=[one | more], **names)
    try:
        yield
    finally:
        scheduler.kill()


def has_node(api: KubeApi, name: str, gpus: int, cpu: str = "8") -> None:
    more = {GPUS: str(gpus)} if gpus else {}
    body = make_node(name).hostname().capacity(cpu, "64Gi", **more).ready().obj()
    api.create("/api/v1/nodes", body).ok()


def wants(api: KubeApi, name: str, milli: int, cpu: str = "100m", **spec: Any) -> None:
    """Create a pod of kube-scheduler that asks for a share of a GPU."""
    body = pod(name, cpu, scheduler="default-scheduler", terminationGracePeriodSeconds=0, **spec)
    amounts = body["spec"]["containers"][0]["resources"]
    if milli:
        amounts["requests"][MILLI] = amounts.setdefault("limits", {})[MILLI] = str(milli)
    api.create(PODS, body).ok()


def message(api: KubeApi, name: str) -> str:
    conditions = api.get(f"{PODS}/{name}").ok()["status"].get("conditions", [])
    return str(conditions[0].get("message", "")) if conditions else ""


@pytest.mark.parametrize("knows_nodes", [True, False])
def test_pods_go_only_where_one_device_has_room(
    servers: KubeServers, tmp_path: Path, knows_nodes: bool
):
    """kube-scheduler itself would put all of them on any node: it ignores shares."""
    api, extender = servers.api, Extender(servers, tmp_path)
    for name, gpus in (("a", 1), ("b", 2), ("none", 0)):
        has_node(api, name, gpus)
    with extender.running(), kube_scheduler(servers, extender, nodeCacheCapable=knows_nodes):
        names = [f"p{number}" for number in range(4)]
        for name in names:
            wants(api, name, 600)
        until("three are bound", lambda: sum(map(bool, nodes_of(api).values())) == 3)
        (left,) = [name for name, node in nodes_of(api).items() if not node]
        # The first may come from its bind: kube-scheduler asked before the others were bound.
        until("the fourth is refused", lambda: message(api, left).startswith("0/3 nodes are"))
        assert SHARED in message(api, left)
        assert Counter(nodes_of(api).values()) == {"a": 1, "b": 2, "": 1}
        gone = next(name for name, node in nodes_of(api).items() if node == "a")
        api.request("DELETE", f"{PODS}/{gone}?gracePeriodSeconds=0").ok()
        until("it takes the room", lambda: nodes_of(api)[left] == "a")


def test_of_many_pods_at_once_no_two_get_the_same_room(servers: KubeServers, tmp_path: Path):
    """kube-scheduler asks about the next pod before the last one is bound."""
    api, extender = servers.api, Extender(servers, tmp_path)
    for number in range(4):
        has_node(api, f"node-{number}", 2)
    with extender.running(), kube_scheduler(servers, extender, nodeCacheCapable=True):
        for number in range(40):
            wants(api, f"p{number}", 300)
        until("24 are bound", lambda: sum(map(bool, nodes_of(api).values())) == 24)
        waiting = [name for name, node in nodes_of(api).items() if not node]
        until("the others wait", lambda: all(SHARED in message(api, name) for name in waiting))
    on = Counter(node for node in nodes_of(api).values() if node)
    assert on == {f"node-{number}": 6 for number in range(4)}


def test_preemption_evicts_only_where_muster_has_room_afterwards(
    servers: KubeServers, tmp_path: Path
):
    """kube-scheduler would rather evict on `a`, but there a pod that stays holds the device."""
    api, extender = servers.api, Extender(servers, tmp_path)
    for name in ("a", "b"):
        has_node(api, name, 1, cpu="4")
    wants(api, "holder", 800, "1", priorityClassName="highest", nodeName="a")
    wants(api, "cheap", 0, "3", nodeName="a")
    wants(api, "dear", 0, "3", priorityClassName="low", nodeName="b")
    with extender.running(), kube_scheduler(servers, extender, nodeCacheCapable=True):
        wants(api, "urgent", 500, "3", priorityClassName="high")
        until("it has its place", lambda: nodes_of(api)["urgent"] == "b")
    assert nodes_of(api) == {"holder": "a", "cheap": "a", "urgent": "b"}


@pytest.mark.parametrize("ignorable", [True, False])
def test_without_muster_pods_wait_unless_the_extender_is_ignorable(
    servers: KubeServers, tmp_path: Path, ignorable: bool
):
    api, extender = servers.api, Extender(servers, tmp_path)
    has_node(api, "none", 0)
    with kube_scheduler(servers, extender, nodeCacheCapable=True, ignorable=ignorable):
        wants(api, "other", 0)
        until("a pod that is not Muster's is bound", lambda: bool(nodes_of(api)["other"]))
        wants(api, "share", 600)
        if ignorable:
            until("kube-scheduler decides alone", lambda: nodes_of(api)["share"] == "none")
            return
        until("it has a message", lambda: "connection refused" in message(api, "share"))
        with extender.running():
            until("Muster refuses the node", lambda: "0/1 nodes" in message(api, "share"))
            has_node(api, "a", 1)
            until("it is bound", lambda: nodes_of(api)["share"] == "a")
