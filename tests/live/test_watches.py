"""Watches that end every second, of a server that soon forgets: what was missed is listed again.
And watches that a killed run had: the next one is told nothing that the first was told.
"""

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.live.case import Case
from tests.live.checker import journals
from tests.live.conftest import NewCluster
from tests.live.world import (
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
"""What would be told again comes with the first watches; so long after a bind nothing does."""
GOES = "goes"


def have_ended(proxy: KubeProxy) -> bool:
    """Whether the server ended enough watches: with 410 in mid-stream, and for their age."""
    ends = Counter(passed.ended_with for passed in proxy.happened(Kind.SHORT))
    return ends[GONE] >= GONE_MIN and ends[None] - STILL_OPEN_MAX >= SHORT_MIN


def test_short_watches_of_a_server_that_soon_forgets(new_cluster: NewCluster, tmp_path: Path):
    """Each round fills every node, so that a round whose deletes are missed would be the last."""
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
    """The world journal of a run, as far as it is written."""
    return journals.of_file(folder / "run" / "journals.db").get("ingest/0", [])


def nodes_set(entries: list[journals.Entry]) -> list[tuple[str, bool]]:
    """What they tell of nodes: name, and whether nothing more may come to it."""
    found = [node for one in entries for event in one.of("nodes_set") for node in event["nodes"]]
    return [(node["name"], node.get("unschedulable", False)) for node in found]


def kill_beyond(servers: KubeServers, folder: Path, muster: Running, name: str) -> bool:
    """Make a node that is cordoned soon, and one that goes soon; kill the run as soon as it has
    recorded that. Whether its joint revision was older than all of it.
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


def test_a_run_that_was_killed_is_told_nothing_again(new_cluster: NewCluster, tmp_path: Path):
    """A cordon and a node that went, which the run had recorded, but its joint revision had not."""
    servers = new_cluster()
    create_nodes(servers.api, ["node-a"])
    tries = 0
    is_beyond = False
    while not is_beyond:
        tries += 1
        with muster_run(servers.kubeconfig, tmp_path) as muster:
            servers.api.create(PODS, pod(f"before-{tries}")).ok()
            until("it is bound", lambda: all(nodes_of(servers.api).values()))
            is_beyond = kill_beyond(servers, tmp_path, muster, f"new-{tries}")
    killed = len(world(tmp_path))
    with muster_run(servers.kubeconfig, tmp_path) as muster:
        servers.api.create(PODS, pod("after")).ok()
        until("it is bound", lambda: all(nodes_of(servers.api).values()))
        time.sleep(AGAIN_S)
        assert nodes_set(world(tmp_path)[killed:]) == []
        muster.stop()
    assert nodes_of(servers.api)["after"] == "node-a"
