"""CompositePodGroups on a real API server: Muster and kube-scheduler 1.37 start the same pods."""

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
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
GATE = "CompositePodGroup=true"
GATES = ("GenericWorkload=true", "TopologyAwareWorkloadScheduling=true", GATE)
SERVED = ("scheduling.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha3=true")
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
COMPOSITES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
REF = {"workloadName": "work", "templateName": "template"}
ABOVE = {"priorityClassName": "above"}
NODES = ("node-0", "node-1")
"""Of three CPUs each."""


class Group(NamedTuple):
    """A PodGroup with `pods` members of `cpu` CPUs; `least` 0: basic. Or a composite one, with
    `least` groups; `pods` 0. `key`: the label of its topology.
    """

    name: str
    parent: str = ""
    least: int = 1
    pods: int = 0
    cpu: str = "1"
    key: str = ""


HOST = "kubernetes.io/hostname"
ROOT = Group("root")
CASES: dict[str, tuple[list[Group], dict[str, int]]] = {
    "an-infeasible-group-gives-its-room": (
        [ROOT._replace(least=1), Group("a", "root", 7, 7), Group("b", "root", 5, 5)],
        {"a": 0, "b": 5},
    ),
    "the-older-group-goes-first": (
        [ROOT._replace(least=1), Group("b", "root", 4, 4), Group("a", "root", 4, 4)],
        {"a": 0, "b": 4},
    ),
    "members-above-the-minimum": (
        [ROOT._replace(least=1), Group("a", "root", 2, 4), Group("b", "root", 2, 4)],
        {"a": 4, "b": 2},
    ),
    "too-few-members": (
        [ROOT._replace(least=2), Group("a", "root", 2, 2), Group("b", "root", 2, 1)],
        {"a": 0, "b": 0},
    ),
    "one-group-lacks-members": (
        [ROOT._replace(least=1), Group("a", "root", 2, 2), Group("b", "root", 2, 1)],
        {"a": 2, "b": 0},
    ),
    "basic-composite": (
        [ROOT._replace(least=0), Group("a", "root", 7, 7), Group("b", "root", 3, 3)],
        {"a": 0, "b": 3},
    ),
    "basic-groups": (
        [ROOT._replace(least=2), Group("a", "root", 0, 5), Group("b", "root", 0, 5)],
        {"a": 5, "b": 1},
    ),
    "a-basic-group-without-room": (
        [ROOT._replace(least=2), Group("a", "root", 0, 6), Group("b", "root", 0, 1)],
        {"a": 0, "b": 0},
    ),
    "three-levels": (
        [
            *(ROOT, Group("x", "root", 2), Group("y", "root", 0)),
            *(Group("x1", "x", 2, 2), Group("x2", "x", 5, 5), Group("y1", "y", 5, 5)),
        ],
        {"x1": 0, "x2": 0, "y1": 5},
    ),
    "a-node-for-each-group": (
        [ROOT._replace(least=2), Group("a", "root", 3, 3, key=HOST), Group("b", "root", 3, 3)],
        {"a": 3, "b": 3},
    ),
    "no-node-has-room-for-a-group": (
        [ROOT, Group("a", "root", 4, 4, key=HOST), Group("b", "root", 3, 3, key=HOST)],
        {"a": 0, "b": 3},
    ),
    "a-node-for-all-groups": (
        [ROOT._replace(key=HOST), Group("a", "root", 2, 2), Group("b", "root", 2, 2)],
        {"a": 2, "b": 0},
    ),
    "no-node-has-room-for-all-groups": (
        [ROOT._replace(least=2, key=HOST), Group("a", "root", 2, 2), Group("b", "root", 2, 2)],
        {"a": 0, "b": 0},
    ),
    "three-levels-with-a-node-for-each-part": (
        [
            *(
                ROOT._replace(least=2),
                Group("x", "root", 2, key=HOST),
                Group("y", "root", key=HOST),
            ),
            *(Group("x1", "x", 1, 1), Group("x2", "x", 2, 2), Group("y1", "y", 2, 2)),
        ],
        {"x1": 1, "x2": 2, "y1": 2},
    ),
    "no-root": ([Group("a", "root", 2, 2)], {"a": 0}),
}


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    options = KubeOptions(storage_json=True, feature_gates=GATES, runtime_config=SERVED)
    cluster = new_cluster(options)
    create_nodes(cluster.api, NODES, cpu=3)
    return cluster


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[Running]:
    """Run Muster, delete all pods and groups, and check the run: its checker knows no trees."""
    more = ("--feature-gates", GATE)
    with muster_run(servers.kubeconfig, tmp_path, *more) as running:
        yield running
        delete_all(servers)
    case.check(tmp_path / "run")


def delete_all(servers: KubeServers) -> None:
    delete_pods(servers.api)
    for path in (GROUPS, COMPOSITES):
        for one in servers.api.get(path).ok()["items"]:
            name = one["metadata"]["name"]
            clear = {"metadata": {"finalizers": None}}
            servers.api.request("PATCH", f"{path}/{name}", clear)
            servers.api.request("DELETE", f"{path}/{name}")
        until("they are gone", partial(is_empty, servers, path))


def is_empty(servers: KubeServers, path: str) -> bool:
    return not servers.api.get(path).ok()["items"]


def create(servers: KubeServers, group: Group, **more: Any) -> None:
    is_composite = not group.pods
    count = {"minGroupCount" if is_composite else "minCount": group.least}
    spec: dict[str, Any] = {
        "workloadRef": REF,
        "schedulingPolicy": {"gang": count} if group.least else {"basic": {}},
        **more,
    }
    if group.key:
        spec["schedulingConstraints"] = {"topology": [{"key": group.key}]}
    if group.parent:
        spec["parentCompositePodGroupName"] = group.parent
    version, kind = ("v1alpha3", "CompositePodGroup") if is_composite else ("v1beta1", "PodGroup")
    body = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": kind, "spec": spec}
    path = COMPOSITES if is_composite else GROUPS
    made = servers.api.create(path, body | {"metadata": {"name": group.name}}).ok()
    assert made["spec"].get("parentCompositePodGroupName", "") == group.parent, "it has the gate"


