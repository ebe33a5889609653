"""Scenarios of kube-scheduler's integration tests about its queue, gangs and plugins."""

from typing import Any

import pytest

from shared.model.objects import NO_SCHEDULE, HostPort, PodSpec, Taint
from shared.model.profile import DEFAULT_FILTERS, Profile
from tests.scenarios.scene import Scene, node, play
from tests.support.custom_plugins import ByRank, ByZone, HasTeam, known

MESHES = [
    pytest.param({"placements": 1, "batch": True}, id="one-shard"),
    pytest.param({"placements": 1, "batch": False}, id="single-cycles"),
    pytest.param({"placements": 3, "batch": True}, id="three-shards"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
# Several shards are asked in turn, so that being refused by one is nothing in vain.
on_one_shard = pytest.mark.parametrize("mesh", MESHES[:2])
THREE = [node(f"node-{number}", 2_000) for number in range(3)]
GANG = ("a", "b", "c")


@anywhere
def test_a_missing_quorum_arrives(mesh):
    async def story(scene: Scene):
        scene.gang("default/w/g", 3)
        scene.pods("a", "b", cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        assert scene.running("a", "b") == 0, "two of three wait"
        assert "gangs" not in await scene.refusals(), "nobody was asked in vain"
        scene.pods("c", cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        assert scene.running(*GANG) == 3

    play(story, *THREE, **mesh)


@anywhere
def test_a_gang_whose_object_comes_after_its_pods(mesh):
    async def story(scene: Scene):
        scene.pods(*GANG, cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        assert scene.running(*GANG) == 0
        scene.gang("default/w/g", 3)
        await scene.settle()
        assert scene.running(*GANG) == 3

    play(story, *THREE, **mesh)


@anywhere
def test_a_gang_runs_when_what_blocked_it_is_deleted(mesh):
    async def story(scene: Scene):
        scene.pods("blocker", cpu_milli=2_000)
        await scene.settle()
        scene.gang("default/w/g", 3)
        scene.pods(*GANG, cpu_milli=2_000, gang="default/w/g")
        await scene.settle()
        assert scene.running(*GANG) == 0, "two of three would fit: none is held"
        scene.pods("small", cpu_milli=2_000)
        await scene.settle()
        assert scene.running("small") == 1, "the gang holds nothing while it waits"
        scene.delete("blocker")
        await scene.settle()
        assert scene.running(*GANG) == 0
        scene.delete("small")
        await scene.settle()
        assert scene.running(*GANG) == 3

    play(story, *THREE, **mesh)


@anywhere
def test_gates_that_are_removed_one_by_one(mesh):
    async def story(scene: Scene):
        scene.gang("default/w/g", 3)
        scene.pods(*GANG, cpu_milli=1_000, gang="default/w/g", gated=True)
        scene.pods("alone", cpu_milli=1_000, gated=True)
        await scene.settle()
        for name in GANG:
            assert scene.running(*GANG) == 0
            scene.ungate(name)
            await scene.settle()
        assert scene.running(*GANG) == 3, "with the last one there are enough"
        assert scene.running("alone") == 0
        scene.ungate("alone")
        await scene.settle()
        assert scene.running("alone") == 1
        assert await scene.refusals() == {}, "a pod with a gate is never tried"

    play(story, *THREE, **mesh)


TAINT = Taint("dedicated", "x", NO_SCHEDULE)


@on_one_shard
def test_events_wake_only_the_pods_that_they_help(mesh):
    picky = [
        node("full", 1_000),
        node("tainted", 2_000, taints=(TAINT,)),
        node("cordoned", 2_000, unschedulable=True, labels={"disk": "ssd"}),
    ]

    async def story(scene: Scene):
        scene.pods("runs", cpu_milli=1_000, host_ports=(HostPort(80),))
        await scene.settle()
        assert scene.where("runs") == ["full"]
        scene.pods("large", cpu_milli=9_000)
        scene.pods("fast", cpu_milli=100, node_selector=(("disk", "ssd"),))
        scene.pods("plain", cpu_milli=500)
        scene.pods("port", cpu_milli=0, host_ports=(HostPort(80),))
        await scene.settle()
        before = await scene.refusals()
        assert sorted(before) == ["fast", "large", "plain", "port"]
        # Only what a node lets in newly is tried again, each time by one kind of pod.
        scene.cluster.set_node(node("cordoned", 2_000, labels={"disk": "ssd", "zone": "a"}))
        await scene.settle()
        assert scene.where("fast", "plain", "port", "large") == ["cordoned"] * 3 + [""]
        assert await scene.refusals() == before, "nobody was tried in vain"
        scene.pods("late", cpu_milli=2_000)
        await scene.settle()
        before = await scene.refusals()
        scene.delete("runs")
        await scene.settle()
        assert await scene.refusals() == before, "a core more helps neither of those that wait"
        scene.cluster.set_node(node("tainted", 2_000))
        await scene.settle()
        assert scene.where("late", "large") == ["tainted", ""]
        assert await scene.refusals() == before

    play(story, *picky, **mesh)


@anywhere
def test_a_pod_with_a_nominated_node_keeps_its_place(mesh):
    async def story(scene: Scene):
        scene.pods("low", cpu_milli=2_000)
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=10)
        await scene.settle(5)
        assert scene.running("high") == 0, "its victim takes a minute to end"
        # They would fit as soon as it ends, and there are many of them.
        scene.pods(*(f"quick-{number}" for number in range(20)), cpu_milli=1_000, priority=5)
        await scene.settle(120)
        assert "uid-low" not in scene.cluster.pods
        assert scene.where("high") == ["only"]
        assert scene.running(*(f"quick-{number}" for number in range(20))) == 0

    play(story, node("only", 2_000), grace_ms=60_000, **mesh)


@on_one_shard
def test_a_plugin_of_a_user_needs_no_hint(mesh):
    """A change on a node wakes the pods that the plugin now allows, and no others."""

    async def story(scene: Scene):
        scene.pods("small", cpu_milli=1)
        scene.pods("large", cpu_milli=9_000)
        await scene.settle()
        before = await scene.refusals()
        assert sorted(before) == ["large", "small"]
        scene.cluster.set_node(node("only", 2_000, labels={"zone": "x", "disk": "ssd"}))
        await scene.settle()
        assert await scene.refusals() == before, "the plugin says no as before"
        scene.cluster.set_node(node("only", 2_000, labels={"zone": "y"}))
        await scene.settle()
        assert scene.where("small", "large") == ["only", ""]
        assert await scene.refusals() == before

    with known(ByZone) as custom:
        profile = Profile(filters=(*DEFAULT_FILTERS, "ByZone"), custom=custom)
        play(story, node("only", 2_000, labels={"zone": "x"}), profiles=[profile], **mesh)


TEAM = (("labels.team", "a"),)


@anywhere
def test_a_plugin_holds_pods_until_they_have_a_label(mesh):
    async def story(scene: Scene):
        scene.gang("default/w/g", 3)
        scene.pods("a", "b", cpu_milli=1_000, gang="default/w/g", shown=TEAM)
        scene.pods("c", cpu_milli=1_000, gang="default/w/g")
        scene.pods("alone", cpu_milli=1_000, priority=7)
        scene.pods("gated", cpu_milli=1_000, gated=True)
        await scene.settle()
        assert scene.running("a", "b", "c", "alone", "gated") == 0
        scene.ungate("gated")
        scene.change("c", shown=TEAM)
        await scene.settle()
        assert scene.running(*GANG) == 3, "with the last one there are enough"
        assert scene.running("alone", "gated") == 0, "the plugin still says no"
        scene.change("alone", shown=TEAM)
        scene.change("gated", shown=TEAM)
        await scene.settle()
        assert scene.running("alone", "gated") == 2
        assert await scene.refusals() == {}, "a pod that is held is never tried"

    with known(HasTeam) as custom:
        play(story, *THREE, ingest={"pre_enqueue": {PodSpec().scheduler: custom}}, **mesh)


@anywhere
def test_a_plugin_orders_the_queue(mesh):
    """Room comes for one pod after the other: they are placed by rank, then by age."""
    ranks = {"low": "-1", "first": "9", "old": "4", "young": "4"}

    async def story(scene: Scene):
        scene.pods("full", cpu_milli=1_000, priority=1_000)
        await scene.settle()
        for priority, name in enumerate(ranks):
            spec: Any = {"shown": (("annotations.rank", ranks[name]),), "never_preempts": True}
            scene.pods(name, cpu_milli=1_000, priority=10 - priority, **spec)
        await scene.settle()
        order = []
        freed = "full"
        for _ in ranks:
            scene.delete(freed)
            await scene.settle()
            (freed,) = (name for name in ranks if name not in order and scene.running(name))
            order.append(freed)
        assert order == ["first", "old", "young", "low"]

    with known(ByRank) as (custom,):
        play(story, node("only", 1_000), ingest={"queue_sort": custom}, **mesh)
