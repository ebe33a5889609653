"""Groups whose pods are no victims before they have run for a while."""

from tests.scenarios.scene import Scene, play
from tests.scenarios.test_preemption_units import anywhere, left, nodes, on

GANG = "default/g"
RUN_S = 60


async def start(scene: Scene, *names: str, **more: object) -> None:
    scene.gang(GANG, 1, priority=0, minimum_run_ms=RUN_S * 1_000, **more)
    for name, where in zip(names, "rst", strict=False):
        scene.pods(name, cpu_milli=2_000, gang=GANG, **on(where))
    await scene.settle()
    assert scene.running(*names) == len(names)


@anywhere
def test_a_pod_is_no_victim_before_and_the_preemptor_is_tried_then(mesh):
    async def story(scene: Scene):
        await start(scene, "a")
        scene.pods("high", cpu_milli=2_000, priority=10)
        await scene.settle(RUN_S / 2)
        assert left(scene, "a") == ["a"]
        said = await scene.said("high")
        assert "1 node(s) have only pods that their minimum run time protects until " in said
        await scene.settle(RUN_S / 2 + 10)
        assert scene.where("high") == ["r"]
        assert left(scene, "a") == []

    play(story, *nodes("r"), **mesh)


@anywhere
def test_other_pods_are_victims_meanwhile(mesh):
    async def story(scene: Scene):
        await start(scene, "a")
        scene.pods("other", cpu_milli=2_000, priority=5, **on("s"))
        await scene.settle(5)
        scene.pods("high", cpu_milli=2_000, priority=10)
        await scene.settle(5)
        assert left(scene, "a", "other") == ["a"]
        assert scene.where("high") == ["s"]

    play(story, *nodes("r", "s"), **mesh)


@anywhere
def test_victims_that_come_meanwhile_count_at_once(mesh):
    async def story(scene: Scene):
        await start(scene, "a")
        scene.pods("high", cpu_milli=2_000, priority=10)
        await scene.settle(5)
        (node,) = nodes("s")
        scene.pods("other", cpu_milli=2_000, priority=11, **on("s"))
        scene.cluster.set_node(node)
        await scene.settle(5)
        assert scene.running("high") == 0
        scene.delete("other")
        await scene.settle(5)
        assert scene.where("high") == ["s"]

    play(story, *nodes("r"), **mesh)


@anywhere
def test_a_gang_evicts_pods_that_have_run_for_long_enough(mesh):
    async def story(scene: Scene):
        await start(scene, "a", "b")
        scene.gang("default/h", 2, priority=10)
        scene.pods("x", "y", cpu_milli=2_000, priority=10, gang="default/h")
        await scene.settle(RUN_S / 2)
        assert left(scene, "a", "b") == ["a", "b"]
        await scene.settle(6 * RUN_S)
        assert scene.running("x", "y") == 2

    play(story, *nodes("r", "s"), queueing={"gang_preemption": True}, **mesh)


@anywhere
def test_a_group_may_end_its_protection(mesh):
    async def story(scene: Scene):
        await start(scene, "a")
        scene.gang(GANG, 1, version=2, priority=0)
        scene.pods("high", cpu_milli=2_000, priority=10)
        await scene.settle(5)
        assert scene.running("high") == 1

    play(story, *nodes("r"), **mesh)
