"""Extenders that choose victims: the pods that they are sent, and errors."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.extenders.calls import HttpExtenders
from shared.extenders.port import NodeVictimRefs, VictimsLeft
from shared.extenders.values import Extender, Victims
from shared.ports.cluster import PodRef
from tests.parity.oracle.extender_server import ExtenderServer

Body = dict[str, Any]


class Pods:
    """`ObjectSource` of pods that are all there, but `gone`, and `again` under another uid."""

    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.read: list[str] = []

    async def pod_object(self, namespace: str, name: str) -> Body:
        self.read.append(name)
        if self.broken:
            raise ConnectionError("no API server")
        if name == "gone":
            raise LookupError(name)
        uid = "another" if name == "again" else f"uid-{name}"
        return {"metadata": {"namespace": namespace, "name": name, "uid": uid}, "spec": {"x": name}}

    async def node_objects(self) -> Body:
        raise AssertionError("nodes are not told")


class Answers(ExtenderServer):
    def __init__(self, answer: Callable[[Body], Body]) -> None:
        self.bodies: list[Body] = []
        self._answer = answer
        super().__init__()

    def answer(self, path: str, body: Body) -> tuple[int, bytes]:
        self.bodies.append(body)
        return 200, json.dumps({"NodeNameToMetaVictims": self._answer(body)}).encode()


@pytest.fixture
def served():
    servers: list[Answers] = []

    def serve(answer: Callable[[Body], Body]) -> Answers:
        servers.append(Answers(answer))
        return servers[-1]

    yield serve
    for one in servers:
        one.close()


def refs(*names: str) -> tuple[PodRef, ...]:
    return tuple(PodRef(f"uid-{name}", "default", name, 1) for name in names)


def asked(source: Pods, *extenders: Extender, **nodes: NodeVictimRefs) -> VictimsLeft:
    (pod,) = refs("urgent")
    return asyncio.run(HttpExtenders(source).process_preemption(extenders, pod, nodes))


def of(server: ExtenderServer, **more: Any) -> Extender:
    return Extender(url=server.url, preempt_verb="preempt", **more)


def as_told(body: Body) -> Body:
    victims = body["NodeNameToVictims"] or body["NodeNameToMetaVictims"]
    return {
        node: {"Pods": [{"UID": uid_of(pod)} for pod in one["Pods"]]}
        for node, one in victims.items()
    }


def uid_of(pod: Body) -> str:
    uid: str = pod["UID"] if "UID" in pod else pod["metadata"]["uid"]
    return uid


def test_pods_are_sent_whole_and_deleted_pods_by_name(served):
    server, source = served(as_told), Pods()
    found = asked(source, of(server), n=NodeVictimRefs(refs("a", "gone", "again"), 2, refs("b")))
    uids = ("uid-a", "uid-gone", "uid-again")
    assert found == VictimsLeft({"n": Victims(uids, 0)})
    (body,) = server.bodies
    assert body["Pod"]["spec"] == {"x": "urgent"}
    victims = body["NodeNameToVictims"]["n"]
    assert victims["NumPDBViolations"] == 2
    assert tuple(uid_of(pod) for pod in victims["Pods"]) == uids
    assert [pod.get("spec") for pod in victims["Pods"]] == [{"x": "a"}, None, None]
    assert sorted(source.read) == ["a", "again", "gone", "urgent"]


def test_a_node_cache_capable_extender_gets_uids_and_no_objects(served):
    server, source = served(as_told), Pods()
    found = asked(source, of(server, knows_nodes=True), n=NodeVictimRefs(refs("a"), 0))
    assert (found, source.read) == (VictimsLeft({"n": Victims(("uid-a",))}), ["urgent"])


def test_the_second_extender_gets_the_victims_of_the_first(served):
    def other(_body: Body) -> Body:
        return {"n": {"Pods": [{"UID": "uid-b"}]}}

    first, second = served(other), served(as_told)
    both = of(first, knows_nodes=True), of(second)
    found = asked(Pods(), *both, n=NodeVictimRefs(refs("a"), 0, refs("b")))
    assert found == VictimsLeft({"n": Victims(("uid-b",))})
    (pod,) = second.bodies[0]["NodeNameToVictims"]["n"]["Pods"]
    assert pod["spec"] == {"x": "b"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"m": {"Pods": []}}, 'nodeinfo not found for node name "m"'),
        ({"n": {"Pods": [{"UID": "x"}]}}, "but the pod is not found on that node"),
        ({"n": {"Pods": []}}, 'expected at least one victim pod on node "n"'),
    ],
)
def test_a_senseless_reply_is_an_error(served, answer, words):
    found = asked(Pods(), of(served(lambda _body: answer)), n=NodeVictimRefs(refs("a"), 0))
    assert words in found.error
    assert not found.nodes


def test_an_api_server_that_is_away_is_an_error(served):
    server = served(as_told)
    found = asked(Pods(broken=True), of(server), n=NodeVictimRefs(refs("a"), 0))
    assert (found.error, server.bodies) == ("no API server", [])


class Redirects(ExtenderServer):
    """Redirects every request to another server."""

    def __init__(self, to: str, status: int) -> None:
        self._to, self._status = to, status
        super().__init__()

    def answer(self, path: str, body: Body) -> tuple[int, bytes]:
        return self._status, b"{}"

    def headers(self) -> dict[str, str]:
        return {"Location": self._to}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_error_and_not_followed(served, status):
    other = served(as_told)
    server = Redirects(f"{other.url}/preempt", status)
    try:
        found = asked(Pods(), of(server), n=NodeVictimRefs(refs("a"), 0))
    finally:
        server.close()
    assert found.error == f"failed preempt with extender at URL {server.url}/preempt, code {status}"
    assert other.bodies == []


class Nests(ExtenderServer):
    def answer(self, path: str, body: Body) -> tuple[int, bytes]:
        return 200, b"[" * int(path.split("/")[1]) + b"]" * int(path.split("/")[1])


@pytest.mark.parametrize("levels", [400, 1_000, 100_000])
def test_a_reply_that_nests_deeply_is_an_error(levels):
    server = Nests()
    try:
        one = Extender(url=f"{server.url}/{levels}", preempt_verb="preempt")
        found = asked(Pods(), one, n=NodeVictimRefs(refs("a"), 0))
    finally:
        server.close()
    assert "the reply" in found.error
