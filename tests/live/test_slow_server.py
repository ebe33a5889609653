"""A server that answers late and refuses nothing gets as many requests as before."""

import time

import pytest

from tests.live.support.objects import (
    PODS,
    create_nodes,
    here,
    muster_run,
    nodes_of,
    pod,
    result_of,
    until,
)
from tests.support.kube_credentials import ADMIN
from tests.support.kube_proxy import Fault, Kind
from tests.support.kube_proxy_thread import proxy_thread
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
MANY, ANSWER_S, PROMISED_S = 300, 5.0, 30.0
BUT_WATCHES = r"^(?!.*watch=)"


def test_an_answer_after_five_seconds_is_not_overload(cluster: KubeServers, tmp_path):
    """What came before was fast: to be as slow as this looks like a server with a queue."""
    api = cluster.api
    create_nodes(api, ["node-a", "node-b", "node-c"], cpu=16)
    names = [f"late-{number}" for number in range(MANY)]
    with proxy_thread(cluster.at) as proxy:
        config = cluster.write_kubeconfig(tmp_path / "config", ADMIN, url=proxy.proxy.url)
        with muster_run(config, tmp_path, "-o", "json") as muster:
            for number in range(5):
                api.create(PODS, pod(f"soon-{number}", cpu="50m")).ok()
            until("it schedules", lambda: all(nodes_of(api).values()))
            slow = [
                proxy.add(
                    Fault(
                        kind=Kind.SLOW,
                        method=method,
                        path=BUT_WATCHES,
                        times=100_000,
                        delay_s=ANSWER_S,
                    )
                )
                for method in ("GET", "POST", "PUT", "PATCH")
            ]
            for name in names:
                api.create(PODS, pod(name, cpu="50m")).ok()
            began_s = time.monotonic()
            limit_s = here(PROMISED_S)
            until("all bound", lambda: all(nodes_of(api)[name] for name in names), limit_s)
            print(f"{MANY} pods: {time.monotonic() - began_s:.1f} s after the last was made")
            for fault in slow:
                proxy.over(fault)
            result = result_of(muster.stop())
        binds = [one for one in proxy.proxy.log if one.path.endswith("/binding")]
    assert len(binds) == MANY + 5, "each was asked for once"
    assert result["busy"] == result["unknown"] == 0
