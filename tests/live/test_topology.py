"""Groups with a topology on a real API server of 1.37, for Muster and for kube-scheduler."""

import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    SETTLE_S,
    Running,
    delete_pods,
    muster_run,
    nodes_of,
    until,
)
from tests.simulation.planted import IS_LONG
from tests.support.builders import make_node, make_pod
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
GATES = ("GenericWorkload=true", "TopologyAwareWorkloadScheduling=true")
RACK = "example.com/rack"
CASES = 30 if IS_LONG else 4


class Rack(NamedTuple):
    """`nodes` equal nodes; the first has a pod that takes `taken` cpus and GiB."""

    name: str
    nodes: int
    cpu: int
    memory_gi: int
    taken: int


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    return new_cluster(KubeOptions(storage_json=True, feature_gates=GATES))


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[Running]:
    """Run Muster; check the run and delete all pods afterwards."""
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
    case.check(tmp_path / "run")
    delete_pods(servers.api)


def create_racks(servers: KubeServers, case: str, racks: list[Rack]) -> None:
    """Create the racks' nodes, only for pods of this case, with the pods that run there."""
    for one in racks:
        for number in range(one.nodes):
            name = f"{case}-{one.name}-{number}"
            made = make_node(name).hostname().capacity(str(one.cpu), f"{one.memory_gi}Gi", "110")
            body = made.labels(**{RACK: f"{case}-{one.name}", "case": case}).ready().obj()
            servers.api.create("/api/v1/nodes", body).ok()
            if one.taken and not number:
                amounts = {"cpu": str(one.taken), "memory": f"{one.taken}Gi"}
                there = make_pod(f"{name}-there").requests(**amounts).spec(nodeName=name).obj()
                servers.api.create(PODS, there).ok()


def create_group(
    servers: KubeServers, name: str, least: int, numbers: range, scheduler: str, case: str
) -> None:
    """Create pods, and a moment later their group, so that they are tried together in one rack."""
    create_members(servers, name, numbers, scheduler, case)
    time.sleep(SETTLE_S)
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": least}}}
    spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    version = "scheduling.k8s.io/v1beta1"
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    made = servers.api.create(GROUPS, group).ok()
    assert "schedulingConstraints" in made["spec"], "the API server has the gate"


def create_members(
    servers: KubeServers, group: str, numbers: range, scheduler: str, case: str
) -> None:
    for number in numbers:
        member = make_pod(f"{group}-{number}").requests(cpu="1", memory="1Gi")
        body = member.spec(
            schedulerName=scheduler,
            schedulingGroup={"podGroupName": group},
            nodeSelector={"case": case},
        ).obj()
        servers.api.create(PODS, body).ok()


def racks_of(servers: KubeServers, group: str) -> list[str]:
    """Return the racks of the group's pods that have a node."""
    found = nodes_of(servers.api)
    nodes = [node for name, node in found.items() if name.startswith(f"{group}-") and node]
    return [node.split("-")[1] for node in nodes]


def is_whole(servers: KubeServers, group: str, size: int) -> bool:
    return len(racks_of(servers, group)) == size


def best_racks(racks: list[Rack], size: int) -> set[str]:
    """Return the racks with the highest score of kube-scheduler's placements, by hand."""
    scores: dict[str, int] = {}
    for one in racks:
        room = one.cpu * one.nodes - one.taken
        if room >= size:
            cpu = (size + one.taken) * 100 // (one.cpu * one.nodes)
            memory = (size + one.taken) * 100 // (one.memory_gi * one.nodes)
            scores[one.name] = (cpu + memory) // 2
    return {name for name, score in scores.items() if score == max(scores.values(), default=0)}


def test_a_group_gets_one_rack_and_later_pods_join_it(servers: KubeServers, muster: Running):
    racks = [Rack("r", 2, 1, 64, 0), Rack("s", 2, 3, 64, 0), Rack("t", 1, 3, 64, 0)]
    create_racks(servers, "join", racks)
    create_group(servers, "near", 4, range(4), "muster", "join")
    until("all are bound", lambda: racks_of(servers, "near") == ["s"] * 4)
    create_members(servers, "near", range(4, 7), "muster", "join")
    until("two more are bound", lambda: racks_of(servers, "near") == ["s"] * 6)
    servers.api.request("DELETE", f"{PODS}/near-0?gracePeriodSeconds=0").ok()
    until("the last takes the place", lambda: racks_of(servers, "near") == ["s"] * 6)
    assert nodes_of(servers.api)["near-6"]


def test_both_schedulers_choose_a_best_rack(servers: KubeServers, muster: Running):
    """Racks of random sizes, partly taken; kube-scheduler picks one of equal racks by chance. All
    pods are needed: with fewer, it may try the first ones before it has seen the others.
    """
    chance, unique = random.Random(7), 0
    scheduler = servers.start_scheduler(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    try:
        for number in range(CASES):
            case = f"case{number}"
            racks = [
                Rack(name, chance.randint(1, 3), chance.randint(2, 4), chance.randint(4, 9), 0)
                for name in "rstu"
            ]
            racks = [one._replace(taken=chance.randint(0, one.cpu - 1)) for one in racks]
            size = chance.randint(2, 6)
            best = best_racks(racks, size)
            if not best:
                continue
            unique += len(best) == 1
            create_racks(servers, case, racks)
            for name in ("default-scheduler", "muster"):
                group = f"{case}{name.partition('-')[0]}"
                create_group(servers, group, size, range(size), name, case)
                until("all are bound", partial(is_whole, servers, group, size))
                (chosen,) = set(racks_of(servers, group))
                assert chosen in best, f"{name} in case {number}: {racks}, {size}"
                for pod in range(size):
                    servers.api.request("DELETE", f"{PODS}/{group}-{pod}?gracePeriodSeconds=0").ok()
        assert unique >= CASES // 2
    finally:
        scheduler.kill()
