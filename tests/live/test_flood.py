"""`muster flood` on a live cluster: for Muster and for kube-scheduler; namespaces alone stay."""

import json
from pathlib import Path

import pytest

from loadtest.cluster.contestants import KUBE_SCHEDULER, MUSTER, OPTIONS
from tests.e2e.console import complaint, muster
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
WORKLOAD = """
podTemplates:
  low: {spec: {priority: -5, containers: [{name: c, resources: {requests: {cpu: 1}}}]}}
steps:
  - {opcode: createNodes, count: 10, zones: [a, b]}
  - {opcode: createNamespaces, prefix: team, count: 1}
  - {opcode: createPods, count: 20, template: low, namespace: team-0, collectMetrics: false}
  - {opcode: barrier}
  - opcode: createPods
    count: 40
    distinct: true
    arrival: {process: poisson, perSecond: 100}
    runsFor: 200ms
  - {opcode: createNodes, count: 2, arrival: {process: even, perSecond: 10}}
  - {opcode: deletePods, namespace: team-0, count: 5}
  - {opcode: barrier}
  - {opcode: createPods, count: 10}
  - {opcode: sleep, duration: 500ms}
  - {opcode: barrier}
"""
GANGS = """
steps:
  - {opcode: createNodes, count: 4}
  - {opcode: createGangs, count: 3, size: 4}
  - {opcode: barrier}
"""


@pytest.fixture(scope="module")
def servers(new_cluster) -> KubeServers:
    found: KubeServers = new_cluster(OPTIONS)
    return found


def names(servers: KubeServers, path: str) -> list[str]:
    found = servers.api.get(path).ok()
    return [one["metadata"]["name"] for one in found["items"]]


def test_a_flood_is_played_for_two_schedulers_in_turn(servers, tmp_path: Path):
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    rival, own = KUBE_SCHEDULER.start(servers), MUSTER.start(servers)
    try:
        words = ("flood", tmp_path / "w.yaml", "--target", servers.kubeconfig)
        ran = muster(
            *words, "--rival", "kube-scheduler", "--run-dir", "run", "-o", "json", cwd=tmp_path
        )
    finally:
        own.terminate()
        rival.terminate()
    assert ran.code == 0, ran.err
    figures = {one["figure"]: one for one in json.loads(ran.out)}
    assert (figures["bound"]["first"], figures["bound"]["second"]) == (70, 70)
    assert figures["latency_ms.p50"]["first"] > 0
    for file, scheduler in (("kube-scheduler.json", "kube-scheduler"), ("summary.json", "muster")):
        found = json.loads((tmp_path / "run" / file).read_text())
        assert found["scheduler"] == scheduler
        assert (found["measured_bound"], found["waiting"]) == (50, 0)
        assert found["gone"] >= 45
        assert found["api_writes_per_pod"] >= 1
        assert found["batches"] is None
    assert names(servers, "/api/v1/pods") == names(servers, "/api/v1/nodes") == []
    left = names(servers, "/apis/scheduling.k8s.io/v1/priorityclasses")
    assert [name for name in left if name.startswith("flood")] == []


def test_gangs_are_groups_as_the_newest_server_has_them(new_cluster, tmp_path: Path):
    newest: KubeServers = new_cluster(KubeOptions(audit_policy=None))
    (tmp_path / "w.yaml").write_text(GANGS)
    own = MUSTER.start(newest)
    try:
        words = ("flood", "w.yaml", "--target", newest.kubeconfig, "--run-dir", "run", "-o", "json")
        ran = muster(*words, cwd=tmp_path)
    finally:
        own.terminate()
    assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (found["measured_bound"], found["waiting"]) == (12, 0)
    groups = newest.api.items("/apis/scheduling.k8s.io/v1beta1/podgroups")
    # Their finalizer is the business of a controller, which does not run here.
    assert all("deletionTimestamp" in one["metadata"] for one in groups)


def test_what_the_server_refuses_is_one_line(servers, tmp_path: Path):
    (tmp_path / "w.yaml").write_text(
        "podTemplates: {bad: {spec: {restartPolicy: Sometimes, containers: [{name: c}]}}}\n"
        "steps: [{opcode: createPods, count: 1, template: bad}, {opcode: barrier}]"
    )
    words = ("flood", "w.yaml", "--target", servers.kubeconfig, "--run-dir", "run")
    line = complaint(muster(*words, cwd=tmp_path), 1)
    assert line.startswith("muster: POST /api/v1/namespaces/default/pods: 422: ")
    assert "Sometimes" in line
    assert names(servers, "/api/v1/pods") == []
