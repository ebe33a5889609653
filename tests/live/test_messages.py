"""What waiting pods say follows the cluster, though no node that changed could take them."""

from typing import Any

import pytest

from shared.testing.kube_server import KubeServers
from tests.live.world import PODS, create_nodes, muster_run, pod, until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
SOON = ("--set", "queueing.confirm_ms=1000", "--set", "binding.fresh_ms=1000")


def condition(servers: KubeServers, name: str) -> dict[str, Any]:
    found = servers.api.get(f"{PODS}/{name}").ok()["status"].get("conditions", [{}])
    assert isinstance(found, list)
    return dict(found[0])


def test_a_message_follows_the_cluster_and_its_time_shows_that_it_is_fresh(
    cluster: KubeServers, tmp_path
):
    create_nodes(cluster.api, ["node-a", "node-b", "node-c"], cpu=2)
    with muster_run(cluster.kubeconfig, tmp_path, *SOON) as muster:
        cluster.api.create(PODS, pod("large", cpu="3")).ok()
        until("it says why", lambda: bool(condition(cluster, "large").get("message")))
        first = condition(cluster, "large")
        assert first["message"].startswith("0/3 nodes are available: 3 Insufficient cpu.")
        until("it is said again", lambda: condition(cluster, "large") != first, 10)
        again = condition(cluster, "large")
        assert again["message"] == first["message"]
        assert again["lastProbeTime"] > first["lastProbeTime"]
        assert again["lastTransitionTime"] == first["lastTransitionTime"]
        # A node that could not take it before cannot take it now, for another reason.
        cordon = {"spec": {"unschedulable": True}}
        cluster.api.request("PATCH", "/api/v1/nodes/node-b", cordon).ok()
        begins = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
        until(begins, lambda: condition(cluster, "large")["message"].startswith(begins), 10)
        muster.stop()
