"""Messages for people: why pods wait, kept up to date, and where they went, once."""

from collections import Counter
from typing import Any

import pytest

from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.support.kube_credentials import ADMIN
from tests.support.kube_proxy import Fault, Kind
from tests.support.kube_proxy_thread import proxy_thread
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
BINDS, DROPPED, MANY = 30, 20, 200
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
        until("it is said again", lambda: condition(cluster, "large") != first)
        again = condition(cluster, "large")
        assert again["message"] == first["message"]
        assert again["lastProbeTime"] > first["lastProbeTime"]
        assert again["lastTransitionTime"] == first["lastTransitionTime"]
        # A node that could not take it before cannot take it now, for another reason.
        cordon = {"spec": {"unschedulable": True}}
        cluster.api.request("PATCH", "/api/v1/nodes/node-b", cordon).ok()
        begins = "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu."
        until(begins, lambda: condition(cluster, "large")["message"].startswith(begins))
        muster.stop()


def test_every_bind_gets_one_event(cluster: KubeServers, tmp_path):
    """Answers that are lost: most of these binds are known from the watch alone."""
    api = cluster.api
    create_nodes(api, ["node-d"], cpu=8)
    with proxy_thread(cluster.at) as proxy:
        config = cluster.write_kubeconfig(tmp_path / "config", ADMIN, url=proxy.proxy.url)
        proxy.add(Fault(kind=Kind.DROP_ANSWER, method="POST", path="/binding$", times=DROPPED))
        with muster_run(config, tmp_path) as muster:
            for number in range(BINDS):
                api.create(PODS, pod(f"told-{number}", cpu="50m")).ok()
            names = {f"told-{number}" for number in range(BINDS)}

            def events_by_pod() -> Counter[str]:
                path = "/api/v1/namespaces/default/events?fieldSelector=reason%3DScheduled"
                found = (event["involvedObject"]["name"] for event in api.items(path))
                return Counter(name for name in found if name in names)

            until("all have events", lambda: set(events_by_pod()) == names)
            assert set(events_by_pod().values()) == {1}
            muster.stop()
        assert len(proxy.proxy.happened(Kind.DROP_ANSWER)) == DROPPED


def test_pods_bound_before_a_kill_get_one_event_after_it(cluster: KubeServers, tmp_path):
    """No event gets through, and some binds have no answer."""
    api = cluster.api
    create_nodes(api, ["node-e", "node-f"], cpu=16)
    names = {f"killed-{number}" for number in range(MANY)}

    def events_by_pod() -> Counter[str]:
        path = "/api/v1/namespaces/default/events?fieldSelector=reason%3DScheduled"
        found = (event["involvedObject"]["name"] for event in api.items(path))
        return Counter(name for name in found if name in names)

    with proxy_thread(cluster.at) as proxy:
        config = cluster.write_kubeconfig(tmp_path / "config", ADMIN, url=proxy.proxy.url)
        proxy.add(Fault(kind=Kind.DROP_ANSWER, method="POST", path="/binding$", times=DROPPED))
        # The sender of events waits, also when it tries again.
        proxy.add(Fault(kind=Kind.HOLD, method="POST", path="/events$", times=MANY))
        for name in sorted(names):
            api.create(PODS, pod(name, cpu="50m")).ok()
        with muster_run(config, tmp_path) as muster:
            until("all bound", lambda: all(nodes_of(api)[name] for name in names))
            muster.kill()
        assert len(proxy.proxy.happened(Kind.DROP_ANSWER)) == DROPPED
        assert proxy.proxy.happened(Kind.HOLD)
    assert len(events_by_pod()) < MANY, "nothing was lost: this shows nothing"
    with muster_run(cluster.kubeconfig, tmp_path) as muster:
        until("all have events", lambda: set(events_by_pod()) == names)
        assert set(events_by_pod().values()) == {1}
        muster.stop()
