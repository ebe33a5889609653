"""Binding for kube-scheduler: no room is given twice, whatever the API server answers."""

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web

from muster.extender.server import Follower
from muster.extender.wire import ExtenderBindingArgs
from services.ingest.core.state import WrongCluster
from shared.events.observed import ListBegan, ListEnded, WorldOpened
from tests.unit.extender.conftest import Served
from tests.unit.extender.world import node, pod
from tests.unit.kubernetes.fake_api import FakeApi, status

BINDING = "/binding"


def exists(api: FakeApi, name: str, milli: int = 600, **more) -> None:
    made = pod(name, milli=milli)
    api.put("pods", name, spec={**made["spec"], **more}, status={"phase": "Pending"})


def has_node(api: FakeApi, name: str) -> None:
    made = node(name, gpus=1)
    api.put("nodes", name, **{key: made[key] for key in ("metadata", "spec", "status")})


def args(name: str, to: str, uid: str = "") -> ExtenderBindingArgs:
    return ExtenderBindingArgs(name, "default", uid or f"uid-{name}", to)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 (polled: states have no signal)
            await asyncio.sleep(0.005)


def node_of(api: FakeApi, name: str) -> str:
    return str(api.objects["pods"][name]["spec"].get("nodeName", ""))


async def test_of_two_pods_bound_at_once_to_the_last_room_one_is_refused(
    api: FakeApi, served: Served
):
    """kube-scheduler asked about both before it bound the first."""
    has_node(api, "a")
    exists(api, "p")
    exists(api, "q")
    await served.follow()
    first, second = await asyncio.gather(
        served.binder.bind(args("p", "a")), served.binder.bind(args("q", "a"))
    )
    refused = first or second
    assert bool(first) != bool(second)
    assert refused.startswith("pod default/")
    assert "does not fit node a any more: " in refused
    assert sorted([node_of(api, "p"), node_of(api, "q")]) == ["", "a"]
    await until(lambda: not served.view.assumed)
    assert "does not fit" in await served.binder.bind(args("p" if first else "q", "a"))


async def test_a_refused_bind_gives_the_room_back(api: FakeApi, served: Served):
    has_node(api, "a")
    exists(api, "gated", schedulingGates=[{"name": "wait"}])
    exists(api, "q")
    await served.follow()
    said = await served.binder.bind(args("gated", "a"))
    assert said == "pod gated has non-empty .spec.schedulingGates"
    assert await served.binder.bind(args("q", "a")) == ""


async def test_a_pod_that_is_gone_replaced_or_elsewhere_is_not_bound(api: FakeApi, served: Served):
    has_node(api, "a")
    exists(api, "p")
    exists(api, "there", nodeName="b")
    await served.follow()
    gone = "pod default/none with uid uid-none does not exist any more"
    assert await served.binder.bind(args("none", "a")) == gone
    assert "does not exist any more" in await served.binder.bind(args("p", "a", uid="old"))
    assert await served.binder.bind(args("there", "a")) == "pod default/there is on node b already"
    assert await served.binder.bind(args("there", "b")) == ""
    assert ("POST", "/api/v1/namespaces/default/pods/there/binding") not in api.requests
    assert not served.view.assumed


async def test_without_an_answer_the_room_stays_taken_until_the_watch_shows_the_bind(
    api: FakeApi, served: Served
):
    has_node(api, "a")
    exists(api, "p")
    exists(api, "q")
    await served.follow()

    async def late(request: web.Request) -> web.StreamResponse:
        await api.answer(request)
        return status(504, "no answer in time")

    api.faults.append((BINDING, late))
    assert await served.binder.bind(args("p", "a")) == "no answer in time"
    assert node_of(api, "p") == "a"
    assert "does not fit" in await served.binder.bind(args("q", "a"))
    await until(lambda: not served.view.assumed)
    assert "does not fit" in await served.binder.bind(args("q", "a"))


async def test_without_an_answer_the_room_is_free_once_the_bind_cannot_land_any_more(
    api: FakeApi, served: Served
):
    has_node(api, "a")
    exists(api, "p")
    exists(api, "q")
    await served.follow()

    api.fails(BINDING, 504, "no answer in time")
    assert await served.binder.bind(args("p", "a")) == "no answer in time"
    again = "the outcome of the last bind of pod default/p is not known yet"
    assert await served.binder.bind(args("p", "a")) == again
    reads = len(api.requests)
    await until(lambda: len(api.requests) > reads + 2)
    assert "does not fit" in await served.binder.bind(args("q", "a"))
    # kube-scheduler writes the pod's condition: the old request names an older revision.
    api.put("pods", "p", status={"phase": "Pending", "conditions": [{"type": "PodScheduled"}]})
    await until(lambda: not served.view.assumed)
    assert await served.binder.bind(args("q", "a")) == ""


async def test_a_deleted_pod_whose_bind_is_open_gives_the_room_back(api: FakeApi, served: Served):
    has_node(api, "a")
    exists(api, "p")
    await served.follow()

    api.fails(BINDING, 504, "no answer in time")
    await served.binder.bind(args("p", "a"))
    assert list(served.view.assumed) == ["uid-p"]
    api.delete("pods", "p")
    await until(lambda: not served.view.assumed)
    assert not len(served.view.ingest.pods)


async def test_after_a_list_each_assumed_pod_is_read(api: FakeApi, served: Served):
    """The pod was bound and deleted while the watch was away: neither list nor watch show it."""
    has_node(api, "a")
    exists(api, "p")
    await served.follow()
    assert served.follower is not None
    raw = await served.binder._read(args("p", "a"))
    assert raw is not None
    served.binder._sent["uid-p"] = args("p", "a"), int(raw.metadata.resourceVersion)
    served.view.assume(raw, "a")
    api.objects["pods"].pop("p")
    served.follower.submit(ListBegan("pods", api.revision + 1))
    served.follower.submit(ListEnded("pods", 0))
    await until(lambda: not served.view.assumed)
    assert not len(served.view.ingest.pods)


async def test_a_pod_that_cannot_be_read_is_not_bound(api: FakeApi, served: Served):
    has_node(api, "a")
    exists(api, "p")
    await served.follow()

    api.fails("GET /api/v1/namespaces/default/pods/p", 503, "etcd is away")
    assert await served.binder.bind(args("p", "a")) == (
        "pod default/p cannot be read: etcd is away"
    )
    assert not served.view.assumed


async def test_another_cluster_behind_the_same_address_ends_it(api: FakeApi, served: Served):
    served.view.observe([WorldOpened("the one before")], 0)
    follower = served.follower = Follower(served.view, served.cluster, served.binder)
    follower.start()
    async with asyncio.timeout(5):
        with pytest.raises(WrongCluster, match="cluster the one before"):
            await follower.failed
