"""`muster defrag --apply` against an API server in memory, with a scheduler that places at once."""

import asyncio
import copy
import json
import os
import signal
import threading
import time
from typing import Any

import pytest

from muster.cli.commands.defrag import apply as applying
from muster.defrag.movable import TAINT
from muster.defrag.plan import plan
from shared.kubernetes.client.client import Response
from tests.unit.defrag.objects import cluster, gpu_node, gpu_pod

NODES, PODS = "/api/v1/nodes/", "/api/v1/namespaces/default/pods"
LIMITS, SHORT = (4, 60.0), (1, 0.01)


class Api:
    """Serves nodes and pods. An evicted pod is made again on `to`; `refusals` are the statuses of
    the next answers to evictions, `conflicts` the number of patches that meet a newer node.
    """

    def __init__(self, *objects: dict[str, Any], to: str = "b") -> None:
        self.objects = list(copy.deepcopy(objects))
        for one in self.objects:
            one["metadata"].setdefault("resourceVersion", "1")
        self.to = to
        self.refusals: list[int] = []
        self.conflicts = 0
        self.evicted: list[str] = []
        self.tainted: list[str] = []
        self.is_closed = False

    async def listed(self, _client: object) -> list[dict[str, Any]]:
        return copy.deepcopy(self.objects)

    async def close(self) -> None:
        self.is_closed = True

    async def get(self, path: str) -> bytes:
        assert path == PODS
        return json.dumps({"items": [one for one in self.objects if one["kind"] == "Pod"]}).encode()

    async def request(
        self, method: str, path: str, body: bytes = b"{}", _type: str = ""
    ) -> Response:
        given = json.loads(body)
        if path.startswith(NODES):
            node = self.named(path.removeprefix(NODES))
            return self._patch(node, given) if method == "PATCH" else _answer(200, node)
        assert (method, path.rpartition("/")[2]) == ("POST", "eviction")
        return self._evict(path.split("/")[-2], given["deleteOptions"]["preconditions"]["uid"])

    def named(self, name: str) -> dict[str, Any]:
        return next(one for one in self.objects if one["metadata"]["name"] == name)

    def _patch(self, node: dict[str, Any], given: dict[str, Any]) -> Response:
        if self.conflicts:
            self.conflicts -= 1
            return _answer(409, {"message": "conflict"})
        assert given["metadata"]["resourceVersion"] == node["metadata"]["resourceVersion"]
        node["spec"]["taints"] = given["spec"]["taints"]
        if any(one["key"] == TAINT for one in given["spec"]["taints"]):
            self.tainted.append(node["metadata"]["name"])
        return _answer(200, node)

    def _evict(self, name: str, uid: str) -> Response:
        if self.refusals:
            return _answer(self.refusals.pop(0), {"message": "no"})
        pod = self.named(name)
        assert pod["metadata"]["uid"] == uid
        self.objects.remove(pod)
        self.evicted.append(name)
        new = copy.deepcopy(pod)
        new["metadata"] |= {"name": f"{name}-new", "uid": f"{uid}-new"}
        new["spec"]["nodeName"] = self.to
        self.objects.append(new)
        return _answer(201, {})

    def taints(self) -> list[dict[str, Any]]:
        nodes = (one for one in self.objects if one["kind"] == "Node")
        return [taint for node in nodes for taint in node["spec"].get("taints") or ()]


def _answer(status: int, value: object) -> Response:
    return Response(status, json.dumps(value).encode())


NODE_A, NODE_B = gpu_node("a"), gpu_node("b")
SMALL = [gpu_pod(name, "a") for name in ("p", "q")]
LARGE = gpu_pod("large", "b", gpus=3)


@pytest.fixture
def api(monkeypatch) -> Api:
    made = Api(NODE_A, NODE_B, *SMALL, LARGE)
    monkeypatch.setattr(applying, "list_objects", made.listed)
    monkeypatch.setattr(applying, "POLL_S", 0.001)
    return made


def read(objects):
    return cluster(*objects)


def apply(api: Api, limits: tuple[int, float] = LIMITS, said: list[str] | None = None):
    mover = applying._Mover(api, read, limits, [].append if said is None else said.append)
    return asyncio.run(mover.run(plan(read(api.objects)), plan))


