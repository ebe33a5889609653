"""Watches and the server's revision: they detect that a client has caught up, or that the server
was restored.
"""

import asyncio

import pytest

from shared.events.observed import NodesSeen, PodsSeen
from shared.kubernetes.cluster import KubeCluster
from shared.kubernetes.watching import merged_watch
from shared.ports.cluster import Restored
from tests.unit.kubernetes.fake_api import FakeApi
from tests.unit.kubernetes.test_watching import NODE, quick, watch
from tests.unit.kubernetes.watch import LIMIT_S, Watch

__all__ = ["quick", "watch"]


async def test_a_server_that_is_at_an_older_revision_than_was_seen_was_restored(
    cluster: KubeCluster, api: FakeApi
):
    ahead = Watch(cluster, api.revision + 1_000)
    with pytest.raises(Restored, match="was seen before"):
        await ahead.until(lambda: False)
    await ahead.close()


async def test_a_bookmark_below_what_was_seen_is_one_of_a_restored_server(
    cluster: KubeCluster, watch: Watch, api: FakeApi
):
    api.put("nodes", "node-0", status=NODE)
    await watch.until(lambda: bool(watch.of(NodesSeen)))
    api.revision -= 1
    await api.bookmark("pods")
    api.revision -= 1
    await api.bookmark("nodes")
    with pytest.raises(Restored):
        await watch.until(lambda: False)


async def test_a_watch_has_caught_up_once_its_consumer_has_everything(
    cluster: KubeCluster, api: FakeApi, monkeypatch
):
    monkeypatch.setattr(merged_watch, "QUIET_LOOKS", 2)
    since = api.revision
    api.pod("while-nobody-watched")
    stream = cluster.watch(since)
    while not any(isinstance(event, PodsSeen) for event in (await anext(stream)).events):
        assert not cluster.caught_up.is_set()
    await asyncio.sleep(0.1)
    assert not cluster.caught_up.is_set()
    more = asyncio.ensure_future(anext(stream))
    async with asyncio.timeout(LIMIT_S):
        await cluster.caught_up.wait()
    more.cancel()
    await asyncio.gather(more, return_exceptions=True)
    await stream.aclose()  # type: ignore[attr-defined]
