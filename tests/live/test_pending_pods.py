"""Every pending pod has a message: members of gangs that were never tried or are not tried any
more, and pods that are refused, get one and have it refreshed.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from shared.model.release import V1_35
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
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
WORKLOADS = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default/workloads"
SOON = ("--set", "queueing.confirm_ms=2000", "--set", "binding.fresh_ms=1000")
REF = {"name": "team", "podGroup": "all"}
NO_WORKLOAD = 'waiting for pods\'s workload "team" to appear in scheduling queue'
NO_GROUP = 'pod group "all" doesn\'t exist for a workload "team"'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
FULL = "2 Insufficient cpu."
SHORT = f"gang default/team/all: 4 of 5 members have a node; 1 more: {FULL}"
TIMED_OUT = f"gang default/team/all timed out after 3 s: 2 of 3 members have a node; 1 more: {FULL}"


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions(version=V1_35, storage_json=True))
    create_nodes(servers.api, ["node-a", "node-b"], cpu=2)
    return servers


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path) -> Iterator[Running]:
    with muster_run(servers.kubeconfig, tmp_path, *SOON) as running:
        yield running
        case.check(tmp_path / "run")
        running.stop()
    delete_pods(servers.api)


def said(servers: KubeServers, *names: str) -> list[dict[str, Any]]:
    """Return the pods' conditions."""
    found = [servers.api.get(f"{PODS}/{name}").ok()["status"] for name in names]
    return [dict((one.get("conditions") or [{}])[0]) for one in found]


def messages(servers: KubeServers, *names: str) -> list[str]:
    return [one.get("message", "") for one in said(servers, *names)]


def say(servers: KubeServers, message: str, *names: str) -> None:
    """Wait until all of them have the message, and then until they have it again."""
    until(message, lambda: messages(servers, *names) == [message] * len(names))
    first = said(servers, *names)
    assert {(one["status"], one["reason"]) for one in first} == {("False", "Unschedulable")}

    def is_again() -> bool:
        pairs = zip(first, said(servers, *names), strict=True)
        return all(now["lastProbeTime"] > before["lastProbeTime"] for before, now in pairs)

    until(f"{message} again", is_again)
    assert messages(servers, *names) == [message] * len(names)


def workload(min_count: int, group: str = "all", timeout: str = "5m") -> dict[str, Any]:
    policy = {"gang": {"minCount": min_count}}
    notes = {"muster.io/gang-timeout": timeout}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "team", "annotations": notes},
        "spec": {"podGroups": [{"name": group, "policy": policy}]},
    }


def test_members_report_what_their_gang_waits_for(
    servers: KubeServers, muster: Running, case: Case
):
    api = servers.api
    names = [f"member-{number}" for number in range(5)]
    for name in names[:2]:
        api.create(PODS, pod(name, cpu="900m", workloadRef=REF)).ok()
    say(servers, NO_WORKLOAD, *names[:2])
    api.create(WORKLOADS, workload(5, "others")).ok()
    say(servers, NO_GROUP, *names[:2])
    api.request("DELETE", f"{WORKLOADS}/team").ok()
    api.create(WORKLOADS, workload(5)).ok()
    say(servers, TOO_FEW, *names[:2])
    api.create(PODS, pod(names[2], cpu="900m", workloadRef=REF)).ok()
    say(servers, TOO_FEW, *names[:3])
    # Four of them fit, and one does not: none of them is bound.
    for name in names[3:]:
        api.create(PODS, pod(name, cpu="900m", workloadRef=REF)).ok()
    until(SHORT, lambda: messages(servers, *names) == [SHORT] * 5)
    api.request("DELETE", f"{PODS}/{names[4]}?gracePeriodSeconds=0").ok()
    say(servers, TOO_FEW, *names[:4])
    api.request("DELETE", f"{WORKLOADS}/team").ok()
    say(servers, NO_WORKLOAD, *names[:4])


def test_a_gang_that_is_whole_within_a_moment_costs_no_message(
    servers: KubeServers, muster: Running
):
    api = servers.api
    api.create(WORKLOADS, workload(3)).ok()
    for number in range(3):
        api.create(PODS, pod(f"quick-{number}", workloadRef=REF)).ok()
    names = [f"quick-{number}" for number in range(3)]
    until("all bound", lambda: all(one.get("status") == "True" for one in said(servers, *names)))
    api.request("DELETE", f"{WORKLOADS}/team").ok()
    time.sleep(1.5)
    assert all(one.get("status") == "True" for one in said(servers, *names))


def test_a_gang_after_its_permit_timeout_holds_nothing(
    servers: KubeServers, muster: Running, case: Case, tmp_path
):
    """Two of the three would fit. Their message reports the timeout, and other pods take their
    room.
    """
    api = servers.api
    api.create(WORKLOADS, workload(3, timeout="3s")).ok()
    names = [f"slow-{number}" for number in range(3)]
    for name in names:
        api.create(PODS, pod(name, cpu="2", workloadRef=REF)).ok()
    until(TIMED_OUT, lambda: all(TIMED_OUT in ever_said(case, name) for name in names))
    permitted = journals.of_file(tmp_path / "run" / "journals.db")["permit/0"]
    assert any(entry.of("gang_timed_out") for entry in permitted)
    assert not any(nodes_of(api).values())
    for number in range(2):
        api.create(PODS, pod(f"other-{number}", cpu="2")).ok()
    others = ("other-0", "other-1")
    until("the room is taken", lambda: all(nodes_of(api)[name] for name in others))
    assert not any(nodes_of(api)[name] for name in names)
    api.request("DELETE", f"{WORKLOADS}/team").ok()
    say(servers, NO_WORKLOAD, *names)


def ever_said(case: Case, name: str) -> set[str]:
    """Return every message that a pod's condition has had."""
    case.history.settle()
    stored = [one.value for one in case.history.changes(f"/registry/pods/default/{name}")]
    return {
        condition.get("message", "")
        for value in stored
        if value is not None
        for condition in value["status"].get("conditions") or ()
    }
