"""The simulated cluster, used from another process: the same answers, and definite ones
on failure.
"""

import asyncio
from typing import Any

import pytest

from shared.model.api_outcome import Answer
from shared.model.volumes import Choice
from shared.ports.cluster import BindRequest, Gone, PodRef, VolumeRequest
from shared.simulated import client
from shared.simulated.client import SimClusterClient
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.simulated.server import SimClusterServer, split_address
from tests.unit.simulated.test_cluster import request, started


@pytest.fixture(params=["tcp", "unix"])
def address(request, tmp_path) -> str:
    return "127.0.0.1:0" if request.param == "tcp" else f"unix:{tmp_path}/cluster"


class Served:
    """A cluster, its server and a client."""

    def __init__(self, cluster: SimCluster, address: str) -> None:
        self.cluster, self.address = cluster, address

    async def __aenter__(self) -> "Served":
        self.server = SimClusterServer(self.cluster)
        self.address = await self.server.start(self.address)
        self.client = SimClusterClient(self.address)
        return self

    async def __aexit__(self, *_error) -> None:
        await self.client.close()
        await self.server.stop()


async def test_every_method_answers_as_in_memory(address):
    async with Served(started("a", "b"), address) as served:
        cluster, client = served.cluster, served.client
        assert await client.identity() == await cluster.identity()
        assert await client.list_all("nodes") == await cluster.list_all("nodes")
        bind = request(cluster, "a")
        (bound,) = await client.bind([bind])
        assert bound.answer is Answer.DONE
        pods = [PodRef("uid-a"), PodRef("uid-x")]
        assert await client.read(pods) == await cluster.read(pods)
        (touched,) = await client.touch([PodRef("uid-b")], ["why"])
        assert touched.revision == cluster.pods["uid-b"].revision
        volumes = [VolumeRequest(Choice("a", "c", "uid-c"), "node-1")]
        assert await client.bind_volumes(volumes) == [Answer.GONE]
        assert await client.evict([PodRef("uid-b"), PodRef("uid-x")]) == [Answer.DONE, Answer.GONE]
        assert await client.list_all("pods") == await cluster.list_all("pods")


async def test_a_watch_streams_and_ends_with_gone(address):
    async with Served(started("a"), address) as served:
        watch = served.client.watch(0)
        first = await anext(watch)
        assert first.revision == served.cluster.revision
        await served.cluster.touch([PodRef("uid-a")], [""])
        assert (await anext(watch)).revision == served.cluster.revision
        served.cluster.break_watches()
        with pytest.raises(ConnectionError):
            await anext(watch)
        served.cluster.forget_history()
        with pytest.raises(Gone):
            await anext(served.client.watch(0))


async def test_a_lost_connection_leaves_binds_unknown_and_they_may_land(address, monkeypatch):
    cluster = started("a", config=SimConfig(latency_ms=1_000))
    bind, is_asked, opened = cluster.bind, asyncio.Event(), []

    def asked(requests: Any) -> Any:
        is_asked.set()
        return bind(requests)

    async def connect(address: str) -> Any:
        opened.append(await connect_there(address))
        return opened[-1]

    connect_there = client.connect
    monkeypatch.setattr(client, "connect", connect)
    monkeypatch.setattr(cluster, "bind", asked)
    async with Served(cluster, address) as served:
        binding = asyncio.ensure_future(served.client.bind([request(cluster, "a")]))
        await asyncio.wait_for(is_asked.wait(), 60)
        for _reader, writer in opened:
            writer.transport.abort()
        assert (await binding)[0].answer is Answer.UNKNOWN
        async with asyncio.timeout(60):
            while cluster.pods["uid-a"].node != "node-1":  # noqa: ASYNC110 (there is no signal)
                await asyncio.sleep(0.01)
        (read,) = await served.client.read([PodRef("uid-a")])
        assert read.node == "node-1", "the client connects again"


async def test_an_unsent_request_is_busy_not_unknown():
    client = SimClusterClient("127.0.0.1:1")
    (read,) = await client.bind([BindRequest("u", "default", "p", "n", 1)])
    assert read.answer is Answer.BUSY
    assert (await client.touch([PodRef("u")], [""]))[0].answer is Answer.BUSY
    assert await client.evict([PodRef("u")]) == [Answer.BUSY]
    assert (await client.read([PodRef("u")]))[0].answer is Answer.UNKNOWN
    with pytest.raises(ConnectionError):
        await client.identity()


async def test_silence_is_unknown():
    cluster = started("a", config=SimConfig(latency_ms=10_000))
    async with Served(cluster, "127.0.0.1:0") as served:
        client = SimClusterClient(served.address, timeout_s=0.02)
        assert (await client.bind([request(cluster, "a")]))[0].answer is Answer.UNKNOWN
        await client.close()


def test_a_wrong_address_is_named():
    with pytest.raises(ValueError, match="must be host:port"):
        split_address("nowhere")