def create_members(servers: KubeServers, group: Group, scheduler: str, **more: Any) -> None:
    of = {"schedulingGroup": {"podGroupName": group.name}, **more}
    for number in range(group.pods):
        body = pod(f"{group.name}-{number}", group.cpu, scheduler, **of)
        servers.api.create(PODS, body).ok()


def running(servers: KubeServers) -> dict[str, int]:
    """Return how many pods of each group have a node."""
    counts: dict[str, int] = {}
    for name, node in nodes_of(servers.api).items():
        group = name.partition("-")[0]
        counts[group] = counts.get(group, 0) + bool(node)
    return counts


def nodes_below(servers: KubeServers, prefix: str) -> set[str]:
    """Return the nodes of pods of groups whose names begin so."""
    found = nodes_of(servers.api).items()
    return {node for name, node in found if node and name.startswith(prefix)}


def messages(servers: KubeServers) -> list[str]:
    """Return what the pods without a node say; empty ones say nothing yet."""
    found = []
    for one in servers.api.get(PODS).ok()["items"]:
        said = one.get("status", {}).get("conditions", [])
        if not one["spec"].get("nodeName"):
            texts = [c.get("message", "") for c in said if c["type"] == "PodScheduled"]
            found.append("".join(texts))
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("scheduler", ["default-scheduler", "muster"])
def test_both_schedulers_start_the_same_groups(
    servers: KubeServers, muster: Running, scheduler: str, name: str
):
    groups, expected = CASES[name]
    kube_scheduler = servers.start_scheduler(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    try:
        # The root comes last, so that all members are there at the first try.
        for group in groups[1:] or groups:
            create(servers, group)
            if any(group.parent == other.parent for other in groups[2:]):
                time.sleep(1.1)  # Their creationTimestamps order them.
        for group in groups:
            create_members(servers, group, scheduler)
        time.sleep(SETTLE_S)
        if groups[1:]:
            create(servers, groups[0])
        until("they start", lambda: running(servers) == expected)
        if scheduler == "muster":
            until("the others say why", lambda: all(map(bool, messages(servers))))
        time.sleep(SETTLE_S)
        assert running(servers) == expected
        for group in groups:
            is_root = group == groups[0]
            assert not group.key or len(nodes_below(servers, "" if is_root else group.name)) <= 1
        assert all(
            "tree to meet quorum" in one or "groups have nodes" in one
            for one in messages(servers)
            if scheduler == "muster"
        )
    finally:
        kube_scheduler.kill()


@pytest.mark.parametrize("scheduler", ["default-scheduler", "muster"])
def test_both_schedulers_evict_pods_for_a_tree_and_for_members_that_belong_together(
    servers: KubeServers, muster: Running, scheduler: str
):
    path, name = "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "above"}}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    servers.api.create(path, kind | name | {"value": 9})
    kube_scheduler = servers.start_scheduler(podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    try:
        evict_for_a_tree(servers, scheduler)
        delete_all(servers)
        evict_for_members_that_belong_together(servers, scheduler)
    finally:
        kube_scheduler.kill()


def evict_for_a_tree(servers: KubeServers, scheduler: str) -> None:
    fill(servers, scheduler)
    groups = [Group("root", least=2), Group("a", "root", 2, 2), Group("b", "root", 2, 2)]
    for group in groups[1:]:
        create(servers, group, **ABOVE)
        create_members(servers, group, scheduler, **ABOVE)
    create(servers, groups[0], **ABOVE)
    until("four are ending", lambda: len(ending(servers)) == 4)
    end(servers)
    until("they start", lambda: running(servers) == {"low": 2, "a": 2, "b": 2})


def evict_for_members_that_belong_together(servers: KubeServers, scheduler: str) -> None:
    fill(servers, scheduler)
    where, group = nodes_of(servers.api), Group("g", least=3, pods=3)
    term = {"labelSelector": {"matchLabels": {"team": "g"}}, "topologyKey": HOST}
    rule = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    create(servers, group, **ABOVE)
    for number in range(group.pods):
        of = {"schedulingGroup": {"podGroupName": "g"}, "affinity": rule, **ABOVE}
        body = pod(f"g-{number}", group.cpu, scheduler, **of)
        body["metadata"]["labels"]["team"] = "g"
        servers.api.create(PODS, body).ok()
    until("three are ending", lambda: len(ending(servers)) == 3)
    assert len({where[name] for name in ending(servers)}) == 1
    end(servers)
    until("they start", lambda: running(servers) == {"low": 3, "g": 3})
    assert len(nodes_below(servers, "g-")) == 1


def fill(servers: KubeServers, scheduler: str) -> None:
    """Fill both nodes with six pods."""
    for number in range(6):
        servers.api.create(PODS, pod(f"low-{number}", "1", scheduler)).ok()
    until("both nodes are full", lambda: running(servers) == {"low": 6})


def end(servers: KubeServers) -> None:
    for name in ending(servers):
        servers.api.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0").ok()


def ending(servers: KubeServers) -> list[str]:
    """Return the pods that are being deleted, or are gone already."""
    found = {one["metadata"]["name"]: one for one in servers.api.get(PODS).ok()["items"]}
    names = [f"low-{number}" for number in range(6)]
    return [
        name
        for name in names
        if name not in found or "deletionTimestamp" in found[name]["metadata"]
    ]