def test_the_pods_of_a_place_move_and_the_taint_is_removed(api):
    said: list[str] = []
    found = apply(api, said=said)
    assert [(one.pod, one.from_node, one.node) for one in found.moved] == [
        ("default/p", "a", "b"),
        ("default/q", "a", "b"),
    ]
    assert (found.free, found.stopped, found.skipped, found.tainted) == (1, "", {}, [])
    assert said == [f"a: default/{name} has moved: {name}-new on b" for name in "pq"]
    assert (api.tainted, api.taints(), api.is_closed) == (["a"], [], True)


def test_other_taints_stay(api):
    other = {"key": "other", "effect": "PreferNoSchedule"}
    api.named("a")["spec"]["taints"] = [other]
    assert apply(api).free == 1
    assert api.taints() == [other]


def test_nodes_with_a_free_place_are_tainted_too(api):
    api.objects.append({**gpu_node("c"), "metadata": {"name": "c", "resourceVersion": "1"}})
    assert apply(api).free == 2
    assert sorted(api.tainted) == ["a", "c"]


def test_a_node_that_changed_meanwhile_is_read_again(api):
    api.conflicts = 2
    assert apply(api).free == 1
    assert api.taints() == []


def test_a_taint_that_cannot_be_removed_is_named(api):
    def evict(name, uid):
        api.conflicts = 100
        return Api._evict(api, name, uid)

    api._evict = evict
    found = apply(api)
    assert found.tainted == ["a"]


def test_an_eviction_that_a_budget_refuses_is_tried_until_the_time_is_over(api):
    api.refusals = [429, 429]
    assert len(apply(api).moved) == 2


def test_it_stops_when_a_budget_refuses_for_too_long(api):
    api.refusals = [429] * 1000
    found = apply(api, limits=SHORT)
    assert found.stopped == "after 0 s the eviction of default/p is refused: no"
    assert (found.moved, api.taints()) == ([], [])


def test_it_stops_when_an_eviction_is_refused_otherwise(api):
    api.refusals = [403]
    found = apply(api)
    assert found.stopped == "the eviction of default/p is refused: no"
    assert api.taints() == []


def test_it_stops_when_no_replacement_gets_a_node(api):
    api.to = ""
    found = apply(api, limits=SHORT)
    assert found.stopped == "after 0 s no replacement of default/p has a node"
    assert [(one.pod, one.replacement) for one in found.moved] == [("default/p", "")]
    assert (api.evicted, api.taints()) == (["p"], [])


def test_it_stops_when_a_replacement_comes_back(api):
    api.to = "a"
    assert apply(api).stopped == "p-new came to a in spite of the taint"
    assert api.taints() == []


def test_pods_that_are_still_ending_are_waited_for(api):
    """Their room is not free yet."""

    def evict(name, uid):
        pod = api.named(name)
        answer = Api._evict(api, name, uid)
        api.objects.append(pod)
        return answer

    api._evict = evict
    assert "after 0 s" in apply(api, limits=SHORT).stopped


def test_a_place_without_room_now_is_skipped_and_nothing_of_it_evicted(api):
    mover = applying._Mover(api, read, LIMITS, [].append)
    found = plan(read(api.objects))
    api.objects.append(gpu_pod("new", "b", gpus=4))
    done = asyncio.run(mover.run(found, plan))
    assert done.skipped == {"a": "no other node has room for default/q"}
    assert (api.evicted, done.stopped, api.taints()) == ([], "", [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_taint_is_removed_after_a_signal(api, number, monkeypatch):
    api.to = ""
    monkeypatch.setattr(applying, "kube_cluster", lambda *_words: type("", (), {"client": api}))

    def end():
        while not api.evicted:
            time.sleep(0.001)
        os.kill(os.getpid(), number)

    found = plan(read(api.objects))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # pytest's workers ignore it
    thread = threading.Thread(target=end)
    thread.start()
    try:
        with pytest.raises((KeyboardInterrupt, applying._Terminated)):
            applying.apply_plan("", read, plan, found, (1, 60.0), [].append)
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert (api.evicted, api.taints(), api.is_closed) == (["p"], [], True)
