"""Servers that refuse, die and forget: every pod is bound once, and fits, all the same."""

import json
import signal
from pathlib import Path

import pytest

from shared.testing.kube_credentials import MUSTER
from shared.testing.kube_options import KubeOptions
from shared.testing.kube_server import KubeServers
from tests.live.case import Case
from tests.live.conftest import NewCluster
from tests.live.world import (
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

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
TOO_MANY = 429
MANY_REFUSALS = 50


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    """RBAC with the role that is handed out, and few requests at a time."""
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
    """How many requests of ours the audit log says were too many."""
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


def test_servers_that_die_and_come_back(
    servers: KubeServers, kubeconfig: Path, case: Case, tmp_path
):
    with run(kubeconfig, tmp_path) as muster:
        for part, kill in enumerate((servers.restart_api_server, lambda: restart_etcd(servers))):
            for number in range(100):
                servers.api.create(PODS, pod(f"part-{part}-{number}")).ok()
            kill()
            for number in range(100, 150):
                servers.api.create(PODS, pod(f"part-{part}-{number}")).ok()
            until("all bound", lambda: all(nodes_of(servers.api).values()))
        result = result_of(muster.stop())
    assert result["pending"] == 0
    assert case.check(tmp_path / "run").races == []


def restart_etcd(servers: KubeServers) -> None:
    servers.etcd.kill()
    servers.etcd.start()
    until("etcd is back", lambda: servers.api.get("/readyz").status == 200)


def test_what_vanished_while_nobody_watched_is_noticed(
    servers: KubeServers, kubeconfig: Path, case: Case, tmp_path
):
    """Stopped, so that the server forgets what was missed: 410, then a list that lacks pods."""
    api = servers.api
    with run(kubeconfig, tmp_path) as muster:
        # Pods that fill every node to the last core, so that their going must be noticed.
        for name in nodes_of(api):
            api.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0").ok()
        for number in range(20):
            api.create(PODS, pod(f"old-{number}", cpu="8")).ok()
        until("all bound", lambda: all(nodes_of(api).values()))
        muster.process.send_signal(signal.SIGSTOP)
        for number in range(15):
            api.request("DELETE", f"{PODS}/old-{number}?gracePeriodSeconds=0").ok()
        for number in range(15):
            api.create(PODS, pod(f"new-{number}", cpu="8")).ok()
        servers.restart_api_server()
        muster.process.send_signal(signal.SIGCONT)
        until("all bound", lambda: all(nodes_of(api).values()))
        result = result_of(muster.stop())
    assert result["pending"] == 0
    assert case.check(tmp_path / "run").races == []


def test_what_is_not_allowed_is_named(servers: KubeServers, kubeconfig: Path, tmp_path):
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
