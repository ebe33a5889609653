"""Watches that end every second, on a server that soon forgets: missed changes are listed again.
And watches of a killed run: the next run does not see the same changes again.
"""

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.live.checker import journals
from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    Running,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.support.etcd_history import EtcdHistory
from tests.support.kube_credentials import ADMIN
from tests.support.kube_options import KubeOptions
from tests.support.kube_proxy import Fault, Kind, KubeProxy
from tests.support.kube_proxy_thread import proxy_thread
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES, ROUNDS_MIN = 10, 4
GONE = 410
GONE_MIN, SHORT_MIN, STILL_OPEN_MAX = 3, 10, 4
AGAIN_S = 3.0
"""Repeated changes would come with the first watches; this long after a bind none does."""
GOES = "goes"


def have_ended(proxy: KubeProxy) -> bool:
    """Return whether the server ended enough watches: with 410 in mid-stream, and for their age."""
    ends = Counter(passed.ended_with for passed in proxy.happened(Kind.SHORT))
    return ends[GONE] >= GONE_MIN and ends[None] - STILL_OPEN_MAX >= SHORT_MIN


def test_short_watches_with_frequent_compaction(new_cluster: NewCluster, tmp_path: Path):
    """Each round fills every node, so a round whose deletes are missed would be the last."""
    options = KubeOptions(storage_json=True, watch_cache=False, etcd_compaction_interval_s=1)
    servers = new_cluster(options)
    api = servers.api
    create_nodes(api, [f"node-{number}" for number in range(NODES)], cpu=2)
    with EtcdHistory(servers.at.etcd_url) as history, proxy_thread(servers.at) as proxy:
        case = Case(servers, history)
        config = servers.write_kubeconfig(tmp_path / "config", ADMIN, url=proxy.proxy.url)
        proxy.add(Fault(kind=Kind.SHORT, path="watch=1", times=10_000, delay_s=1))
        bound = 0
        with muster_run(config, tmp_path) as muster:
            while bound < ROUNDS_MIN * NODES or not have_ended(proxy.proxy):
                for number in range(NODES):
                    api.create(PODS, pod(f"pod-{bound + number}", cpu="2")).ok()
                until("all bound", lambda: all(nodes_of(api).values()))
                bound += NODES
                delete_pods(api)
            muster.stop()
        assert have_ended(proxy.proxy)
        verdict = case.check(tmp_path / "run")
    assert (verdict.bound, verdict.races) == (bound, [])


def world(folder: Path) -> list[journals.Entry]:
    """Return the world journal of a run so far."""
    return journals.of_file(folder / "run" / "journals.db").get("ingest/0", [])


def nodes_set(entries: list[journals.Entry]) -> list[tuple[str, bool]]:
    """Return the nodes' names and whether they are cordoned."""
    found = [node for one in entries for event in one.of("nodes_set") for node in event["nodes"]]
    return [(node["name"], node.get("unschedulable", False)) for node in found]


def kill_beyond(servers: KubeServers, folder: Path, muster: Running, name: str) -> bool:
    """Create a node that is soon cordoned, and one that is soon deleted; kill the run as soon as it
    has recorded that. Return whether its joint revision was older than all of it.
    """
    create_nodes(servers.api, [name, GOES])
    first = int(servers.api.get(f"/api/v1/nodes/{name}").ok()["metadata"]["resourceVersion"])
    servers.kubectl("cordon", name)
    servers.kubectl("delete", "node", GOES)

    def is_recorded() -> bool:
        told = dict(nodes_set(world(folder)))
        return GOES in told and told.get(name, False)

    until("it is recorded", is_recorded)
    muster.kill()
    advanced = [event for one in world(folder) for event in one.of("source_advanced")]
    return bool(advanced) and advanced[-1]["revision"] < first


def test_a_killed_run_does_not_see_old_changes_again(cluster: KubeServers, tmp_path: Path):
    """A cordon and a deleted node, both recorded by the run, but not covered by its
    joint revision.
    """
    create_nodes(cluster.api, ["node-a"])
    tries = 0
    is_beyond = False
    while not is_beyond:
        tries += 1
        with muster_run(cluster.kubeconfig, tmp_path) as muster:
            cluster.api.create(PODS, pod(f"before-{tries}")).ok()
            until("it is bound", lambda: all(nodes_of(cluster.api).values()))
            is_beyond = kill_beyond(cluster, tmp_path, muster, f"new-{tries}")
    killed = len(world(tmp_path))
    with muster_run(cluster.kubeconfig, tmp_path) as muster:
        cluster.api.create(PODS, pod("after")).ok()
        until("it is bound", lambda: all(nodes_of(cluster.api).values()))
        time.sleep(AGAIN_S)
        assert nodes_set(world(tmp_path)[killed:]) == []
        muster.stop()
    assert nodes_of(cluster.api)["after"] == "node-a"
