"""Beside kube-scheduler on the same nodes: each schedules its pods, and both see the other's."""

import pytest

from shared.testing.kube_objects import node
from shared.testing.kube_server import KubeServers
from tests.live.conftest import NewCluster
from tests.live.world import PODS, muster_run, nodes_of, over_full, pod, result_of, until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES, CORES = 10, 8


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster()
    for number in range(NODES):
        body = node(f"node-{number}", cpu=str(CORES), ready=True)
        servers.api.create("/api/v1/nodes", body).ok()
    servers.start_scheduler()
    return servers


def test_what_the_other_binds_takes_room_and_what_it_frees_is_used(servers: KubeServers, tmp_path):
    api = servers.api
    with muster_run(servers.kubeconfig, tmp_path, "-o", "json") as muster:
        for number in range(200):
            api.create(PODS, pod(f"ours-{number}", cpu="100m")).ok()
            theirs = pod(f"theirs-{number}", cpu="100m", scheduler="default-scheduler")
            api.create(PODS, theirs).ok()
        until("all bound", lambda: all(nodes_of(api).values()))
        # Half of the room is taken. What is left is theirs first, so ours must wait for it.
        for number in range(NODES):
            theirs = pod(f"wide-{number}", cpu="3900m", scheduler="default-scheduler")
            api.create(PODS, theirs).ok()
        until("theirs are bound", lambda: all(nodes_of(api).values()))
        api.create(PODS, pod("late", cpu="3")).ok()
        path = f"{PODS}/late"
        until("it waits", lambda: "conditions" in api.get(path).ok()["status"])
        assert nodes_of(api)["late"] == ""
        freed = nodes_of(api)["wide-3"]
        api.request("DELETE", f"{PODS}/wide-3?gracePeriodSeconds=0").ok()
        until("it takes the room", lambda: nodes_of(api)["late"] == freed)
        assert over_full(api) == []
        result = result_of(muster.stop())
    assert (result["bound"], result["pending"]) == (201, 0)
