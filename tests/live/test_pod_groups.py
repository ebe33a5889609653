"""PodGroups of a real API server of 1.37: gangs come whole, and the objects say so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    create_nodes(cluster.api, ["node-0", "node-1"], cpu=2)
    return cluster


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[Running]:
    """Run Muster; check the run and delete all pods afterwards."""
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
    case.check(tmp_path / "run")
    delete_pods(servers.api)


def create_group(
    servers: KubeServers, name: str, policy: dict[str, Any], **annotations: str
) -> None:
    """Create a group; annotations are named as in the product's docs, with _ for -."""
    named = {f"muster.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": named},
        "spec": {"schedulingPolicy": policy},
    }
    servers.api.create(GROUPS, group).ok()


def create_members(servers: KubeServers, group: str, *numbers: int, cpu: str = "1") -> None:
    for number in numbers:
        body = pod(f"{group}-{number}", cpu=cpu, schedulingGroup={"podGroupName": group})
        servers.api.create(PODS, body).ok()


def condition(servers: KubeServers, group: str) -> dict[str, Any]:
    """Return what the group's object says; empty before it says anything."""
    found = servers.api.get(f"{GROUPS}/{group}").ok().get("status", {}).get("conditions", [])
    one: dict[str, Any]
    (one,) = found or [{}]
    return one


def test_a_gang_comes_whole_and_its_group_says_so(servers: KubeServers, muster: Running):
    create_members(servers, "team", 0, 1)
    create_group(servers, "team", {"gang": {"minCount": 3}})
    servers.api.create(PODS, pod("other", cpu="1")).ok()
    until("the other is bound", lambda: bool(nodes_of(servers.api)["other"]))
    assert not any(nodes_of(servers.api)[f"team-{number}"] for number in range(2))
    create_members(servers, "team", 2)
    until("all are bound", lambda: all(nodes_of(servers.api).values()))
    until("it says so", lambda: condition(servers, "team").get("status") == "True")
    found = condition(servers, "team")
    assert (found["type"], found["reason"]) == ("PodGroupInitiallyScheduled", "Scheduled")


def test_a_gang_without_room_says_why_and_later_that_it_was_scheduled(
    servers: KubeServers, muster: Running
):
    api = servers.api
    create_group(servers, "large", {"gang": {"minCount": 3}})
    api.create(PODS, pod("blocker", cpu="2")).ok()
    until("the blocker is bound", lambda: bool(nodes_of(api)["blocker"]))
    create_members(servers, "large", 0, 1, 2)
    until("it says why", lambda: condition(servers, "large").get("status") == "False")
    found = condition(servers, "large")
    assert found["reason"] == "Unschedulable"
    assert "2 of 3 members have a node; 1 more: 2 Insufficient cpu" in found["message"]
    assert not any(nodes_of(api)[f"large-{number}"] for number in range(3))
    api.request("DELETE", f"{PODS}/blocker?gracePeriodSeconds=0").ok()
    until("all are bound", lambda: len(nodes_of(api)) == 3 and all(nodes_of(api).values()))
    until("it says so", lambda: condition(servers, "large").get("status") == "True")


def test_members_of_a_basic_group_come_one_by_one(servers: KubeServers, muster: Running):
    create_group(servers, "loose", {"basic": {}})
    create_members(servers, "loose", 0)
    until("it is bound", lambda: bool(nodes_of(servers.api)["loose-0"]))


def test_members_of_another_priority_than_their_group_are_not_tried(
    servers: KubeServers, muster: Running
):
    api = servers.api
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    api.create(CLASSES, high | {"metadata": {"name": "high"}}).ok()
    create_group(servers, "mixed", {"gang": {"minCount": 2}})
    create_members(servers, "mixed", 0)
    group = {"podGroupName": "mixed"}
    body = pod("mixed-1", cpu="1", schedulingGroup=group, priorityClassName="high")
    api.create(PODS, body).ok()
    until("it says why", lambda: condition(servers, "mixed").get("status") == "False")
    text = (
        "all pods in a single pod group should have the same priority as the pod group's priority,"
        " got 7 and 0"
    )
    found = condition(servers, "mixed")
    assert (found["reason"], found["message"]) == ("SchedulerError", text)
    names = "mixed-0", "mixed-1"
    until("so do the pods", lambda: all(why(servers, name) for name in names))
    assert [why(servers, name) for name in names] == [("SchedulerError", text)] * 2
    api.request("DELETE", f"{PODS}/mixed-1?gracePeriodSeconds=0").ok()
    create_members(servers, "mixed", 2)
    until("all are bound", lambda: len(nodes_of(api)) == 2 and all(nodes_of(api).values()))


@pytest.mark.parametrize("scheduler", ["default-scheduler", "muster"])
def test_a_group_with_disruption_mode_all_is_evicted_whole(
    servers: KubeServers, muster: Running, scheduler: str
):
    api = servers.api
    value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 9}
    api.create(CLASSES, value | {"metadata": {"name": f"above-{scheduler}"}})
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {"all": {}}}
    group = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "spec": spec}
    name = f"whole-{scheduler}"
    made = api.create(GROUPS, group | {"metadata": {"name": name}}).ok()
    assert made["spec"]["disruptionMode"] == {"all": {}}, "the API server has the gate"
    kube_scheduler = servers.start_scheduler(podInitialBackoffSeconds=1)
    try:
        for number in range(2):
            of = {"schedulingGroup": {"podGroupName": name}}
            api.create(PODS, pod(f"{name}-{number}", "2", scheduler, **of)).ok()
        until("both are bound", lambda: set(nodes_of(api).values()) == {"node-0", "node-1"})
        high = {"priorityClassName": f"above-{scheduler}"}
        api.create(PODS, pod("high", "2", scheduler, **high)).ok()
        names = [f"{name}-{number}" for number in range(2)]
        until("both leave", lambda: all(is_ending(servers, one) for one in names))
        delete_pods_now(servers, names)
        until("its node is free", lambda: bool(nodes_of(api)["high"]))
    finally:
        kube_scheduler.kill()


