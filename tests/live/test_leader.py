"""Processes for the same pods on one API server: one run, or one mesh, decides, and the others
stand by.
"""

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.live.checker import journals
from tests.live.checker.deletes import wrong_deletes
from tests.live.support.case import Case
from tests.live.support.objects import (
    LEASES,
    PATIENCE_S,
    PODS,
    Running,
    create_nodes,
    here,
    muster_run,
    nodes_of,
    pod,
    result_of,
    until,
)
from tests.support.kube_api import KubeApi
from tests.support.kube_server import KubeServers
from tests.support.server_process import free_ports

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
LEASE = f"{LEASES}/muster"
SOON_S = 5.0
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 500ms}
profiles: [{schedulerName: muster}]
"""
"""The lease expires within seconds, so that the tests need not wait."""


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    create_nodes(cluster.api, ["node-a", "node-b"], cpu=64)
    return cluster


def lease(api: KubeApi) -> dict[str, Any]:
    found = api.get(LEASE)
    return found.ok()["spec"] if found.status == 200 else {}


def leads(api: KubeApi, folder: Path) -> bool:
    """Return whether the run in this folder holds the Lease."""
    own = (folder / "run" / "identity").read_text(encoding="utf-8").strip()
    return lease(api).get("holderIdentity") == own


def ready(port: int) -> str:
    """Return the answer of /readyz; empty unless it is 200."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return str(answer.read(), "utf-8")
    except HTTPError:
        return ""


def binds(api: KubeApi, name: str, limit_s: float = PATIENCE_S) -> None:
    api.create(PODS, pod(name)).ok()
    until(f"{name} is bound", lambda: nodes_of(api)[name] != "", limit_s)


def test_one_decides_and_the_other_stands_by(servers: KubeServers, case: Case, tmp_path: Path):
    api = servers.api
    (tmp_path / "config.yaml").write_text(CONFIG, encoding="utf-8")
    folders = [tmp_path / name for name in ("a", "b")]
    ports = dict(zip(folders, free_ports(2), strict=True))

    def start(folder: Path) -> Running:
        folder.mkdir(exist_ok=True)
        config = str(tmp_path / "config.yaml")
        port = str(ports[folder])
        words = ("-o", "json", "--config", config, "--metrics-port", port)
        return muster_run(servers.kubeconfig, folder, *words)

    with start(folders[0]) as first:
        binds(api, "by-first")
        assert leads(api, folders[0])
        with start(folders[1]) as second:
            until("it stands by", lambda: "stands by (kube-system/muster)" in second.said())
            until("it has read the cluster", lambda: bool(ready(ports[folders[1]])))
            assert "[+]leader stands by (kube-system/muster): " in ready(ports[folders[1]])
            assert "[+]watches fresh" in ready(ports[folders[1]])
            assert "[+]watches fresh" in ready(ports[folders[0]])
            api.request("DELETE", LEASE).ok()
            # By the owner that has created a new one.
            binds(api, "without-lease", here(SOON_S))
            until("there is one again", lambda: bool(lease(api)))
            assert [wrongly_gone(case, folder) for folder in folders] == [[], []]
            first.kill()
            until("the second leads", lambda: leads(api, folders[1]))
            until("it is ready", lambda: "[+]leader leads" in ready(ports[folders[1]]))
            binds(api, "by-second")
            with start(folders[0]) as again:
                until("it stands by", lambda: "stands by" in again.said())
                second.process.send_signal(signal.SIGSTOP)
                until("the first leads again", lambda: leads(api, folders[0]))
                binds(api, "by-first-again")
                second.process.send_signal(signal.SIGCONT)
                until("the second ends", lambda: second.process.poll() is not None)
                assert second.process.returncode == 1
                assert "leads now, and this process has stopped" in second.said()
                binds(api, "at-the-end")
                assert result_of(again.stop())["pending"] == 0
                assert lease(api)["holderIdentity"] == ""
    done = [post for post in case.posts() if post.code == 201]
    assert len(done) == len(nodes_of(api)) == 5
    # An owner that resumes its watch may see a pod before it sees the other's bind of it, and is
    # refused then.
    by_others = [not_decided(case, folder) for folder in folders]
    assert by_others[0] <= {"by-second", "without-lease"}
    assert {"by-first", "at-the-end"} <= by_others[1]
    assert by_others[1] <= {"by-first", "by-first-again", "at-the-end", "without-lease"}
    assert "without-lease" not in by_others[0] & by_others[1]


def test_the_services_of_a_mesh_hold_the_lease_together(servers: KubeServers, tmp_path: Path):
    api, bus = servers.api, f"sqlite:{tmp_path / 'journals.db'}"
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")

    def serve(*services: str) -> Running:
        words = ["serve", *services, "--bus", bus, "--run-dir", str(tmp_path / "serve")]
        words += ["--kubeconfig", str(servers.kubeconfig), "--config", str(config)]
        return Running(words, tmp_path / f"log-{services[0]}")

    def run() -> Running:
        return muster_run(servers.kubeconfig, tmp_path, "-o", "json", "--config", str(config))

    with ExitStack() as stack:
        first = stack.enter_context(run())
        binds(api, "by-a-run")
        others = serve("ingest", "queueing", "placement", "permit", "preemption")
        stack.enter_context(others)
        binding = stack.enter_context(serve("binding"))
        until("they stand by", lambda: "stands by (kube-system/muster)" in binding.said())
        assert result_of(first.stop())["pending"] == 0
        binds(api, "by-services")
        mesh = lease(api)["holderIdentity"]
        assert mesh.startswith(f"{bus} on ")
        second = stack.enter_context(run())
        until("it stands by", lambda: f"{mesh} leads" in second.said())
        # The processes that go on keep the Lease for one that starts again.
        binding.stop()
        binding = stack.enter_context(serve("binding"))
        binds(api, "by-services-again")
        assert lease(api)["holderIdentity"] == mesh
        # All of them pause, so the run leads, and they end.
        paused = [others.process, binding.process]
        for process in paused:
            process.send_signal(signal.SIGSTOP)
        until("the run leads", lambda: leads(api, tmp_path))
        binds(api, "by-a-run-again")
        for process in paused:
            process.send_signal(signal.SIGCONT)
        until("they end", lambda: None not in [process.poll() for process in paused])
        assert [process.returncode for process in paused] == [1, 1]
        assert "lost the lease kube-system/muster to" in binding.said()
        assert result_of(second.stop())["pending"] == 0


def not_decided(case: Case, folder: Path) -> set[str]:
    """Return the pods that we bound without a decision of this run; check that nothing else is
    wrong.
    """
    found = case.verdict(journals.of_file(folder / "run" / "journals.db")).problems
    assert all(problem.endswith("without a decision") for problem in found), found
    return {problem.partition(" ")[0].removeprefix("default/") for problem in found}


def wrongly_gone(case: Case, folder: Path) -> list[str]:
    """Return pods that this run has recorded as deleted and that exist."""
    case.history.settle()
    recorded = journals.of_file(folder / "run" / "journals.db")
    return wrong_deletes(recorded, case.history.changes())
