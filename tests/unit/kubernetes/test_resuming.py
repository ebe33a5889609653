"""Watches that resume where others ended: changes are not reported twice."""

import asyncio
from typing import Any

import pytest

from shared.events.observed import (
    BudgetsDeletedSeen,
    GangsDeletedSeen,
    GangsSeen,
    NodesDeletedSeen,
    NodesSeen,
    ObjectsDeletedSeen,
    PodsDeletedSeen,
    PodsSeen,
)
from shared.kubernetes.cluster import KubeCluster
from shared.model.objects import Gang
from shared.ports.cluster import Gone
from tests.unit.kubernetes.fake_api import COLLECTIONS, FakeApi
from tests.unit.kubernetes.watch import Watch

DELETED = (
    *(NodesDeletedSeen, BudgetsDeletedSeen, GangsDeletedSeen, ObjectsDeletedSeen, PodsDeletedSeen),
)
NODE = {"allocatable": {"cpu": "4", "memory": "1Gi", "pods": "10"}}


def gang_of(count: int) -> dict[str, Any]:
    return {"podGroups": [{"name": "g", "policy": {"gang": {"minCount": count}}}]}


def change_everything(api: FakeApi) -> None:
    """Change everything twice, so that some changes are older than the final state."""
    for changed in (False, True):
        api.put("nodes", "cordoned", status=NODE, spec={"unschedulable": changed})
        api.put("budgets", "b", spec={}, status={"disruptionsAllowed": 0 if changed else 2})
        api.put("workloads", "w", spec=gang_of(5 if changed else 3))
        api.put("namespaces", "n", metadata={"labels": {"changed": str(changed)}})
    for kind in ("nodes", "budgets", "workloads", "namespaces"):
        api.put(kind, "short", spec=gang_of(2) if kind == "workloads" else {})
        api.delete(kind, "short")
    api.pod("short")
    api.delete("pods", "short")


async def everything(watch: Watch, api: FakeApi) -> None:
    """Wait until every change so far is reported."""

    async def say_how_new() -> None:
        kinds = [kind for kind in COLLECTIONS if kind != "podgroups"]
        await api.until_watched(len(kinds))
        for kind in kinds:
            await api.bookmark(kind)

    await asyncio.gather(say_how_new(), watch.until(lambda: watch.revision == api.revision))


async def test_a_resumed_watch_repeats_nothing(new_cluster, api: FakeApi):
    api.put("nodes", "cordoned", status=NODE)
    began = api.revision
    first = Watch(new_cluster(), began)
    change_everything(api)
    await first.until(lambda: all(map(first.of, DELETED)))
    assert first.revision == began
    await first.close()
    second = Watch(new_cluster(), first.revision, first.marks)
    api.pod("last")
    await everything(second, api)
    assert [type(event) for event in second.events] == [PodsSeen]
    assert second.names() == ["last"]
    await second.close()


async def test_the_watch_does_not_repeat_the_list(cluster: KubeCluster, api: FakeApi):
    change_everything(api)
    lists = []
    for kind in cluster.kinds:
        lists.append(await cluster.list_all(kind))
        api.put("nodes", "cordoned", status=NODE, spec={"unschedulable": True})
    marks = {part: mark for listed in lists for part, mark in listed.marks.items()}
    watch = Watch(cluster, lists[0].revision, marks)
    api.pod("last")
    await everything(watch, api)
    assert {type(event) for event in watch.events} == {NodesSeen, PodsSeen}
    assert watch.of(NodesSeen)[0].nodes[0].unschedulable
    await watch.close()


async def test_a_group_deleted_between_two_watches_is_reported(new_cluster, api: FakeApi):
    api.put("workloads", "w", spec=gang_of(3))
    since = api.revision
    api.delete("workloads", "w")
    watch = Watch(new_cluster(), since)
    await watch.until(lambda: bool(watch.of(GangsDeletedSeen)))
    assert [event.keys for event in watch.of(GangsDeletedSeen)] == ["default/w/g"]
    await watch.close()


async def test_groups_that_changed_while_another_watched_are_known(new_cluster, api: FakeApi):
    api.put("workloads", "w", spec=gang_of(3))
    cluster = new_cluster()
    first = Watch(cluster, api.revision)
    await first.until(lambda: bool(first.of(GangsSeen)))
    await first.close()
    api.put("workloads", "w", spec=gang_of(5))
    second = Watch(cluster, first.revision, {"gangs": api.revision})
    api.pod("a", workloadRef={"name": "w", "podGroup": "g", "podGroupReplicaKey": "r"})
    await second.until(lambda: "a" in second.names())
    (told,) = second.of(GangsSeen)
    assert told.gangs == (Gang(key="default/w/g/r", min_count=5),)
    await second.close()


async def test_groups_from_before_a_compaction_end_the_watch(new_cluster, api: FakeApi):
    api.put("workloads", "w", spec=gang_of(3))
    mark = api.revision
    api.pod("a")
    api.compact()
    with pytest.raises(Gone, match="workloads"):
        await Watch(new_cluster(), mark).until(lambda: False)
