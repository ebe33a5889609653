"""A fake API server and a client of it, for each test."""

from collections.abc import AsyncIterator, Callable

import pytest

from shared.kubernetes.client.client import KubeClient
from shared.kubernetes.client.credentials import Credentials
from shared.kubernetes.cluster import KubeCluster
from tests.support.kube_credentials import write_kubeconfig
from tests.unit.kubernetes.fake_api import FakeApi, running


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with running() as fake:
        yield fake


@pytest.fixture
async def new_cluster(
    api: FakeApi, tmp_path, monkeypatch
) -> AsyncIterator[Callable[..., KubeCluster]]:
    made: list[KubeCluster] = []

    def make(**options) -> KubeCluster:
        path = write_kubeconfig(tmp_path / "kubeconfig", api.url, tmp_path / "ca.crt", "secret")
        # The fake server has a token and no TLS: other warnings than of that are looked for.
        monkeypatch.setattr(Credentials, "_warn", lambda _self: None)
        made.append(KubeCluster(KubeClient(Credentials(str(path))), ["muster"], **options))
        return made[-1]

    yield make
    for cluster in made:
        await cluster.close()


@pytest.fixture
def cluster(new_cluster: Callable[..., KubeCluster]) -> KubeCluster:
    return new_cluster()
