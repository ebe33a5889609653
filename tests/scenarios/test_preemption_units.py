"""Groups with disruptionMode all: preemption evicts all their pods, wherever they run, or none."""

import pytest

from tests.scenarios.scene import Scene, node, play

MESHES = [
    pytest.param({"placements": 1}, id="one-shard"),
    pytest.param({"placements": 3}, id="three-shards"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
GANG = "default/g"


def on(name: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the field of a pod for the node of this name."""
    return {"node_selector": (("on", name),)}


def nodes(*names: str, cpu_milli: int = 2_000):
    return [node(name, cpu_milli, labels={"on": name}) for name in names]


def left(scene: Scene, *names: str) -> list[str]:
    """Return the pods that are still there, without those that are ending."""
    return [name for name in names if f"uid-{name}" in scene.cluster.pods]


@anywhere
def test_the_pods_of_a_unit_leave_together(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 3, is_unit=True, priority=0)
        for name, where in (("a", "r"), ("b", "s"), ("c", "t")):
            scene.pods(name, cpu_milli=1_500, gang=GANG, **on(where))
        await scene.settle()
        assert scene.running("a", "b", "c") == 3
        scene.pods("high", cpu_milli=2_000, priority=10, **on("s"))
        await scene.settle()
        assert scene.where("high") == ["s"]
        assert left(scene, "a", "b", "c") == []

    play(story, *nodes("r", "s", "t"), **mesh)


@anywhere
def test_pods_of_other_groups_leave_one_by_one(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 3, priority=0)
        for name, where in (("a", "r"), ("b", "s"), ("c", "t")):
            scene.pods(name, cpu_milli=1_500, gang=GANG, **on(where))
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=10, **on("s"))
        await scene.settle()
        assert left(scene, "a", "b", "c") == ["a", "c"]

    play(story, *nodes("r", "s", "t"), **mesh)


@anywhere
def test_the_node_whose_victims_cost_least_everywhere_is_taken(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, is_unit=True, priority=0)
        scene.pods("a", cpu_milli=2_000, gang=GANG, **on("r"))
        scene.pods("b", cpu_milli=2_000, gang=GANG, **on("t"))
        await scene.settle()
        scene.pods("alone", cpu_milli=2_000, **on("s"))
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=10)
        await scene.settle()
        assert scene.where("high") == ["s"]
        assert left(scene, "a", "b", "alone") == ["a", "b"]

    play(story, *nodes("r", "s", "t"), **mesh)


@anywhere
def test_a_unit_is_put_back_whole_and_before_single_pods(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, is_unit=True, priority=0)
        scene.pods("a", "b", cpu_milli=500, gang=GANG)
        await scene.settle()
        scene.pods("old", cpu_milli=1_000)
        await scene.settle()
        scene.pods("high", cpu_milli=1_000, priority=10)
        await scene.settle()
        assert scene.running("high") == 1
        assert left(scene, "a", "b", "old") == ["a", "b"]
        scene.pods("higher", cpu_milli=500, priority=9)
        await scene.settle()
        assert scene.running("higher") == 1
        assert left(scene, "a", "b") == []

    play(story, *nodes("r"), **mesh)


@anywhere
def test_a_gang_evicts_a_unit_whole(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 3, is_unit=True, priority=0)
        for name, where in (("a", "r"), ("b", "s"), ("c", "t")):
            scene.pods(name, cpu_milli=2_000, gang=GANG, **on(where))
        await scene.settle()
        scene.gang("default/h", 2, priority=10)
        scene.pods("x", "y", cpu_milli=2_000, priority=10, gang="default/h")
        await scene.settle(60)
        assert scene.running("x", "y") == 2
        assert left(scene, "a", "b", "c") == []

    play(story, *nodes("r", "s", "t"), queueing={"gang_preemption": True}, **mesh)


@anywhere
def test_pods_that_ran_before_their_group_was_a_unit_leave_with_it(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, priority=0)
        scene.pods("a", cpu_milli=2_000, gang=GANG, **on("r"))
        scene.pods("b", cpu_milli=2_000, gang=GANG, **on("s"))
        await scene.settle()
        scene.gang(GANG, 2, version=2, is_unit=True, priority=0)
        scene.pods("high", cpu_milli=2_000, priority=10, **on("s"))
        await scene.settle()
        assert scene.where("high") == ["s"]
        assert left(scene, "a", "b") == []

    play(story, *nodes("r", "s"), **mesh)
