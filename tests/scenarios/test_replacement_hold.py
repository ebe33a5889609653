"""Groups that keep the place of a lost member for its replacement."""

import pytest

from muster.cli.commands.why import lines_of
from muster.cli.output import time_of
from muster.explain.why.nodes import why_node
from muster.explain.why.pods import why_pod
from shared.model.groups.topology import NetworkTopology
from shared.model.objects import GpuRequest
from tests.scenarios.scene import Scene, node, play
from tests.scenarios.test_topology import RACK, anywhere, rack
from tests.support.hyper_nodes import hyper_node

GROUP = "default/g"
HOLD_S = 120
SOFT = NetworkTopology(is_hard=False)
MEMBERS = tuple("abcde")


def nodes():
    """Return nodes with room for five members."""
    return (node("r", 2_000), node("s", 2_000), node("t", 1_000))


async def start(scene: Scene, *names: str, least: int = 1, **more: object) -> None:
    scene.gang(GROUP, least, replacement_hold_ms=HOLD_S * 1_000, **more)
    scene.pods(*names, cpu_milli=1_000, gang=GROUP)
    await scene.settle()
    assert scene.running(*names) == len(names)


async def lose(scene: Scene, name: str, why: str = "deleted") -> str:
    """Let a member go; return the node that it had."""
    (where,) = scene.where(name)
    scene.cluster.delete([f"uid-{name}"], why)
    await scene.settle(5)
    return where


async def replace(scene: Scene, name: str, **more: object) -> str:
    """Make a member; return the node that it gets."""
    scene.pods(name, cpu_milli=1_000, gang=GROUP, **more)
    await scene.settle(5)
    return scene.where(name)[0]


async def is_free(scene: Scene, name: str, priority: int = 0) -> bool:
    """Return whether another pod gets a place."""
    scene.pods(name, cpu_milli=1_000, priority=priority)
    await scene.settle(5)
    return scene.running(name) == 1


