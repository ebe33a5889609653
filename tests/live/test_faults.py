"""Servers that refuse, die and lose data: still every pod is bound once, and fits."""

import http.client
import json
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.live.checker import journals
from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    PATIENCE_S,
    PODS,
    ROOT,
    Running,
    create_nodes,
    muster_run,
    nodes_of,
    pod,
    result_of,
    until,
)
from tests.support.etcd_store import EtcdStore
from tests.support.kube_credentials import ADMIN, MUSTER
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers
from tests.support.server_process import ServerProcess, free_ports

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
OK, CREATED, CONFLICT, TOO_MANY = 200, 201, 409, 429
THERE = (CREATED, CONFLICT)
MANY_REFUSALS = 50
UNKNOWN = 1
"""Of the answers in binding's journal: it is open whether the cluster changed."""
SOME, EACH_S, TRY_S, UNDER_WAY_S = 20, 0.01, 5.0, 0.5


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    """Start servers with RBAC, the published role, and a low limit of requests in flight."""
    options = KubeOptions(
        authorization_mode="RBAC",
        priority_and_fairness=False,
        max_mutating_requests_inflight=2,
        storage_json=True,
    )
    servers = new_cluster(options)
    servers.kubectl("apply", "-f", str(ROOT / "deploy" / "rbac.yaml"))
    create_nodes(servers.api, [f"node-{number:02}" for number in range(20)], cpu=8)
    return servers


@pytest.fixture
def kubeconfig(servers: KubeServers, tmp_path) -> Path:
    return servers.write_kubeconfig(tmp_path / "kubeconfig", MUSTER)


def run(kubeconfig: Path, tmp_path: Path) -> Running:
    return muster_run(kubeconfig, tmp_path, "-o", "json")


def refusals(servers: KubeServers) -> int:
    """Return how many of our requests got 429, from the audit log."""
    lines = servers.at.audit_log_path.read_text(encoding="utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    return sum(
        event["user"]["username"] == MUSTER.name
        and event.get("responseStatus", {}).get("code") == TOO_MANY
        for event in events
    )


def test_with_few_requests_at_a_time_nothing_is_lost(
    servers: KubeServers, kubeconfig: Path, case: Case, tmp_path
):
    for number in range(500):
        servers.api.create(PODS, pod(f"many-{number}")).ok()
    with run(kubeconfig, tmp_path) as muster:
        until("all bound", lambda: all(nodes_of(servers.api).values()))
        result = result_of(muster.stop())
    assert result["pending"] == 0
    refused = refusals(servers)
    print(f"{refused} requests were refused with 429")
    assert refused >= MANY_REFUSALS
    assert case.check(tmp_path / "run").races == []


def test_pods_are_bound_while_servers_die_and_return(
    servers: KubeServers, kubeconfig: Path, case: Case, tmp_path
):
    """Each while pods come and are bound, so that it takes answers to binds with it."""
    # Few requests at a time would be refused, and so not under way.
    servers.restart_api_server(max_mutating_requests_inflight=None)
    path = tmp_path / "run" / "journals.db"
    with run(kubeconfig, tmp_path) as muster:
        with pods_that_come(servers):
            for server in (servers.api_server, servers.etcd):
                began_s = time.time()
                until_more_are_bound(servers)
                unknown = unknown_answers(path)
                died_s = kill_under_way(server, path)
                server.start()
                back_s = time.time()
                until("it is back", lambda: is_ready(servers))
                until_more_are_bound(servers)
                until_more_are_unknown(path, unknown)
                bound_s = [
                    post.time_s for post in case.posts() if post.ours and post.code == CREATED
                ]
                assert any(began_s < one < died_s for one in bound_s)
                assert any(one > back_s for one in bound_s)
        until("all bound", lambda: all(nodes_of(servers.api).values()))
        result = result_of(muster.stop())
    assert result["pending"] == 0
    assert case.check(tmp_path / "run").races == []


@contextmanager
def pods_that_come(servers: KubeServers) -> Iterator[None]:
    """Create pods one after the other; repeat each until it exists, whatever server is dead."""
    is_over = threading.Event()

    def create() -> None:
        number = 0
        with closing(servers.client(ADMIN, timeout_s=TRY_S)) as api:
            while not is_over.wait(EACH_S):
                with suppress(OSError, http.client.HTTPException):
                    body = pod(f"coming-{number}", cpu="10m")
                    number += api.create(PODS, body).status in THERE

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def until_more_are_bound(servers: KubeServers) -> None:
    def count() -> int:
        return sum(map(bool, nodes_of(servers.api).values()))

    enough = count() + SOME
    until("more are bound", lambda: count() >= enough)


