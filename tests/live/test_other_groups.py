"""Pod groups of other schedulers on a real API server of 1.37, without those schedulers' programs:
gangs start whole, and what their controllers wrote stays.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.case import Case
from tests.live.support.objects import (
    PODS,
    ROOT,
    Running,
    create_nodes,
    delete_pods,
    muster_run,
    nodes_of,
    pod,
    until,
)
from tests.support.kube_api import KubeApi
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
CRDS = ROOT / "tests" / "live" / "support" / "group_crds.yaml"
MERGE = "application/merge-patch+json"
VOLCANO, VOLCANO_JOB = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"
COSCHEDULING = "scheduling.x-k8s.io/v1alpha1"
Names = Callable[[str], dict[str, Any]]


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    servers = new_cluster(KubeOptions(storage_json=True))
    servers.kubectl("apply", "-f", str(CRDS))
    servers.wait_for_crds()
    create_nodes(servers.api, ["node-0", "node-1"], cpu=2)
    return servers


@pytest.fixture
def muster(servers: KubeServers, case: Case, tmp_path: Path) -> Iterator[Running]:
    """Run Muster; check the run and delete all pods afterwards."""
    with muster_run(servers.kubeconfig, tmp_path) as running:
        yield running
    case.check(tmp_path / "run")
    delete_pods(servers.api)


def groups_path(version: str) -> str:
    return f"/apis/{version}/namespaces/default/podgroups"


def create_group(api: KubeApi, version: str, name: str, owner: Any = None, **spec: Any) -> None:
    owners = [owner] if owner else []
    metadata = {"name": name, "ownerReferences": owners}
    meta = {"apiVersion": version, "kind": "PodGroup", "metadata": metadata}
    api.create(groups_path(version), {**meta, "spec": spec}).ok()


def write_status(api: KubeApi, version: str, name: str, **status: Any) -> None:
    """Write status fields as another controller does."""
    path = f"{groups_path(version)}/{name}/status"
    api.request("PATCH", path, {"status": status}, content_type=MERGE).ok()


def status_of(api: KubeApi, version: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{groups_path(version)}/{name}").ok().get("status", {})
    return found


def coscheduling(group: str) -> dict[str, Any]:
    return {"labels": {"scheduling.x-k8s.io/pod-group": group}}


def volcano(group: str) -> dict[str, Any]:
    return {"annotations": {"scheduling.k8s.io/group-name": group}}


def worker(group: str) -> dict[str, Any]:
    return {**volcano(group), "labels": {"volcano.sh/task-spec": "worker"}}


def kueue(group: str) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/pod-group-name": group}
    return {"labels": labels, "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"}}


def admit(api: KubeApi, group: str, number: int) -> None:
    """Remove the gate of Kueue from a member."""
    path = f"{PODS}/{group}-{number}"
    api.request("PATCH", path, {"spec": {"schedulingGates": None}}, content_type=MERGE).ok()


def create_members(api: KubeApi, group: str, names: Names, *numbers: int, **more: Any) -> None:
    """Create members of a group, as `names` names it in their metadata."""
    for number in numbers:
        body = pod(f"{group}-{number}", cpu="1", **more)
        for field, values in names(group).items():
            body["metadata"][field] = {**body["metadata"].get(field, {}), **values}
        api.create(PODS, body).ok()


def bound(api: KubeApi, group: str) -> int:
    """Return how many members have a node."""
    return sum(bool(node) for name, node in nodes_of(api).items() if name.startswith(f"{group}-"))


def check_waits_and_comes_whole(api: KubeApi, group: str, names: Names) -> None:
    """Check a group of at least three."""
    create_members(api, group, names, 0, 1)
    api.create(PODS, pod("single", cpu="1")).ok()
    until("the single pod is bound", lambda: bool(nodes_of(api)["single"]))
    assert bound(api, group) == 0
    create_members(api, group, names, 2)
    until("all are bound", lambda: bound(api, group) == 3)


def check_one_of_two_comes_whole(api: KubeApi, groups: list[str], names: Names) -> None:
    """Check two groups of at least three, for which there is room for three."""
    api.create(PODS, pod("single", cpu="1")).ok()
    until("the single pod is bound", lambda: bool(nodes_of(api)["single"]))
    for number in range(3):
        for group in groups:
            create_members(api, group, names, number)
    until("one is bound", lambda: 3 in [bound(api, group) for group in groups])
    assert sorted(bound(api, group) for group in groups) == [0, 3]


def test_a_group_of_coscheduling_comes_whole(servers: KubeServers, muster: Running):
    api, status = servers.api, {"phase": "Pending", "occupiedBy": "default/job", "running": 0}
    create_group(api, COSCHEDULING, "team", minMember=3, scheduleTimeoutSeconds=60)
    write_status(api, COSCHEDULING, "team", **status)
    check_waits_and_comes_whole(api, "team", coscheduling)
    assert status_of(api, COSCHEDULING, "team") == status


def test_of_two_groups_of_coscheduling_one_comes_whole(servers: KubeServers, muster: Running):
    for name in ("one", "two"):
        create_group(servers.api, COSCHEDULING, name, minMember=3)
    check_one_of_two_comes_whole(servers.api, ["one", "two"], coscheduling)


def create_volcano_job(api: KubeApi, name: str, scheduler: str) -> dict[str, Any]:
    """Create a Job without pods; return the reference of its group to it."""
    meta = {"apiVersion": VOLCANO_JOB, "kind": "Job", "metadata": {"name": name}}
    path = f"/apis/{VOLCANO_JOB}/namespaces/default/jobs"
    uid = api.create(path, {**meta, "spec": {"schedulerName": scheduler}}).ok()["metadata"]["uid"]
    kind = {"apiVersion": VOLCANO_JOB, "kind": "Job", "controller": True}
    return {**kind, "name": name, "uid": uid}


def test_the_group_of_a_volcano_job_is_enqueued_and_comes_whole(
    servers: KubeServers, muster: Running
):
    api = servers.api
    for name, scheduler in (("team", "muster"), ("other", "volcano")):
        owner = create_volcano_job(api, name, scheduler)
        create_group(api, VOLCANO, name, owner, minMember=3, minTaskMember={"worker": 3})
        write_status(api, VOLCANO, name, phase="Pending", running=0)
    until("it is enqueued", lambda: status_of(api, VOLCANO, "team")["phase"] == "Inqueue")
    check_waits_and_comes_whole(api, "team", worker)
    until("it runs", lambda: status_of(api, VOLCANO, "team")["phase"] == "Running")
    found = status_of(api, VOLCANO, "team")
    assert [one["type"] for one in found["conditions"]] == ["Scheduled"]
    assert found["running"] == 0
    assert status_of(api, VOLCANO, "other") == {"phase": "Pending", "running": 0}


def test_of_two_groups_of_volcano_one_comes_whole_and_the_other_says_why(
    servers: KubeServers, muster: Running
):
    api = servers.api
    for name in ("one", "two"):
        create_group(api, VOLCANO, name, minMember=3)
    check_one_of_two_comes_whole(api, ["one", "two"], volcano)
    (late,) = (group for group in ("one", "two") if not bound(api, group))
    until("it says why", lambda: "conditions" in status_of(api, VOLCANO, late))
    found = status_of(api, VOLCANO, late)
    assert found["phase"] == "Pending"
    assert [one["type"] for one in found["conditions"]] == ["Unschedulable"]
    assert "Insufficient cpu" in found["conditions"][0]["message"]


def test_a_group_of_kueue_comes_whole_once_all_of_it_is_admitted(
    servers: KubeServers, muster: Running
):
    api, gates = servers.api, [{"name": "kueue.x-k8s.io/admission"}]
    create_members(api, "team", kueue, 0, 1, 2, schedulingGates=gates)
    for number in range(2):
        admit(api, "team", number)
    api.create(PODS, pod("single", cpu="1")).ok()
    until("the single pod is bound", lambda: bool(nodes_of(api)["single"]))
    assert bound(api, "team") == 0
    admit(api, "team", 2)
    until("all are bound", lambda: bound(api, "team") == 3)
    # Kueue lets a failed pod be replaced: the new one is a single pod.
    api.request("DELETE", f"{PODS}/team-0?gracePeriodSeconds=0").ok()
    create_members(api, "team", kueue, 3)
    until("the replacement is bound", lambda: bool(nodes_of(api)["team-3"]))


def test_of_two_groups_of_kueue_one_comes_whole(servers: KubeServers, muster: Running):
    check_one_of_two_comes_whole(servers.api, ["one", "two"], kueue)


def test_a_group_of_volcano_gives_spare_members_one_by_one_and_then_all(
    servers: KubeServers, muster: Running
):
    api = servers.api
    value = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 9}
    api.create("/apis/scheduling.k8s.io/v1/priorityclasses", value | {"metadata": {"name": "high"}})
    create_group(api, VOLCANO, "spare", minMember=2)
    create_members(api, "spare", volcano, 0, 1, 2)
    until("all are bound", lambda: bound(api, "spare") == 3)

    def come(name: str, leaving: int) -> None:
        api.create(PODS, pod(name, cpu="1", priorityClassName="high")).ok()
        until(f"{leaving} leave", lambda: len(ending(api, "spare")) == leaving)
        for one in ending(api, "spare"):
            api.request("DELETE", f"{PODS}/{one}?gracePeriodSeconds=0").ok()
        until("it is bound", lambda: bool(nodes_of(api)[name]))

    for name, leaving in (("high-0", 0), ("high-1", 1), ("high-2", 2)):
        come(name, leaving)


def ending(api: KubeApi, group: str) -> list[str]:
    """Return the members that are being deleted."""
    metas = [one["metadata"] for one in api.items(PODS)]
    its = [one for one in metas if one["name"].startswith(f"{group}-")]
    return [one["name"] for one in its if "deletionTimestamp" in one]


def test_a_group_of_volcano_waits_for_each_of_its_tasks(servers: KubeServers, muster: Running):
    def task(name: str) -> Names:
        return lambda group: {**volcano(group), "labels": {"volcano.sh/task-spec": name}}

    api, tasks = servers.api, {"master": 1, "worker": 1}
    create_group(api, VOLCANO, "parts", minMember=2, minTaskMember=tasks)
    create_members(api, "parts", task("worker"), 0, 1)
    api.create(PODS, pod("single", cpu="1")).ok()
    until("the single pod is bound", lambda: bool(nodes_of(api)["single"]))
    assert bound(api, "parts") == 0
    create_members(api, "parts", task("master"), 2)
    until("all are bound", lambda: bound(api, "parts") == 3)


def test_a_group_of_volcano_waits_for_whole_sub_groups(servers: KubeServers, muster: Running):
    def team(name: str) -> Names:
        return lambda group: {**volcano(group), "labels": {"team": name}}

    api = servers.api
    policy = {"name": "team", "matchLabelKeys": ["team"], "subGroupSize": 1, "minSubGroups": 2}
    create_group(api, VOLCANO, "teams", minMember=2, subGroupPolicy=[policy])
    create_members(api, "teams", team("a"), 0, 1)
    api.create(PODS, pod("single", cpu="1")).ok()
    until("the single pod is bound", lambda: bool(nodes_of(api)["single"]))
    assert bound(api, "teams") == 0
    create_members(api, "teams", team("b"), 2)
    until("all are bound", lambda: bound(api, "teams") == 3)
