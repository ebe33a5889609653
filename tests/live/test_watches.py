"""Watches that end every second, of a server that soon forgets: what was missed is listed again."""

from collections import Counter
from pathlib import Path

import pytest

from shared.testing.etcd_history import EtcdHistory
from shared.testing.kube_credentials import ADMIN
from shared.testing.kube_options import KubeOptions
from shared.testing.kube_proxy import Fault, Kind, KubeProxy
from shared.testing.kube_proxy_thread import proxy_thread
from tests.live.case import Case
from tests.live.conftest import NewCluster
from tests.live.world import PODS, create_nodes, delete_pods, muster_run, nodes_of, pod, until

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
NODES, ROUNDS_MIN = 10, 4
GONE = 410
GONE_MIN, SHORT_MIN, STILL_OPEN_MAX = 3, 10, 4


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