def kill_under_way(server: ServerProcess, path: Path) -> float:
    """When it has not answered for a moment what it was asked; when it answered last."""
    while True:
        server.pause()
        paused_s = time.time()
        time.sleep(UNDER_WAY_S)
        if are_under_way(path):
            server.kill()
            return paused_s
        server.resume()
        time.sleep(EACH_S)


def are_under_way(path: Path) -> bool:
    """Return whether binds were requested and not answered."""
    binds: set[tuple[int, int]] = set()
    for entry in journals.of_file(path, ["binding"])["binding/0"]:
        for event in entry.heard("bind_answers"):
            binds -= {(event["effect"], pod) for pod in journals.column(event["ids"])}
        for event in entry.of("binds_asked"):
            binds |= {(event["effect"], pod) for pod in journals.column(event["ids"])}
    return bool(binds)


def unknown_answers(path: Path) -> int:
    """Return the number of unknown answers to binds."""
    return sum(
        event["codes"].count(UNKNOWN)
        for entry in journals.of_file(path, ["binding"])["binding/0"]
        for event in entry.heard("bind_answers")
    )


def until_more_are_unknown(path: Path, before: int) -> None:
    until("it is told", lambda: unknown_answers(path) > before)


def is_ready(servers: KubeServers) -> bool:
    try:
        return servers.api.get("/readyz").status == OK
    except (OSError, http.client.HTTPException):
        return False


def test_a_run_that_begins_without_a_server_says_so_and_ends(servers: KubeServers, tmp_path):
    url = f"https://127.0.0.1:{free_ports(1)[0]}"
    config = servers.write_kubeconfig(tmp_path / "kubeconfig", MUSTER, url=url)
    with run(config, tmp_path) as muster:
        assert muster.process.wait(PATIENCE_S) == 1
        (line,) = muster.said().splitlines()
    assert "the cluster does not answer: " in line


def test_objects_deleted_between_two_runs_are_noticed(
    servers: KubeServers, kubeconfig: Path, case: Case, tmp_path
):
    """Stop the run and then the server, which starts again: the watch gets 410, then a list lacks
    pods. If they were deleted while the server ran, they would be in the watch, which may be read
    to its end later.
    """
    api = servers.api
    with run(kubeconfig, tmp_path) as muster:
        # Pods that fill every node to the last core, so their end must be noticed.
        for name in nodes_of(api):
            api.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0").ok()
        for number in range(20):
            api.create(PODS, pod(f"{'goes' if number < 15 else 'stays'}-{number}", cpu="8")).ok()
        until("all bound", lambda: all(nodes_of(api).values()))
        muster.process.send_signal(signal.SIGSTOP)
        servers.api_server.kill()
        store = EtcdStore(servers.at.etcd_url)
        assert store.delete_all("/registry/pods/default/goes-") == 15
        servers.restart_api_server()
        for number in range(15):
            api.create(PODS, pod(f"new-{number}", cpu="8")).ok()
        muster.process.send_signal(signal.SIGCONT)
        until("all bound", lambda: all(nodes_of(api).values()))
        result = result_of(muster.stop())
        assert re.search("listing everything again: .*too old resource version", muster.said())
    assert result["pending"] == 0
    told = journals.of_file(tmp_path / "run" / "journals.db")["ingest/0"]
    listed = [
        (event["type"], event["derived_deletes"])
        for entry in told
        for event in entry.of("list_doubted", "list_applied")
        if event["kind"] == "pods"
    ]
    # The second list lacks more than half of the pods, so it takes a third one to believe it.
    assert listed == [("list_applied", 0), ("list_doubted", 15), ("list_applied", 15)]
    assert case.check(tmp_path / "run").races == []


def test_a_missing_permission_is_named(servers: KubeServers, kubeconfig: Path, tmp_path):
    role = json.loads(servers.kubectl("get", "clusterrole", "muster", "-o", "json"))
    less = [rule for rule in role["rules"] if rule["resources"] != ["pods/binding"]]
    servers.kubectl("patch", "clusterrole", "muster", "-p", json.dumps({"rules": less}))
    try:
        with run(kubeconfig, tmp_path) as muster:
            until("it ends", lambda: muster.process.poll() is not None)
            assert muster.process.returncode == 1
            assert "does not allow us to create pods/binding" in muster.said()
    finally:
        servers.kubectl("apply", "-f", str(ROOT / "deploy" / "rbac.yaml"))
