"""The faults that live tests need work: limits, short watches, compaction, dead servers."""

import threading
import time
from contextlib import closing
from http import HTTPStatus

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.objects import here
from tests.support.kube_api import Answer
from tests.support.kube_credentials import ADMIN, MUSTER, User
from tests.support.kube_objects import eventually, node, pod
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.xdist_group("kube")]
PODS = "/api/v1/namespaces/default/pods"
STRANGER = User("stranger")
WATCH_S = 2


@pytest.fixture(scope="module")
def frail(new_cluster: NewCluster) -> KubeServers:
    """Start servers with short watches and compaction; the user muster may read everything."""
    options = KubeOptions(
        authorization_mode="RBAC",
        etcd_compaction_interval_s=1,
        watch_cache=False,
        min_request_timeout_s=WATCH_S,
        priority_and_fairness=False,
    )
    servers = new_cluster(options, users=[STRANGER])
    servers.kubectl(
        *("create", "clusterrolebinding", "readers"),
        *(f"--user={MUSTER.name}", "--clusterrole=system:kube-scheduler"),
    )
    return servers


def test_a_role_is_needed_and_is_enough(frail: KubeServers):
    with closing(frail.client(MUSTER)) as one, closing(frail.client(STRANGER)) as other:
        eventually(lambda: one.get("/api/v1/nodes").status == HTTPStatus.OK, "the role counts")
        refused = other.get("/api/v1/nodes")
    assert refused.status == HTTPStatus.FORBIDDEN
    assert 'User "stranger" cannot list resource "nodes"' in refused.message


def test_too_many_requests_are_refused_with_a_time_to_wait(frail: KubeServers):
    for number in range(50):
        frail.api.create("/api/v1/nodes", node(f"node-{number}")).ok()
    frail.restart_api_server(max_requests_inflight=1, max_mutating_requests_inflight=1)
    answers: list[Answer] = []

    def ask() -> None:
        with closing(frail.client(MUSTER)) as api:
            answers.extend(api.get("/api/v1/nodes") for _ in range(30))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [answer for answer in answers if answer.status == HTTPStatus.TOO_MANY_REQUESTS]
    assert len(refused) > 0
    assert {answer.retry_after for answer in refused} == {"1"}
    # The server's own requests, too, take the only place: for a minute, while etcd is away.
    frail.restart_api_server(max_requests_inflight=None, max_mutating_requests_inflight=None)


def test_a_watch_ends_by_itself(frail: KubeServers):
    began = time.monotonic()
    frail.api.watched(f"{PODS}?watch=1")
    assert WATCH_S <= time.monotonic() - began < here(3 * WATCH_S)


def test_lists_and_watches_of_compacted_history_get_410(frail: KubeServers):
    versions = []
    for number in range(3):
        made = frail.api.create(PODS, pod(f"pod-{number}")).ok()
        versions.append(made["metadata"]["resourceVersion"])
    token = frail.api.get(f"{PODS}?limit=1").ok()["metadata"]["continue"]
    again = f"{PODS}?limit=1&continue={token}"
    eventually(lambda: frail.api.get(again).status == HTTPStatus.GONE, "the list is too old")
    # A watch that cannot continue gets an error inside a stream that began well.
    (event,) = frail.api.watched(f"{PODS}?watch=1&resourceVersion={versions[0]}")
    assert (event["type"], event["object"]["code"]) == ("ERROR", HTTPStatus.GONE)


def test_etcd_comes_back_with_its_data(frail: KubeServers):
    frail.api.create(PODS, pod("before")).ok()
    frail.etcd.kill()
    with closing(frail.client(ADMIN, timeout_s=0.5)) as api, pytest.raises(TimeoutError):
        api.create(PODS, pod("meanwhile"))
    frail.etcd.start()
    eventually(lambda: frail.api.get(f"{PODS}/before").status == HTTPStatus.OK, "etcd answers")


def test_the_api_server_comes_back_on_its_port(frail: KubeServers):
    # Written or not at the first attempts, when etcd has just come back.
    done = (HTTPStatus.CREATED, HTTPStatus.CONFLICT)
    eventually(lambda: frail.api.create(PODS, pod("kept")).status in done, "a pod is made")
    frail.api_server.kill()
    with closing(frail.client(ADMIN)) as api, pytest.raises(ConnectionRefusedError):
        api.get("/version")
    frail.restart_api_server(watch_cache=True)
    assert frail.api.get(f"{PODS}/kept").status == HTTPStatus.OK


def test_a_paused_api_server_says_nothing(frail: KubeServers):
    frail.api_server.pause()
    try:
        with closing(frail.client(ADMIN, timeout_s=0.5)) as api, pytest.raises(TimeoutError):
            api.get("/version")
    finally:
        frail.api_server.resume()
    assert frail.api.get("/version").status == HTTPStatus.OK
