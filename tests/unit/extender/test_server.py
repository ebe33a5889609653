"""The contract over HTTP: the JSON of k8s.io/kube-scheduler/extender/v1, and what is refused."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from muster.extender import server
from muster.extender.binds import Binder
from muster.extender.server import served as serving
from shared.events.observed import WatchAdvanced
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from tests.support.server_process import free_ports
from tests.unit.extender.conftest import Served
from tests.unit.extender.world import World, node, pod
from tests.unit.kubernetes.fake_api import FakeApi

UNREADY = "the first lists of the cluster are being read"


@asynccontextmanager
async def asking(world: World, why: str = "") -> AsyncIterator[aiohttp.ClientSession]:
    (port,) = free_ports(1)
    binder = Binder(world.view, KubeClient(Credentials("unused")))
    async with (
        serving(world.view, binder, ("127.0.0.1", port), lambda: why),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def answer(world: World, verb: str, body: Any, why: str = "") -> tuple[int, Any]:
    """Status and answer, decoded if it is JSON."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with asking(world, why) as session, session.post(f"/{verb}", data=raw) as found:
        text = await found.text()
        return found.status, json.loads(text) if found.status == 200 else text


def cluster() -> World:
    return World(node("a", cpu="2"), node("b", cpu="1"), pod("v", "2", nodeName="a"))


async def test_filter_answers_names_with_names():
    asked = {"Pod": pod("p", "1"), "Nodes": None, "NodeNames": ["a", "b"]}
    assert await answer(cluster(), "filter", asked) == (
        200,
        {
            "Nodes": None,
            "NodeNames": ["b"],
            "FailedNodes": {"a": "Insufficient cpu"},
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        },
    )


async def test_filter_answers_nodes_with_the_same_nodes():
    b = {**node("b"), "status": {"nodeInfo": {"machineID": "1"}}}
    nodes = {"metadata": {}, "items": [node("a"), b]}
    code, found = await answer(
        cluster(), "filter", {"Pod": pod("p", "1"), "Nodes": nodes, "NodeNames": None}
    )
    assert (code, found["NodeNames"], found["Nodes"]) == (200, None, {"items": [b]})
    assert found["FailedNodes"] == {"a": "Insufficient cpu"}


async def test_filter_of_no_nodes_is_no_nodes():
    _, found = await answer(cluster(), "filter", {"Pod": pod("p"), "NodeNames": []})
    assert (found["NodeNames"], found["Error"]) == ([], "")
    _, found = await answer(cluster(), "filter", {"Pod": pod("p"), "Nodes": {"items": None}})
    assert (found["Nodes"], found["NodeNames"]) == ({"items": []}, None)


async def test_prioritize_answers_a_list_of_hosts():
    asked = {"Pod": pod("p", "1"), "Nodes": {"items": [node("a"), node("b")]}, "NodeNames": None}
    assert await answer(cluster(), "prioritize", asked) == (
        200,
        [{"Host": "a", "Score": 0}, {"Host": "b", "Score": 10}],
    )


@pytest.mark.parametrize("knows_nodes", [True, False])
async def test_preempt_answers_victims_by_uid(knows_nodes: bool):
    one = {"UID": "uid-v"} if knows_nodes else pod("v", "2")
    given = {"a": {"Pods": [one], "NumPDBViolations": 1}, "b": {"Pods": None}}
    key = "NodeNameToMetaVictims" if knows_nodes else "NodeNameToVictims"
    other = "NodeNameToVictims" if knows_nodes else "NodeNameToMetaVictims"
    asked = {"Pod": pod("p", "2"), key: given, other: None}
    left = {"a": {"Pods": [{"UID": "uid-v"}], "NumPDBViolations": 1}}
    assert await answer(cluster(), "preempt", asked) == (200, {"NodeNameToMetaVictims": left})


async def test_bind_answers_with_an_error_string(api: FakeApi, served: Served):
    (port,) = free_ports(1)
    asked = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a"}
    async with (
        serving(served.view, served.binder, ("127.0.0.1", port), lambda: ""),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        session.post("/bind", json=asked) as answered,
    ):
        code, found = answered.status, await answered.json()
    assert (code, list(found)) == (200, ["Error"])
    assert found["Error"] == "pod default/p with uid u does not exist any more"


