"""Pod groups that need one rack each, on a real API server of 1.37 with its gates."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

from loadtest.cluster.contestants import Contestant
from loadtest.cluster.load import PODS, Load, node_name, pod_names
from loadtest.cluster.measure import Figures, Sizes, of_each
from loadtest.cluster.throughput import bare_backlog, beside_bare, bind_all
from muster.flood.targets.live_pods import pods_of
from shared.model.release import V1_37
from tests.support.builders import make_node, make_pod
from tests.support.kube_options import LOAD_TEST
from tests.support.kube_server import KubeServers

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
GATES = ("GenericWorkload=true", "TopologyAwareWorkloadScheduling=true")
OPTIONS = replace(LOAD_TEST, version=V1_37, feature_gates=GATES)
RACK, GPU = "example.com/rack", "nvidia.com/gpu"
GROUPS_MAX, MEMBERS, RACKS_MAX, GPUS = 200, 32, 40, 8
LIMIT_S = 1_200.0
"""kube-scheduler tries each group in each rack: it binds 15 to 40 pods/s."""


def groups(sizes: Sizes) -> Figures:
    """Measure from the first to the last bind; a group in two racks makes the figure void."""
    racks = max(1, min(RACKS_MAX, sizes.nodes * GPUS // MEMBERS))
    count = max(1, min(GROUPS_MAX, sizes.pods // MEMBERS))
    node = partial(_node, nodes=sizes.nodes, racks=racks)
    sizes = replace(sizes, pods=count * MEMBERS, node=node, options=OPTIONS)
    return beside_bare(sizes, bare_backlog, of_each(sizes, _bind_groups))


def _node(number: int, nodes: int, racks: int) -> dict[str, Any]:
    builder = make_node(node_name(number)).hostname().labels({RACK: _rack(number, nodes, racks)})
    return builder.capacity("64", "512Gi", "110", **{GPU: str(GPUS)}).ready().obj()


def _rack(number: int, nodes: int, racks: int) -> str:
    return f"rack-{number * racks // nodes:02}"


async def _bind_groups(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
    names: list[str] = []
    for number in range(sizes.pods // MEMBERS):
        group = f"group-{number:03}"
        await load.create(GROUPS, _group(group))
        members = pod_names(MEMBERS, group)
        await load.create_pods(members, one.scheduler, rules=_rules(group))
        names += members
    figures = await bind_all(servers, load, one, names, LIMIT_S)
    void = len(await _group_racks(load, sizes)) != sizes.pods // MEMBERS
    return [figure | {"void": figure["void"] or void} for figure in figures]


def _group(name: str) -> bytes:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": MEMBERS}},
        "schedulingConstraints": {"topology": [{"key": RACK}]},
    }
    version = "scheduling.k8s.io/v1beta1"
    group = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    return json.dumps(group).encode()


def _rules(group: str) -> dict[str, Any]:
    """Return the fields of a member's spec: one GPU, and its group."""
    amounts = {"requests": {GPU: "1", "cpu": "1"}, "limits": {GPU: "1"}}
    member = make_pod("NAME").container(resources=amounts)
    return {**member.obj()["spec"], "schedulingGroup": {"podGroupName": group}}


async def _group_racks(load: Load, sizes: Sizes) -> set[tuple[str, str]]:
    """Return the pairs of a group and a rack in which it has pods."""
    racks = {node_name(n): sizes.node(n)["metadata"]["labels"][RACK] for n in range(sizes.nodes)}
    pods = pods_of(await load.client.get(PODS)).items
    return {
        (pod.metadata.name.rpartition("-")[0], racks[pod.spec.nodeName])
        for pod in pods
        if pod.spec.nodeName
    }
