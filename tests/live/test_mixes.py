"""A mix of workloads takes as long on a real API server as on virtual time."""

import asyncio
import json
from pathlib import Path

import pytest

from muster.flood.targets.kube import live
from muster.mix.draw import plan_of
from muster.mix.figures import About, summarise
from muster.mix.mix import Mix
from muster.mix.player import Player
from muster.mix.read import read_mix
from muster.mix.summary import MixSummary, Times
from tests.e2e.console import muster
from tests.live.support.objects import PODS, delete_pods, muster_run, until
from tests.simulation.planted import IS_LONG
from tests.support.builders import make_node, make_pod
from tests.support.kube_api import KubeApi
from tests.support.kube_options import KubeOptions

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
GATES = ("GenericWorkload=true", "TopologyAwareWorkloadScheduling=true")
LOOK_S = 0.05
SOON = "--set", "queueing.backoff_max_ms=1000"
"""Jobs run for seconds here; a backoff of ten would decide when they start."""
AGREEMENT = 0.05
TIMES = {"GANG": "24s", "ARRAY": "22s", "HORIZON": "150s"}
SHORT = {"GANG": "6s", "ARRAY": "5s", "HORIZON": "40s"}
REQUESTS_S = 0.0 if IS_LONG else 1.5
"""What starting and requests may add to a mean. In the long form it is less than the agreement."""
MIX = """
horizon: HORIZON
nodes:
  - count: 4
    prefix: gang
    domains: {example.com/rack: 2}
    template: {metadata: {labels: {pool: gangs}}, status: {allocatable: {cpu: 4, pods: 110}}}
  - count: 3
    prefix: array
    template: {metadata: {labels: {pool: arrays}}, status: {allocatable: {cpu: 4, pods: 110}}}
podTemplates:
  member:
    spec:
      nodeSelector: {pool: gangs}
      containers: [{name: c, resources: {requests: {cpu: 4}}}]
  part:
    spec:
      nodeSelector: {pool: arrays}
      containers: [{name: c, resources: {requests: {cpu: 4}}}]
training:
  - name: gangs
    template: member
    arrival: {process: burst, size: 8, every: 1h}
    size: 2
    topologyKey: example.com/rack
    duration: GANG
batch:
  - name: arrays
    template: part
    arrival: {process: burst, size: 1, every: 1h}
    size: 18
    duration: ARRAY
"""
"""Queues in which the order of equals decides nothing: each waits for the end of others."""


async def played(mix: Mix, kubeconfig: str) -> MixSummary:
    async with live(plan_of(mix), kubeconfig, "muster") as target:
        player = Player(mix, target, LOOK_S)
        await player.play()
    return summarise(mix, player.controllers, About("", 1, mix.horizon_ms / 1000))


def test_waits_and_completion_agree_with_virtual_time(new_cluster, tmp_path: Path):
    servers = new_cluster(KubeOptions(storage_json=True, feature_gates=GATES))
    file = tmp_path / "mix.yaml"
    text = MIX
    for name, time in (TIMES if IS_LONG else SHORT).items():
        text = text.replace(name, time)
    file.write_text(text)
    ran = muster(
        "simulate", "--workloads", file, "--run-dir", tmp_path / "sim", "-o", "json", *SOON
    )
    assert ran.code == 0, ran.err
    with muster_run(servers.kubeconfig, tmp_path, *SOON):
        _until_it_schedules(servers.api)
        found = asyncio.run(played(read_mix(file), str(servers.kubeconfig)))
    for simulated, real in zip(json.loads(ran.out)["classes"], found.classes, strict=True):
        for one, other in zip(simulated["sizes"], real.sizes, strict=True):
            assert (one["came"], one["ended"]) == (other.came, other.ended)
            _agree(one["wait_s"], other.wait_s)
            _agree(one["completion_s"], other.completion_s)


def _until_it_schedules(api: KubeApi) -> None:
    node, pod = "/api/v1/nodes/first", f"{PODS}/first"
    api.create("/api/v1/nodes", make_node("first").capacity("1", "1Gi", "1").ready().obj()).ok()
    api.create(PODS, make_pod("first").spec(schedulerName="muster").obj()).ok()
    until("the first pod is bound", lambda: "nodeName" in api.get(pod).ok()["spec"], 60)
    delete_pods(api)
    api.request("DELETE", node).ok()


def _agree(simulated: dict, real: Times | None) -> None:
    assert real is not None
    assert real.count == simulated["count"]
    assert real.mean == pytest.approx(simulated["mean"], rel=AGREEMENT, abs=REQUESTS_S)
