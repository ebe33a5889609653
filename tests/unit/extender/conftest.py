"""A fake API server, and the extender that watches it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from muster.extender import binds
from muster.extender.binds import Binder
from muster.extender.server import Follower
from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.cluster import KubeCluster
from tests.support.kube_credentials import write_kubeconfig
from tests.unit.extender.world import new_view
from tests.unit.kubernetes.fake_api import FakeApi, running


class Served:
    """An extender beside a fake API server."""

    def __init__(self, api: FakeApi, cluster: KubeCluster) -> None:
        self.api, self.cluster = api, cluster
        self.view = new_view()
        self.binder = Binder(self.view, cluster.client)
        self.follower: Follower | None = None

    async def follow(self) -> None:
        """Begin to watch, and wait for what is there."""
        self.follower = Follower(self.view, self.cluster, self.binder)
        self.follower.start()
        async with asyncio.timeout(10):
            await self.cluster.caught_up.wait()


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with running() as fake:
        yield fake


@pytest.fixture
async def served(api: FakeApi, tmp_path, monkeypatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(binds, "SETTLE_INITIAL_S", 0.01)
    # The fake server has a token and no TLS: other warnings than of that are looked for.
    monkeypatch.setattr(Credentials, "_warn", lambda _self: None)
    path = write_kubeconfig(tmp_path / "kubeconfig", api.url, tmp_path / "ca.crt", "secret")
    cluster = KubeCluster(KubeClient(Credentials(str(path))), [""])
    await cluster.open()
    made = Served(api, cluster)
    yield made
    if made.follower is not None:
        await made.follower.stop()
    await made.binder.close()
    await cluster.close()
