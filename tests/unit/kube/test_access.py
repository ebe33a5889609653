"""What we lack is asked for, and a server too busy to answer is asked again, not believed."""

import json
from collections.abc import Callable

import pytest
from aiohttp import web

from shared.adapters import kube_access
from shared.adapters.kube_access import NEEDED, REVIEWS, missing_permissions
from shared.adapters.kube_client import ApiError
from shared.adapters.kube_cluster import KubeCluster
from tests.unit.kube.fake_api import FakeApi, status


async def review(request: web.Request) -> web.Response:
    """Everything is allowed but to bind."""
    asked = json.loads(await request.read())["spec"]["resourceAttributes"]
    is_bind = asked["subresource"] == "binding"
    return web.json_response({"status": {"allowed": not is_bind}}, status=201)


def answers(code: int) -> Callable:
    async def answer(_request: web.Request) -> web.Response:
        return status(code, "not now")

    return answer


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(kube_access, "BUSY_S", 0.001)


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_busy_server_is_asked_again(cluster: KubeCluster, api: FakeApi, code: int):
    await cluster.open()
    # More than once for each question, whichever comes first.
    api.faults.extend([(REVIEWS, answers(code))] * (2 * len(NEEDED)))
    api.faults.extend([(REVIEWS, review)] * len(NEEDED))
    assert await missing_permissions(cluster.client) == ["create pods/binding"]
    assert not api.faults


async def test_a_server_that_stays_busy_is_told_of(cluster: KubeCluster, api: FakeApi):
    await cluster.open()
    api.faults.extend([(REVIEWS, answers(429))] * (kube_access.TRIES * len(NEEDED)))
    with pytest.raises(ApiError, match="429: not now"):
        await missing_permissions(cluster.client)


async def test_who_may_not_ask_finds_out_by_trying(cluster: KubeCluster, api: FakeApi):
    await cluster.open()
    api.faults.extend([(REVIEWS, answers(403))] * len(NEEDED))
    assert await missing_permissions(cluster.client) == []