@pytest.mark.parametrize(
    ("verb", "body", "text"),
    [
        ("filter", b"", "not the JSON of ExtenderArgs: Input data was truncated\n"),
        ("filter", b"[" * 100_000, "not the JSON of ExtenderArgs: "),
        ("filter", b'{"Pod":' + b"[" * 100_000, "not the JSON of ExtenderArgs: "),
        ("filter", {}, "not the JSON of ExtenderArgs: Object missing required field `Pod`\n"),
        ("filter", {"Pod": None, "NodeNames": []}, "Pod is null\n"),
        ("filter", {"Pod": {}}, "ExtenderArgs has neither NodeNames nor Nodes\n"),
        (
            "filter",
            {"Pod": {}, "NodeNames": [1]},
            "Expected `str`, got `int` - at `$.NodeNames[0]`",
        ),
        ("filter", {"Pod": {}, "Nodes": {"items": [{}]}}, "missing required field `metadata`"),
        ("prioritize", {"Pod": {}}, "ExtenderArgs has neither NodeNames nor Nodes\n"),
        ("preempt", {"Pod": {}, "NodeNameToVictims": []}, "not the JSON of ExtenderPreemptionArgs"),
        ("bind", {"PodName": "p"}, "Object missing required field `PodNamespace`\n"),
    ],
)
async def test_a_malformed_request_is_answered_with_400_and_what_is_wrong(verb, body, text):
    code, said = await answer(cluster(), verb, body)
    assert code == 400
    assert text in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"metadata": {"labels": {"a": 1}}, "spec": {"containers": [{"name": "c"}]}},
        {"metadata": {"resourceVersion": "x"}, "spec": {"containers": [{"name": "c"}]}},
        {"metadata": {}, "spec": {"containers": "c"}},
        {"metadata": {}, "spec": {"containers": [{"name": "c"}], "affinity": {"newAffinity": {}}}},
    ],
)
async def test_a_pod_that_cannot_be_read_is_an_error_of_filter_and_422_of_the_others(odd):
    code, found = await answer(cluster(), "filter", {"Pod": odd, "NodeNames": ["a"]})
    assert (code, found["NodeNames"]) == (200, None)
    assert found["Error"].startswith("muster cannot ")
    for verb in ("prioritize", "preempt"):
        code, said = await answer(cluster(), verb, {"Pod": odd, "NodeNames": ["a"]})
        assert (code, said) == (422, f"{found['Error']}\n")


async def test_before_the_first_lists_nothing_is_answered():
    asked = {"Pod": pod("p"), "NodeNames": ["a"]}
    assert await answer(cluster(), "filter", asked, UNREADY) == (503, f"{UNREADY}\n")
    async with asking(cluster(), UNREADY) as session, session.get("/readyz") as found:
        assert (found.status, await found.text()) == (503, f"{UNREADY}\n")
    async with asking(cluster()) as session, session.get("/readyz") as found:
        assert (found.status, await found.text()) == (200, "ok\n")


async def test_other_paths_and_methods_are_refused():
    async with asking(cluster()) as session:
        for path in ("/", "/filters", "/filter/x"):
            async with session.post(path) as found:
                assert found.status == 404
        async with session.get("/filter") as found:
            assert found.status == 405


FULL = {"Pod": pod("p", "1"), "NodeNames": ["a"]}
LATE = {"Pod": pod("p", "1"), "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-other"}]}}}


@pytest.mark.parametrize(("verb", "asked"), [("filter", FULL), ("preempt", LATE)])
async def test_a_refusal_waits_for_the_watch_which_may_be_later_than_kube_schedulers(
    monkeypatch, verb, asked
):
    monkeypatch.setattr(server, "LATE_S", 30.0)
    world = cluster()
    async with asking(world) as session:
        answering = asyncio.create_task(session.post(f"/{verb}", json=asked))
        await asyncio.sleep(0.1)
        world.shows(node("new"))
        await asyncio.sleep(0.1)
        assert not answering.done()
        world.deletes("v")
        found = await (await answering).json()
    assert found.get("NodeNames", found.get("NodeNameToMetaVictims")) == (
        ["a"]
        if verb == "filter"
        else {"a": {"Pods": [{"UID": "uid-other"}], "NumPDBViolations": 0}}
    )


async def is_refused(session: aiohttp.ClientSession) -> None:
    async with session.post("/filter", json=FULL) as answered:
        assert (await answered.json())["NodeNames"] == []


async def test_a_pod_that_is_refused_again_after_news_does_not_wait(monkeypatch):
    world = cluster()
    async with asking(world) as session:
        monkeypatch.setattr(server, "LATE_S", 0.02)
        await is_refused(session)
        world.shows(node("new"))
        monkeypatch.setattr(server, "LATE_S", 600.0)
        async with asyncio.timeout(60):
            await is_refused(session)


async def test_a_bookmark_is_no_news(monkeypatch):
    """kube-scheduler's own write of the pod's condition moves the watch on, and shows nothing."""
    world = cluster()
    async with asking(world) as session:
        monkeypatch.setattr(server, "LATE_S", 0.02)
        await is_refused(session)
        world.view.observe([WatchAdvanced(1_000)], 0)
        monkeypatch.setattr(server, "LATE_S", 30.0)
        answering = asyncio.create_task(session.post("/filter", json=FULL))
        await asyncio.sleep(0.1)
        world.deletes("v")
        assert (await (await answering).json())["NodeNames"] == ["a"]