@anywhere
def test_the_place_of_a_lost_member_is_kept_for_the_next_one(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        for name, why in (("b", "deleted"), ("d", "failed")):
            where = await lose(scene, name, why)
            assert not await is_free(scene, f"other-{name}")
            assert await replace(scene, f"{name}2") == where
        scene.finish("a")
        await scene.settle(5)
        assert scene.running("other-b") == 1

    play(story, *nodes(), **mesh)


@anywhere
def test_after_its_time_the_place_is_free_for_all(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        await lose(scene, "b")
        assert not await is_free(scene, "other")
        await scene.settle(HOLD_S - 15)
        assert scene.running("other") == 0
        await scene.settle(10)
        assert scene.running("other") == 1

    play(story, *nodes(), **mesh)


@anywhere
def test_a_pod_of_higher_priority_takes_the_place(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        await lose(scene, "b")
        assert await is_free(scene, "high", priority=1)
        assert await replace(scene, "b2") == ""
        await scene.settle(HOLD_S)

    play(story, *nodes(), **mesh)


@anywhere
def test_nothing_is_kept_for_members_that_finished_or_were_evicted(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        await lose(scene, "b", "finished")
        assert await is_free(scene, "first")
        scene.pods("high", cpu_milli=2_000, priority=9)
        await scene.settle()
        assert scene.running("high") == 1
        scene.delete("high")
        await scene.settle(5)
        assert await is_free(scene, "second")

    play(story, *nodes(), **mesh)


@anywhere
def test_a_group_that_ended_or_says_so_keeps_nothing(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        await lose(scene, "b")
        scene.finish("a", "c", "d")
        await scene.settle(5)
        scene.pods(*(f"other{number}" for number in range(4)), cpu_milli=1_000)
        await scene.settle(5)
        assert scene.running(*(f"other{number}" for number in range(4))) == 3
        scene.finish("e")
        await scene.settle(5)
        assert scene.running(*(f"other{number}" for number in range(4))) == 4

        await start(scene, "f")
        await lose(scene, "f")
        assert not await is_free(scene, "next")
        scene.gang(GROUP, 1, version=3)
        await scene.settle(5)
        assert scene.running("next") == 1

    play(story, *nodes(), **mesh)


@anywhere
def test_a_member_that_waits_already_takes_the_place(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        assert await replace(scene, "more") == ""
        await scene.settle(600)
        where = await lose(scene, "b")
        assert scene.where("more") == [where]

    play(story, *nodes(), **mesh)


@anywhere
def test_a_replacement_does_not_wait_for_other_minimums(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        where = await lose(scene, "b")
        scene.gang("default/h", 1)
        scene.pods("h", cpu_milli=1_000, gang="default/h")
        scene.pods("b2", cpu_milli=1_000, gang=GROUP)
        await scene.settle(5)
        assert scene.where("b2", "h") == [where, ""]

    play(story, *nodes(), **mesh)


@anywhere
def test_a_gang_below_its_minimum_takes_all_its_places(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS, least=5)
        places = [await lose(scene, name) for name in "bd"]
        assert not await is_free(scene, "other")
        assert await replace(scene, "b2") == ""
        await replace(scene, "d2")
        assert sorted(scene.where("b2", "d2")) == sorted(places)

    play(story, *nodes(), **mesh)


@anywhere
@pytest.mark.parametrize("topology", [None, RACK], ids=["any", "rack"])
def test_a_gang_that_is_tried_together_prefers_its_places(mesh, topology):
    async def story(scene: Scene):
        await start(scene, *MEMBERS, topology=topology, least=5)
        for name in MEMBERS:
            where = await lose(scene, name)
            assert await replace(scene, f"{name}2") == where

    play(story, *rack("x", cpu_milli=1_000, nodes=9), **mesh)


@anywhere
def test_preemption_for_the_gang_counts_its_places(mesh):
    async def story(scene: Scene):
        scene.pods("low", cpu_milli=1_000)
        await scene.settle()
        scene.gang(GROUP, 4, replacement_hold_ms=HOLD_S * 1_000)
        scene.pods(*"abcd", cpu_milli=1_000, priority=5, gang=GROUP)
        await scene.settle()
        assert scene.running(*"abcd") == 4
        for name in "abc":
            await lose(scene, name)
        scene.pods("top", cpu_milli=1_000, priority=9)
        await scene.settle(5)
        scene.pods(*"efg", cpu_milli=1_000, priority=5, gang=GROUP)
        await scene.settle(40)
        assert scene.running("top", *"defg") == 5
        assert "uid-low" not in scene.cluster.pods

    play(story, *nodes(), queueing={"gang_preemption": True}, **mesh)


@anywhere
def test_the_devices_of_a_lost_member_are_kept(mesh):
    async def story(scene: Scene):
        scene.gang(GROUP, 1, replacement_hold_ms=HOLD_S * 1_000)
        scene.pods("a", "b", cpu_milli=100, gpu=GpuRequest(1_000), gang=GROUP)
        await scene.settle()
        assert scene.running("a", "b") == 2
        await lose(scene, "b")
        scene.pods("other", cpu_milli=100, gpu=GpuRequest(500))
        await scene.settle(5)
        assert scene.running("other") == 0
        scene.pods("b2", cpu_milli=100, gpu=GpuRequest(1_000), gang=GROUP)
        await scene.settle(5)
        assert scene.running("b2") == 1

    play(story, node("g", 8_000, gpu_count=2, gpu_model="V100"), **mesh)


@anywhere
def test_the_place_goes_with_its_node(mesh):
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        where = await lose(scene, "b")
        scene.cluster.remove_node(f"uid-{where}")
        await scene.settle(5)
        assert await replace(scene, "b2") == ""
        scene.cluster.set_node(node("u", 1_000))
        await scene.settle(5)
        assert scene.where("b2") == ["u"]

    play(story, *nodes(), **mesh)


@anywhere
def test_a_gang_with_a_topology_keeps_the_place_in_its_domain(mesh):
    async def story(scene: Scene):
        await start(scene, *"abcd", topology=RACK, least=2)
        home = scene.where("a")[0].rpartition("-")[0]
        where = await lose(scene, "b")
        others = [f"other{number}" for number in range(5)]
        scene.pods(*others, cpu_milli=1_000)
        await scene.settle(5)
        assert scene.running(*others) == 4
        assert await replace(scene, "b2") == where
        # Later it waits for its domain, although there is room in another one.
        await lose(scene, "c")
        await scene.settle(HOLD_S)
        assert scene.running(*others) == 5
        elsewhere = [name for name in others if not scene.where(name)[0].startswith(home)]
        scene.finish(elsewhere[0])
        await scene.settle(5)
        assert await replace(scene, "c2") == ""
        assert f" in rack={home}" in await scene.said("c2")

    play(story, *rack("x"), *rack("y"), **mesh)


@anywhere
def test_a_preferred_domain_is_left_once_the_place_is_free(mesh):
    async def story(scene: Scene):
        await start(scene, "a", "b", network=SOFT)
        where = await lose(scene, "b")
        assert await is_free(scene, "other")
        assert scene.where("other") != [where]
        scene.pods("next", cpu_milli=1_000)
        await scene.settle(HOLD_S)
        scene.finish("other")
        await scene.settle(5)
        assert scene.where("next") == [where]
        assert await replace(scene, "b2") == "outside"

    nodes = [node(name, 1_000) for name in ("p", "q", "outside")]
    play(story, *nodes, objects=(hyper_node("s0", 1, nodes="p q"),), **mesh)


def test_why_says_for_which_group_room_is_kept_and_that_a_pod_took_it():
    async def story(scene: Scene):
        await start(scene, *MEMBERS)
        where = await lose(scene, "b")
        assert not await is_free(scene, "other")
        kept = "kept for default/b or its replacement, of gang default/g (priority 0)"
        until = " until 2023-11-14 22:16:20 UTC"
        said = lines_of(await why_pod(scene.recorded(), "other"), time_of(0))
        assert f"  room on {where} is {kept}{until}" in said, said
        said = lines_of(await why_node(scene.recorded(), where), time_of(0))
        assert f"  {kept}{until}" in said, said
        await replace(scene, "b2")
        said = lines_of(await why_pod(scene.recorded(), "b2"), time_of(0))
        assert any(", the place of a lost member, " in line for line in said), said
        said = lines_of(await why_pod(scene.recorded(), "other"), time_of(0))
        assert not any("is kept" in line for line in said)

    play(story, *nodes())
