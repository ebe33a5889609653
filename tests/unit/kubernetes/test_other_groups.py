"""Pod groups of other schedulers on a live API: found where they are served, and read as gangs."""

from collections.abc import Callable
from typing import Any

import pytest

from shared.events.observed import GangsDeletedSeen, GangsSeen, InputRejected, PodsSeen
from shared.kubernetes.cluster import KubeCluster
from shared.model.groups.topology import NetworkTopology
from shared.model.objects import Gang, PartMinimum
from shared.ports.cluster import Watched
from tests.unit.kubernetes.fake_api import FakeApi
from tests.unit.kubernetes.watch import Watch

LABEL = "scheduling.x-k8s.io/pod-group"
COSCHEDULING = ("coscheduling", "scheduling.x-k8s.io/v1alpha1", "podgroups")
VOLCANO = ("volcano", "scheduling.volcano.sh/v1beta1", "podgroups")
KEY = "default/g@coscheduling"


def member(
    api: FakeApi,
    name: str,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> None:
    """Create a pod of ours with labels and annotations."""
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}}}
    whole = {"schedulerName": "muster", "containers": [container], **spec}
    metadata = {"labels": labels or {}, "annotations": annotations or {}}
    api.put("pods", name, metadata=metadata, spec=whole, status={"phase": "Pending"})


def gangs_in(watched: Watched) -> list[Gang]:
    return [gang for one in watched.events if isinstance(one, GangsSeen) for gang in one.gangs]


async def gangs_of_pods(cluster: KubeCluster) -> dict[str, str]:
    """Return pod -> key of its gang, as a list has them."""
    events = (await cluster.list_all("pods")).events
    return {one.names: one.gang for one in events if isinstance(one, PodsSeen)}


async def test_groups_of_coscheduling_are_gangs(cluster: KubeCluster, api: FakeApi):
    api.install(*COSCHEDULING)
    api.put("coscheduling", "g", spec={"minMember": 3, "scheduleTimeoutSeconds": 40})
    # A group of scheduling.k8s.io may have the same name.
    api.scheduling["v1alpha2"] = ["podgroups"]
    api.put("podgroups", "g", spec={"schedulingPolicy": {"gang": {"minCount": 2}}})
    listed = await cluster.list_all("gangs")
    wanted = Gang(key=KEY, min_count=3, timeout_ms=40_000, keeps_minimum=True)
    assert gangs_in(listed) == [Gang(key="default/g", min_count=2, priority=0), wanted]
    assert sorted(listed.marks) == ["gangs", "podgroups.scheduling.x-k8s.io"]
    member(api, "a", labels={LABEL: "g"})
    member(api, "b", labels={LABEL: "g"}, schedulingGroup={"podGroupName": "g"})
    member(api, "c", labels={"pod-group.scheduling.sigs.k8s.io": "missing"})
    assert await gangs_of_pods(cluster) == {
        "a": KEY,
        "b": "default/g",
        "c": "default/missing@coscheduling",
    }


async def test_changes_and_deletions_of_groups_are_reported(cluster: KubeCluster, api: FakeApi):
    api.install(*COSCHEDULING)
    api.put("coscheduling", "g", spec={"minMember": 3})
    listed = await cluster.list_all("gangs")
    watch = Watch(cluster, api.revision, listed.marks)
    api.put("coscheduling", "g", spec={"minMember": 5})
    await watch.until(lambda: bool(watch.of(GangsSeen)))
    assert watch.of(GangsSeen)[0].gangs == (Gang(key=KEY, min_count=5, keeps_minimum=True),)
    api.delete("coscheduling", "g")
    await watch.until(lambda: bool(watch.of(GangsDeletedSeen)))
    assert watch.of(GangsDeletedSeen)[0].keys == KEY
    await watch.close()


async def test_a_kind_that_was_installed_later_is_reported_whole(
    new_cluster: Callable[..., KubeCluster], api: FakeApi
):
    since = api.revision
    api.install(*COSCHEDULING)
    api.put("coscheduling", "g", spec={"minMember": 3})
    watch = Watch(new_cluster(), since)
    await watch.until(lambda: bool(watch.of(GangsSeen)))
    assert watch.of(GangsSeen)[0].gangs == (Gang(key=KEY, min_count=3, keeps_minimum=True),)
    await watch.close()


