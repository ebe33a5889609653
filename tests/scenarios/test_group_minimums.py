"""Groups of Volcano and coscheduling: members above the minimum are evicted one by one, the newest
first; at the minimum all leave, or none.
"""

import pytest

from tests.scenarios.scene import Scene, play
from tests.scenarios.test_preemption_units import anywhere, left, nodes, on

GANG = "default/g@volcano"


@anywhere
def test_the_newest_member_above_the_minimum_leaves_alone(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, keeps_minimum=True)
        scene.pods("a", "b", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        scene.pods("late", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        scene.pods("high", cpu_milli=1_000, priority=10)
        await scene.settle()
        assert scene.running("high") == 1
        assert left(scene, "a", "b", "late") == ["a", "b"]

    play(story, *nodes("r", cpu_milli=3_000), **mesh)


@anywhere
def test_at_the_minimum_all_members_leave(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, keeps_minimum=True)
        for name, where in (("a", "r"), ("b", "s"), ("c", "t")):
            scene.pods(name, cpu_milli=2_000, gang=GANG, **on(where))
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=10, **on("s"))
        await scene.settle()
        assert scene.where("high") == ["s"]
        assert left(scene, "a", "b", "c") == ["a", "c"]
        scene.pods("higher", cpu_milli=2_000, priority=10, **on("r"))
        await scene.settle()
        assert scene.where("higher") == ["r"]
        assert left(scene, "a", "c") == []

    play(story, *nodes("r", "s", "t"), **mesh)


@anywhere
def test_a_member_above_its_minimum_leaves_before_a_group_at_its_minimum(mesh):
    async def story(scene: Scene):
        other = "default/h@volcano"
        scene.gang(GANG, 2, keeps_minimum=True)
        scene.gang(other, 2, keeps_minimum=True)
        for name, where in (("a", "r"), ("b", "s"), ("c", "t")):
            scene.pods(name, cpu_milli=1_000, gang=GANG, **on(where))
        await scene.settle()
        for name, where in (("x", "r"), ("y", "s")):
            scene.pods(name, cpu_milli=1_000, gang=other, **on(where))
        await scene.settle()
        scene.pods("one", cpu_milli=1_000, **on("t"))
        await scene.settle()
        scene.pods("high", cpu_milli=1_000, priority=10)
        await scene.settle()
        assert scene.running("high") == 1
        assert left(scene, "x", "y") == ["x", "y"]
        assert len(left(scene, "a", "b", "c", "one")) == 3

    play(story, *nodes("r", "s", "t"), **mesh)


@anywhere
def test_a_preemptor_of_a_whole_node_takes_what_the_group_can_spare(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, keeps_minimum=True)
        for name, where in (("a", "r"), ("b", "r"), ("c", "s"), ("d", "s")):
            scene.pods(name, cpu_milli=1_000, gang=GANG, **on(where))
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=10)
        await scene.settle()
        assert scene.running("high") == 1
        assert len(left(scene, "a", "b", "c", "d")) == 2

    play(story, *nodes("r", "s"), **mesh)


@anywhere
def test_a_gang_evicts_no_more_than_a_group_can_spare(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, keeps_minimum=True)
        for name, where in (("a", "r"), ("b", "s"), ("c", "t"), ("d", "u")):
            scene.pods(name, cpu_milli=2_000, gang=GANG, **on(where))
        await scene.settle()
        scene.gang("default/h", 2, priority=10)
        scene.pods("x", "y", cpu_milli=2_000, priority=10, gang="default/h")
        await scene.settle(60)
        assert scene.running("x", "y") == 2
        assert len(left(scene, "a", "b", "c", "d")) == 2

    play(story, *nodes("r", "s", "t", "u"), queueing={"gang_preemption": True}, **mesh)


@anywhere
def test_pods_of_several_priorities_leave_one_by_one(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, keeps_minimum=True)
        scene.pods("a", cpu_milli=2_000, gang=GANG, priority=20, **on("r"))
        scene.pods("b", cpu_milli=2_000, gang=GANG, **on("s"))
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=10, **on("s"))
        await scene.settle()
        assert scene.where("high") == ["s"]
        assert left(scene, "a", "b") == ["a"]

    play(story, *nodes("r", "s"), **mesh)


@pytest.mark.parametrize("least", [1, 3])
@anywhere
def test_a_changed_minimum_counts(mesh, least):
    async def story(scene: Scene):
        scene.gang(GANG, 2, keeps_minimum=True)
        for name, where in (("a", "r"), ("b", "s"), ("c", "t")):
            scene.pods(name, cpu_milli=2_000, gang=GANG, **on(where))
        await scene.settle()
        scene.gang(GANG, least, version=2, keeps_minimum=least > 1)
        await scene.settle()
        for name, where in (("x", "s"), ("y", "t")):
            scene.pods(name, cpu_milli=2_000, priority=10, **on(where))
            await scene.settle()
        assert scene.running("x", "y") == 2
        assert left(scene, "a", "b", "c") == (["a"] if least == 1 else [])

    play(story, *nodes("r", "s", "t"), **mesh)
