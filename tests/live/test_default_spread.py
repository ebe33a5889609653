"""A Deployment without spread constraints is spread by its Service and ReplicaSet."""

from collections import Counter
from typing import Any

import pytest

from muster.explain.scoring import score_case
from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.support.kube_objects import deployment
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
KINDS = {
    "/api/v1/nodes": ("v1", "Node"),
    "/api/v1/services": ("v1", "Service"),
    "/apis/apps/v1/replicasets": ("apps/v1", "ReplicaSet"),
    PODS: ("v1", "Pod"),
}
FIRST = 6


def world(cluster: KubeServers) -> list[dict[str, Any]]:
    """Return all objects that decide, as the API shows them now."""
    return [
        {"apiVersion": version, "kind": kind, **one}
        for path, (version, kind) in KINDS.items()
        for one in cluster.api.items(path)
    ]


def test_a_deployment_is_spread_as_muster_score_says(cluster: KubeServers, tmp_path):
    api = cluster.api
    create_nodes(api, ["node-a", "node-b", "node-c"])
    # Without spreading none of six would go to this node: the others are always emptier.
    api.create(PODS, pod("ballast", cpu="1", nodeName="node-a")).ok()
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    ports = [{"port": 80}]
    api.create(
        "/api/v1/namespaces/default/services",
        {**service, "spec": {"selector": {"app": "web"}, "ports": ports}},
    ).ok()
    cluster.start_controller_manager()

    def placed() -> dict[str, str]:
        return {name: at for name, at in nodes_of(api).items() if name != "ballast"}

    def until_bound(count: int) -> None:
        until(
            f"{count} are bound", lambda: [bool(at) for at in placed().values()] == [True] * count
        )

    body = deployment("web", FIRST, cpu="100m", memory="32Mi", schedulerName="muster")
    with muster_run(cluster.kubeconfig, tmp_path, "-o", "json") as muster:
        api.create(DEPLOYMENTS, body).ok()
        until_bound(FIRST)
        assert sorted(Counter(placed().values()).values()) == [2, 2, 2]
        before = world(cluster)
        api.request("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": FIRST + 1}}).ok()
        until_bound(FIRST + 1)
        muster.stop()
    known = {one["metadata"]["name"] for one in before}
    (name,) = placed().keys() - known
    asked = {"apiVersion": "v1", "kind": "Pod", **api.get(f"{PODS}/{name}").ok()}
    del asked["spec"]["nodeName"]
    (answer,) = score_case({"objects": before, "pods": [asked]})["pods"]
    assert placed()[name] in answer["best"]
    (spread,) = {node["scores"]["PodTopologySpread"] for node in answer["nodes"].values()}
    assert spread, "six pods of the Deployment are counted, two on each node"