async def test_labels_of_a_kind_that_is_not_served_gate_nothing(cluster: KubeCluster, api: FakeApi):
    await cluster.list_all("gangs")
    member(api, "a", labels={LABEL: "g"})
    assert await gangs_of_pods(cluster) == {"a": ""}


async def test_a_group_that_cannot_be_used_is_left_out(cluster: KubeCluster, api: FakeApi):
    api.install(*COSCHEDULING)
    api.put("coscheduling", "g", spec={"minMember": 0})
    await cluster.list_all("gangs")
    assert cluster.left_out.counts() == {"podgroups.scheduling.x-k8s.io": 1}


async def test_groups_of_volcano_are_gangs(cluster: KubeCluster, api: FakeApi):
    api.install(*VOLCANO)
    topology = {"mode": "hard", "highestTierAllowed": 2}
    api.put("volcano", "g", spec={"minMember": 3, "queue": "q", "networkTopology": topology})
    api.put("volcano", "loose", spec={"minTaskMember": {}})
    network = NetworkTopology(highest_tier=2)
    wanted = Gang(key="default/g@volcano", min_count=3, network=network, keeps_minimum=True)
    assert gangs_in(await cluster.list_all("gangs")) == [wanted]
    for number, name in enumerate(("scheduling.k8s.io", "scheduling.volcano.sh")):
        member(api, f"a{number}", annotations={f"{name}/group-name": "g"})
    member(api, "b", annotations={"scheduling.k8s.io/group-name": "loose"})
    member(api, "c", labels={"scheduling.k8s.io/group-name": "g"})
    assert await gangs_of_pods(cluster) == {"a0\na1": "default/g@volcano", "b": "", "c": ""}


async def test_of_several_kinds_the_first_that_is_served_counts(cluster: KubeCluster, api: FakeApi):
    api.install(*VOLCANO)
    await cluster.list_all("gangs")
    both = {"labels": {LABEL: "g"}, "annotations": {"scheduling.k8s.io/group-name": "g"}}
    member(api, "a", **both)
    assert await gangs_of_pods(cluster) == {"a": "default/g@volcano"}


def of_kueue(count: str = "3", **more: str) -> dict[str, Any]:
    names = {f"kueue.x-k8s.io/pod-group-{name.replace('_', '-')}": more[name] for name in more}
    annotations = {"kueue.x-k8s.io/pod-group-total-count": count, **names}
    return {"labels": {"kueue.x-k8s.io/pod-group-name": "g"}, "annotations": annotations}


async def counts_of_pods(cluster: KubeCluster) -> dict[str, tuple[str, int]]:
    events = (await cluster.list_all("pods")).events
    return {one.names: (one.gang, one.gang_count) for one in events if isinstance(one, PodsSeen)}


async def test_groups_of_kueue_are_as_large_as_their_pods_say(cluster: KubeCluster, api: FakeApi):
    member(api, "a", **of_kueue())
    member(api, "b", annotations=of_kueue("2", name="h")["annotations"])
    assert await counts_of_pods(cluster) == {
        "a": ("default/g@kueue", 3),
        "b": ("default/h@kueue", 2),
    }


async def test_groups_that_kueue_admits_before_all_pods_exist_gate_nothing(
    cluster: KubeCluster, api: FakeApi
):
    member(api, "a", **of_kueue(fast_admission="true"))
    member(api, "b", **of_kueue(serving="true"))
    for number, count in enumerate(("", "0", "-1", "x", "9" * 20)):
        member(api, f"c{number}", **of_kueue(count))
    assert set((await counts_of_pods(cluster)).values()) == {("", 0)}


@pytest.mark.parametrize("min_member", [3, 2])
async def test_tasks_of_volcano_have_minimums_if_min_member_is_not_less_than_their_sum(
    cluster: KubeCluster, api: FakeApi, min_member: int
):
    api.install(*VOLCANO)
    tasks = {"worker": 2, "master": 1, "other": 0}
    api.put("volcano", "g", spec={"minMember": min_member, "minTaskMember": tasks})
    (gang,) = gangs_in(await cluster.list_all("gangs"))
    wanted = (PartMinimum("master", 1), PartMinimum("worker", 2))
    assert gang.minimums == (wanted if min_member == 3 else ())


