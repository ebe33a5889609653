"""Each fault of the proxy changes a real API server's answers, and its log records it."""

import asyncio
import http.client
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from tests.support.kube_api import KubeApi
from tests.support.kube_credentials import ADMIN, verifying
from tests.support.kube_objects import binding, pod
from tests.support.kube_proxy import Fault, Kind, KubeProxy, kube_proxy
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]
PODS = "/api/v1/namespaces/default/pods"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
numbers = itertools.count()


@pytest.fixture
async def proxy(cluster: KubeServers) -> AsyncIterator[KubeProxy]:
    async with kube_proxy(cluster.at) as made:
        yield made


class Through:
    """A plain client through the proxy, in a separate thread."""

    def __init__(self, cluster: KubeServers, proxy: KubeProxy) -> None:
        self._tls = verifying(cluster.at.ca_path)
        self._url = proxy.url

    async def __call__(self, method: str, *arguments: Any, timeout_s: float = 10.0) -> Any:
        def ask() -> Any:
            api = KubeApi(self._url, ADMIN.token, self._tls, timeout_s=timeout_s)
            with closing(api):
                return getattr(api, method)(*arguments)

        return await asyncio.to_thread(ask)


@pytest.fixture
def through(cluster: KubeServers, proxy: KubeProxy) -> Through:
    return Through(cluster, proxy)


@pytest.fixture
def name(cluster: KubeServers) -> str:
    """Create a pending pod; return its name."""
    made = pod(f"pod-{next(numbers)}")
    cluster.api.create(PODS, made).ok()
    return str(made["metadata"]["name"])


def node_of(cluster: KubeServers, name: str) -> str | None:
    found = cluster.api.get(f"{PODS}/{name}").ok()["spec"].get("nodeName")
    return None if found is None else str(found)


async def test_without_faults_it_changes_nothing(cluster: KubeServers, proxy, through, name):
    direct = cluster.api.get(f"{PODS}/{name}")
    assert await through("get", f"{PODS}/{name}") == direct
    refused = await through("create", PODS, pod(name))
    assert (refused.status, refused.body["reason"]) == (409, "AlreadyExists")
    assert [(passed.fault, passed.status) for passed in proxy.log] == [(None, 200), (None, 409)]


async def test_kubectl_trusts_it(cluster: KubeServers, proxy: KubeProxy, name, tmp_path):
    config = cluster.write_kubeconfig(tmp_path / "config", ADMIN, url=proxy.url)
    shown = await asyncio.to_thread(
        cluster.kubectl, f"--kubeconfig={config}", "get", "pods", "-o", "name"
    )
    assert f"pod/{name}" in shown.split()


async def test_a_dropped_answer_hides_a_bind_that_is_done(cluster, proxy, through, name):
    proxy.faults.append(Fault(kind=Kind.DROP_ANSWER, method="POST", path="/binding$"))
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        await through("create", f"{PODS}/{name}/binding", binding(name, "node-a"))
    (dropped,) = proxy.happened(Kind.DROP_ANSWER)
    assert (dropped.method, dropped.status) == ("POST", 201)
    assert node_of(cluster, name) == "node-a"
    # It was for one request.
    again = await through("create", f"{PODS}/{name}/binding", binding(name, "node-a"))
    assert again.status == 409


async def test_a_late_bind_is_fenced_by_a_status_patch(cluster, proxy, through, name):
    before = cluster.api.get(f"{PODS}/{name}").ok()["metadata"]
    version = {"uid": before["uid"], "resource_version": before["resourceVersion"]}
    late = Fault(kind=Kind.LATE, method="POST", path="/binding$", delay_s=0.5)
    proxy.faults.append(late)
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        await through("create", f"{PODS}/{name}/binding", binding(name, "node-a", **version))
    await asyncio.sleep(0.2)
    assert node_of(cluster, name) is None
    patch = {"status": {"conditions": [UNSCHEDULABLE]}}
    cluster.api.request("PATCH", f"{PODS}/{name}/status", patch).ok()
    (passed,) = proxy.happened(Kind.LATE)
    assert passed.status is None
    await proxy.settled()
    assert passed.status == 409
    assert node_of(cluster, name) is None


async def test_a_refused_request_never_arrives(cluster, proxy, through, name):
    proxy.faults.append(
        Fault(
            kind=Kind.REFUSE, method="POST", path="/binding$", times=2, status=429, retry_after="1"
        )
    )
    path = f"{PODS}/{name}/binding"
    answers = [await through("create", path, binding(name, "node-a")) for _ in range(3)]
    assert [answer.status for answer in answers] == [429, 429, 201]
    assert answers[0].retry_after == "1"
    assert [passed.status for passed in proxy.happened(Kind.REFUSE)] == [None, None]


async def test_a_slow_request_arrives_in_the_end(proxy, through, name):
    proxy.faults.append(Fault(kind=Kind.SLOW, path=f"/{name}$", delay_s=0.5))
    began = time.monotonic()
    assert (await through("get", f"{PODS}/{name}")).status == 200
    assert time.monotonic() - began >= 0.5


async def watch(through: Through, proxy: KubeProxy, kind: Kind, timeout_s: float) -> Any:
    """Start a watch with two pods to report that gets the fault after the first."""
    proxy.faults.append(Fault(kind=kind, path="watch=1", after_events=1))
    path = f"{PODS}?watch=1&timeoutSeconds=5"
    return await through("watched", path, timeout_s=timeout_s)


@pytest.fixture
def two_pods(name: str, cluster: KubeServers) -> None:
    cluster.api.create(PODS, pod(f"pod-{next(numbers)}")).ok()


@pytest.mark.usefixtures("two_pods")
async def test_a_watch_gets_410_in_mid_stream(proxy, through):
    first, last = await watch(through, proxy, Kind.GONE, 10.0)
    assert first["type"] == "ADDED"
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
    assert [passed.events for passed in proxy.happened(Kind.GONE)] == [1]


@pytest.mark.usefixtures("two_pods")
async def test_a_watch_breaks_in_mid_stream(proxy, through):
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        await watch(through, proxy, Kind.CUT, 10.0)
    assert [passed.events for passed in proxy.happened(Kind.CUT)] == [1]


@pytest.mark.usefixtures("two_pods")
async def test_a_watch_falls_silent(proxy, through):
    # Longer than the watch itself would have lasted.
    with pytest.raises(TimeoutError):
        await watch(through, proxy, Kind.SILENT, 0.5)
    assert [passed.events for passed in proxy.happened(Kind.SILENT)] == [1]
