"""Changes between a decision and its bind: nodes are deleted or shrink, pods are deleted or
recreated under their name, answers are lost, and requests arrive too late.

The proxy holds a bind back until the fault has happened, so every fault happens for certain.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.checker import journals
from tests.live.checker.audit import Post
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    Running,
    create_nodes,
    delete_pods,
    muster_run,
    node,
    nodes_of,
    pod,
    until,
)
from tests.support.etcd_history import EtcdHistory
from tests.support.kube_api import KubeApi
from tests.support.kube_credentials import ADMIN
from tests.support.kube_proxy import Fault, Kind
from tests.support.kube_proxy_thread import ProxyThread, proxy_thread
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES = "/api/v1/nodes"
ANSWERS = 25
DROPPED = 20
WATCH_NODES = r"^/api/v1/nodes\?watch=1"
PATCH = "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    return cluster


@pytest.fixture(scope="module")
def proxy(servers: KubeServers) -> Iterator[ProxyThread]:
    with proxy_thread(servers.at) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("races")


@pytest.fixture(scope="module")
def muster(
    servers: KubeServers, history: EtcdHistory, proxy: ProxyThread, folder: Path
) -> Iterator[Running]:
    """Start one run for all of these tests: each test begins with what the last one left."""
    config = servers.write_kubeconfig(folder / "config", ADMIN, url=proxy.proxy.url)
    with muster_run(config, folder) as running:
        yield running
        running.stop()


@pytest.fixture
def case(
    servers: KubeServers, history: EtcdHistory, muster: Running, proxy: ProxyThread
) -> Iterator[Case]:
    """Without pods, and with one node of two cores."""
    case = Case(servers, history)
    create_nodes(servers.api, ["node-a"], cpu=2)
    yield case
    proxy.proxy.faults.clear()
    delete_pods(servers.api)
    for found in servers.api.items(NODES):
        servers.api.request("DELETE", f"{NODES}/{found['metadata']['name']}").ok()


def held(proxy: ProxyThread, name: str) -> Fault:
    """Hold the pod's next bind until it is released."""
    return proxy.add(Fault(kind=Kind.HOLD, method="POST", path=f"/{name}/binding$"))


def is_held(fault: Fault) -> bool:
    return fault.times == 0


def is_full_for(api: KubeApi, name: str) -> bool:
    """Return whether the pod waits because the node is full, or has a node."""
    found = api.get(f"{PODS}/{name}").ok()
    messages = [one.get("message", "") for one in found["status"].get("conditions", ())]
    return "Insufficient cpu" in " ".join(messages) or bool(found["spec"].get("nodeName"))


def kinds_told(folder: Path) -> list[str]:
    """Return the types of the world journal's last events."""
    world = journals.of_file(folder / "run" / "journals.db")["ingest/0"]
    return [event["type"] for entry in world[-5:] for event in entry.events]


def posts_of(case: Case, name: str) -> list[Post]:
    """Return the server's answers to our binds of this name since the test began."""
    return [one for one in case.posts() if one.pod == f"default/{name}" and one.ours]


def test_a_node_deleted_before_the_bind(
    servers: KubeServers, proxy: ProxyThread, case: Case, folder: Path
):
    """We learn of it only afterwards, and the API server does not check: the pod has a node that
    does not exist. That is a race, and the garbage collector of lost nodes deals with the pod. No
    other pod goes there.
    """
    api, fault = servers.api, held(proxy, "lost")
    api.create(PODS, pod("lost")).ok()
    until("the bind is on its way", lambda: is_held(fault))
    until("it watches", lambda: proxy.proxy.watches(WATCH_NODES) == 1)
    unseen = proxy.add(Fault(kind=Kind.REFUSE, path=WATCH_NODES, times=10_000))
    assert proxy.cut(WATCH_NODES) == 1
    api.request("DELETE", f"{NODES}/node-a").ok()
    proxy.over(fault)
    until("bound", lambda: nodes_of(api)["lost"] == "node-a")
    proxy.over(unseen)
    until("we know", lambda: "nodes_gone" in kinds_told(folder))
    api.create(PODS, pod("next")).ok()
    until("it waits", lambda: "conditions" in api.get(f"{PODS}/next").ok()["status"])
    verdict = case.check(folder / "run")
    assert [(race.pod, race.resources) for race in verdict.races] == [
        ("default/lost", ("the node itself",))
    ]
    assert (verdict.bound, verdict.waiting) == (1, 1)


def test_a_node_that_shrinks_before_the_bind(
    servers: KubeServers, proxy: ProxyThread, case: Case, folder: Path
):
    api, fault = servers.api, held(proxy, "large")
    api.create(PODS, pod("large", cpu="2")).ok()
    until("the bind is on its way", lambda: is_held(fault))
    less = {"status": {"allocatable": {"cpu": "1"}, "capacity": {"cpu": "1"}}}
    api.request("PATCH", f"{NODES}/node-a/status", less, content_type=PATCH).ok()
    proxy.over(fault)
    until("bound", lambda: nodes_of(api)["large"] == "node-a")
    api.create(PODS, pod("small")).ok()
    until("it waits", lambda: "conditions" in api.get(f"{PODS}/small").ok()["status"])
    verdict = case.check(folder / "run")
    assert [(race.pod, race.resources) for race in verdict.races] == [("default/large", ("cpu",))]