async def test_pods_of_volcano_have_their_task(cluster: KubeCluster, api: FakeApi):
    api.install(*VOLCANO)
    await cluster.list_all("gangs")
    group, task = {"scheduling.k8s.io/group-name": "g"}, "volcano.sh/task-spec"
    member(api, "a", annotations={**group, task: "worker"}, labels={task: "other"})
    member(api, "b", annotations=group, labels={task: "master"})
    member(api, "c", annotations=group)
    member(api, "d", labels={task: "master"})
    events = (await cluster.list_all("pods")).events
    parts = {one.names: one.spec.part for one in events if isinstance(one, PodsSeen)}
    assert parts == {"a": "worker", "b": "master", "c": "", "d": ""}


async def test_sub_groups_of_volcano_are_parts(cluster: KubeCluster, api: FakeApi):
    api.install(*VOLCANO)
    task, key = "volcano.sh/task-spec", "volcano.sh/partition-id"
    policy = {
        "name": "worker",
        "labelSelector": {"matchLabels": {task: "worker"}},
        "matchLabelKeys": [key],
        "subGroupSize": 2,
        "minSubGroups": 3,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }
    tasks = {"worker": 6, "master": 1}
    api.put(
        *("volcano", "g"), spec={"minMember": 7, "minTaskMember": tasks, "subGroupPolicy": [policy]}
    )
    (gang,) = gangs_in(await cluster.list_all("gangs"))
    of_tasks = (PartMinimum("master", 1), PartMinimum("worker", 6))
    assert gang.minimums == (*of_tasks, PartMinimum("worker", 2, parts=3))
    group = {"scheduling.k8s.io/group-name": "g"}
    member(api, "a", annotations=group, labels={task: "worker", key: "0"})
    member(api, "b", annotations=group, labels={task: "worker"})
    member(api, "c", annotations=group, labels={task: "master", key: "1"})
    events = (await cluster.list_all("pods")).events
    parts = {one.names: one.spec.part for one in events if isinstance(one, PodsSeen)}
    assert parts == {"a": "worker/0", "b": "worker", "c": "master"}


async def test_sub_groups_that_are_no_tasks_count_without_the_tasks(
    cluster: KubeCluster, api: FakeApi
):
    api.install(*VOLCANO)
    policies = [{"name": "rack", "matchLabelKeys": ["rack"], "minSubGroups": 2}, {"name": "x"}]
    spec = {"minMember": 7, "minTaskMember": {"worker": 2}, "subGroupPolicy": policies}
    api.put("volcano", "g", spec=spec)
    (gang,) = gangs_in(await cluster.list_all("gangs"))
    assert gang.minimums == (PartMinimum("rack", 1, parts=2),)


@pytest.mark.parametrize(
    ("written", "network"),
    [
        ({}, NetworkTopology()),
        ({"mode": "hard", "highestTierAllowed": 0}, NetworkTopology(highest_tier=0)),
        ({"highestTierName": "rack"}, NetworkTopology(highest_tier_name="rack")),
        ({"mode": "soft"}, NetworkTopology(is_hard=False)),
    ],
)
async def test_groups_of_volcano_have_a_network_topology(
    cluster: KubeCluster, api: FakeApi, written: dict[str, Any], network: NetworkTopology
):
    api.install(*VOLCANO)
    api.put("volcano", "g", spec={"networkTopology": written})
    (gang,) = gangs_in(await cluster.list_all("gangs"))
    assert (gang.min_count, gang.network) == (1, network)


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ({"mode": "firm"}, "mode"),
        ({"highestTierAllowed": -1}, "highestTierAllowed"),
        ({"highestTierAllowed": 1, "highestTierName": "rack"}, "highestTierName"),
        ({"highestTier": 1}, "highestTier"),
    ],
)
async def test_a_wrong_network_topology_is_named(
    cluster: KubeCluster, api: FakeApi, written: dict[str, Any], field: str
):
    api.install(*VOLCANO)
    api.put("volcano", "g", spec={"minMember": 1, "networkTopology": written})
    events = (await cluster.list_all("gangs")).events
    (rejected,) = (one for one in events if isinstance(one, InputRejected))
    assert rejected.field == f"spec.networkTopology.{field}"