def test_a_gang_that_is_made_anew_starts_whole(servers: KubeServers, muster: Running):
    api = servers.api
    create_group(servers, "anew", {"gang": {"minCount": 2}})
    create_members(servers, "anew", 0, 1, cpu="2")
    until("both are bound", lambda: set(nodes_of(api).values()) == {"node-0", "node-1"})
    for number in range(2):
        api.request("DELETE", f"{PODS}/anew-{number}").ok()  # within a grace period
    api.create(PODS, pod("other", cpu="2")).ok()
    delete_pods_now(servers, ["anew-0", "anew-1"])
    until("the other is bound", lambda: bool(nodes_of(api)["other"]))
    create_members(servers, "anew", 2, 3, cpu="2")
    until("they say why", lambda: why(servers, "anew-2") is not None)
    assert nodes_of(api)["anew-2"] == nodes_of(api)["anew-3"] == ""
    api.request("DELETE", f"{PODS}/other?gracePeriodSeconds=0").ok()
    until("both are bound", lambda: all(nodes_of(api)[f"anew-{number}"] for number in (2, 3)))


def test_a_member_that_finished_is_not_waited_for(servers: KubeServers, muster: Running):
    api = servers.api
    create_group(servers, "ends", {"gang": {"minCount": 2}})
    create_members(servers, "ends", 0, 1)
    until("both are bound", lambda: all(nodes_of(api).values()))
    phase = {"status": {"phase": "Succeeded"}}
    api.request("PATCH", f"{PODS}/ends-0/status", phase).ok()
    api.request("DELETE", f"{PODS}/ends-1").ok()
    delete_pods_now(servers, ["ends-1"])
    create_members(servers, "ends", 2)
    until("the replacement is bound", lambda: bool(nodes_of(api)["ends-2"]))


def test_what_is_left_of_a_gang_is_evicted_if_its_group_says_so(
    servers: KubeServers, muster: Running
):
    api = servers.api
    rule = {"below_minimum": "evict", "below_minimum_grace": "2s"}
    create_group(servers, "half", {"gang": {"minCount": 2}}, **rule)
    create_members(servers, "half", 0, 1)
    until("both are bound", lambda: all(nodes_of(api).values()))
    api.request("DELETE", f"{PODS}/half-0").ok()
    delete_pods_now(servers, ["half-0"])
    until("the other leaves", lambda: is_ending(servers, "half-1"))


def test_pods_with_a_minimum_run_time_are_no_victims_before(servers: KubeServers, muster: Running):
    api = servers.api
    value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 9}
    api.create(CLASSES, value | {"metadata": {"name": "above"}})
    create_group(servers, "new", {"gang": {"minCount": 2}}, minimum_run_time="8s")
    create_members(servers, "new", 0, 1, cpu="2")
    until("both are bound", lambda: all(nodes_of(api).values()))
    api.create(PODS, pod("high", cpu="2", priorityClassName="above")).ok()
    until("it says why", lambda: "minimum run time" in (why(servers, "high") or ("", ""))[1])
    names = ["new-0", "new-1"]
    assert not any(is_ending(servers, one) for one in names)
    until("one leaves later", lambda: any(is_ending(servers, one) for one in names))
    delete_pods_now(servers, [one for one in names if is_ending(servers, one)])
    until("its node is free", lambda: bool(nodes_of(api)["high"]))


def test_the_place_of_a_lost_member_is_kept_for_a_while(servers: KubeServers, muster: Running):
    api = servers.api
    create_group(servers, "kept", {"gang": {"minCount": 1}}, replacement_hold="3s")
    create_members(servers, "kept", 0, 1, cpu="2")
    until("both are bound", lambda: all(nodes_of(api).values()))
    place = nodes_of(api)["kept-0"]
    api.request("PATCH", f"{PODS}/kept-0/status", {"status": {"phase": "Failed"}}).ok()
    api.create(PODS, pod("other", cpu="2")).ok()
    until("the other waits", lambda: why(servers, "other") is not None)
    create_members(servers, "kept", 2, cpu="2")
    until("the replacement is bound", lambda: nodes_of(api)["kept-2"] == place)
    delete_pods_now(servers, ["kept-1"])
    until("the time is over", lambda: bool(nodes_of(api)["other"]))


def is_ending(servers: KubeServers, name: str) -> bool:
    """Return whether the pod is being deleted, or is gone."""
    found = servers.api.get(f"{PODS}/{name}")
    return found.status == 404 or "deletionTimestamp" in found.ok()["metadata"]


def delete_pods_now(servers: KubeServers, names: list[str]) -> None:
    """End pods at once, as a kubelet does."""
    for name in names:
        servers.api.request("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


def why(servers: KubeServers, name: str) -> tuple[str, str] | None:
    """Return reason and message of the pod's condition, if it has one."""
    found = servers.api.get(f"{PODS}/{name}").ok()["status"].get("conditions", [])
    return next((one["reason"], one["message"]) for one in found) if found else None