@pytest.mark.parametrize("lands", [True, False], ids=["lands", "fenced"])
def test_a_node_recreated_before_the_bind(
    servers: KubeServers, proxy: ProxyThread, case: Case, folder: Path, lands: bool
):
    """The bind in flight names the node by name alone, so it may land on the new one. No other pod
    goes there before that is settled: by the pod's fact, or because its fence was first.
    """
    api, fault = servers.api, held(proxy, "early")
    api.create(PODS, pod("early", cpu="2")).ok()
    until("the bind is on its way", lambda: is_held(fault))
    fence = proxy.add(
        Fault(kind=Kind.HOLD, method="PATCH", path="/early/status$", body=b"was given up")
    )
    api.request("DELETE", f"{NODES}/node-a").ok()
    create_nodes(api, ["node-a"], cpu=2)
    until("it is fenced", lambda: is_held(fence))
    api.create(PODS, pod("next", cpu="2")).ok()
    until("it waits", lambda: "conditions" in api.get(f"{PODS}/next").ok()["status"])
    if lands:
        proxy.over(fault)
        until("it landed", lambda: nodes_of(api)["early"] == "node-a")
        proxy.over(fence)
        until("the next one is told", lambda: is_full_for(api, "next"))
    else:
        proxy.over(fence)
        until("somebody has the room", lambda: sorted(nodes_of(api).values()) == ["", "node-a"])
        proxy.over(fault)
        until("the bind arrives", lambda: posts_of(case, "early") != [])
        assert posts_of(case, "early")[-1].code == 409
        loser = next(name for name, where in nodes_of(api).items() if not where)
        until("the other one is told", lambda: is_full_for(api, loser))
    verdict = case.check(folder / "run")
    assert (verdict.bound, verdict.waiting, verdict.races) == (1, 1, [])


def test_a_pod_deleted_before_the_bind_releases_its_room(
    servers: KubeServers, proxy: ProxyThread, case: Case, folder: Path
):
    api, fault = servers.api, held(proxy, "short")
    api.create(PODS, pod("short", cpu="2")).ok()
    until("the bind is on its way", lambda: is_held(fault))
    delete_pods(api)
    proxy.over(fault)
    api.create(PODS, pod("next", cpu="2")).ok()
    until("it has the room", lambda: nodes_of(api)["next"] == "node-a")
    assert [post.code for post in posts_of(case, "short")] == [404]
    assert case.check(folder / "run").races == []


@pytest.mark.parametrize("is_gated", [False, True], ids=["open", "gated"])
def test_a_pod_recreated_under_its_name(
    servers: KubeServers, proxy: ProxyThread, case: Case, folder: Path, is_gated: bool
):
    """The bind in flight is for the deleted pod; the new one is decided again as soon
    as it may be.
    """
    api, fault = servers.api, held(proxy, "again")
    api.create(PODS, pod("again", cpu="2")).ok()
    until("the bind is on its way", lambda: is_held(fault))
    delete_pods(api)
    gates: dict[str, Any] = {"schedulingGates": [{"name": "example.com/wait"}]} if is_gated else {}
    body = pod("again", cpu="1", **gates)
    made = api.create(PODS, body).ok()
    proxy.over(fault)
    new_uid = made["metadata"]["uid"]

    def of_the_old() -> list[Post]:
        return [one for one in posts_of(case, "again") if one.uid != new_uid]

    until("the old bind has arrived", lambda: bool(of_the_old()))
    (old,) = of_the_old()
    assert old.code == 409
    assert "UID in precondition" in old.message
    if is_gated:
        assert nodes_of(api)["again"] == ""
        gate_again = [{"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": "a.b/c"}}]
        kind = "application/json-patch+json"
        refused = api.request("PATCH", f"{PODS}/again", gate_again, content_type=kind)
        assert refused.status == 422, "a pod that was made can be gated no more"
        lifted = [{"op": "remove", "path": "/spec/schedulingGates"}]
        api.request("PATCH", f"{PODS}/again", lifted, content_type=kind).ok()
    until("the new one is bound", lambda: nodes_of(api)["again"] == "node-a")
    assert case.check(folder / "run").races == []


def test_answers_that_are_lost_after_the_bind(
    servers: KubeServers, proxy: ProxyThread, case: Case, folder: Path
):
    api = servers.api
    proxy.add(Fault(kind=Kind.DROP_ANSWER, method="POST", path="/binding$", times=DROPPED))
    before = len(proxy.proxy.happened(Kind.DROP_ANSWER))
    for number in range(ANSWERS):
        api.create(PODS, pod(f"unheard-{number}", cpu="50m")).ok()
    until("all bound", lambda: all(nodes_of(api).values()))
    dropped = proxy.proxy.happened(Kind.DROP_ANSWER)[before:]
    assert [passed.status for passed in dropped] == [201] * DROPPED
    verdict = case.check(folder / "run")
    assert (verdict.bound, verdict.races) == (ANSWERS, [])


def test_a_bind_that_arrives_after_another_decision_is_refused(
    servers: KubeServers, proxy: ProxyThread, case: Case, folder: Path
):
    """Its node is deleted during the bind: the bind is given up for certain, and the pod is bound
    to another node. Then the bind arrives, and only its resourceVersion stops it.
    """
    api, fault = servers.api, held(proxy, "slow")
    api.create(PODS, pod("slow")).ok()
    until("the bind is on its way", lambda: is_held(fault))
    api.request("DELETE", f"{NODES}/node-a").ok()
    api.create(NODES, node("node-b", cpu=2)).ok()
    until("bound elsewhere", lambda: nodes_of(api)["slow"] == "node-b")
    proxy.over(fault)
    until("the first one arrives", lambda: len(posts_of(case, "slow")) == 2)
    refused = posts_of(case, "slow")[-1]
    assert (refused.node, refused.code) == ("node-a", 409)
    assert "ResourceVersion in precondition" in refused.message
    assert nodes_of(api)["slow"] == "node-b"
    assert case.check(folder / "run").races == []
