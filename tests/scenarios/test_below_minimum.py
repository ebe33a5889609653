"""Gangs of which fewer than minCount are left: they wait, are evicted or go on after a grace."""

from shared.model.groups.below_minimum import EVICT, SHRINK, BelowMinimum
from tests.scenarios.scene import Scene, node, play
from tests.scenarios.test_restarted_gangs import FEW, GANG, anywhere

GRACE_S = 20


def nodes(count: int):
    return [node(f"n{number}", 1_000) for number in range(count)]


async def start(scene: Scene, rule: str, least: int, *names: str, **more: object) -> None:
    below = BelowMinimum(rule, GRACE_S * 1_000) if rule else None
    scene.gang(GANG, least, below_minimum=below, **more)
    scene.pods(*names, cpu_milli=1_000, gang=GANG)
    await scene.settle()
    assert scene.running(*names) == len(names)


def left(scene: Scene, *names: str) -> list[str]:
    return [name for name in names if f"uid-{name}" in scene.cluster.pods]


@anywhere
def test_the_rest_is_evicted_after_the_grace(mesh):
    async def story(scene: Scene):
        await start(scene, EVICT, 3, "a", "b", "c")
        scene.delete("a")
        await scene.settle(GRACE_S - 5)
        assert left(scene, "b", "c") == ["b", "c"]
        await scene.settle(10)
        assert left(scene, "b", "c") == []
        scene.pods("d", "e", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("d", "e") == 0
        scene.pods("f", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("d", "e", "f") == 3

    play(story, *nodes(3), **mesh)


@anywhere
def test_a_replacement_within_the_grace_keeps_the_rest(mesh):
    async def story(scene: Scene):
        await start(scene, EVICT, 2, "a", "b")
        scene.delete("a")
        await scene.settle(GRACE_S - 5)
        scene.pods("c", cpu_milli=1_000, gang=GANG)
        await scene.settle(GRACE_S + 5)
        assert scene.running("b", "c") == 2
        # The next fall has a grace of its own.
        scene.delete("c")
        await scene.settle(GRACE_S - 5)
        assert left(scene, "b") == ["b"]
        await scene.settle(10)
        assert left(scene, "b") == []

    play(story, *nodes(2), **mesh)


@anywhere
def test_without_a_rule_the_rest_stays(mesh):
    async def story(scene: Scene):
        await start(scene, "", 2, "a", "b")
        scene.delete("a")
        await scene.settle(10 * GRACE_S)
        assert left(scene, "b") == ["b"]

    play(story, *nodes(2), **mesh)


@anywhere
def test_the_rest_goes_on_after_the_grace_with_single_newcomers(mesh):
    async def story(scene: Scene):
        await start(scene, SHRINK, 3, "a", "b", "c")
        scene.delete("a", "b")
        scene.pods("d", cpu_milli=1_000, gang=GANG)
        await scene.settle(GRACE_S - 5)
        assert scene.running("d") == 0
        assert await scene.said("d") == FEW
        await scene.settle(10)
        assert scene.running("c", "d") == 2
        # When none is left the gang starts whole again.
        scene.delete("c", "d")
        scene.pods("e", "f", cpu_milli=1_000, gang=GANG)
        await scene.settle(2 * GRACE_S)
        assert scene.running("e", "f") == 0
        scene.pods("g", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("e", "f", "g") == 3

    play(story, *nodes(3), **mesh)


@anywhere
def test_finished_members_still_count(mesh):
    async def story(scene: Scene):
        await start(scene, EVICT, 2, "a", "b")
        scene.finish("a")
        await scene.settle(2 * GRACE_S)
        assert left(scene, "b") == ["b"]

    play(story, *nodes(2), **mesh)


@anywhere
def test_a_group_may_change_its_rule_within_the_grace(mesh):
    async def story(scene: Scene):
        await start(scene, EVICT, 2, "a", "b")
        scene.delete("a")
        await scene.settle(GRACE_S - 5)
        scene.gang(GANG, 2, version=2)
        await scene.settle(2 * GRACE_S)
        assert left(scene, "b") == ["b"]

    play(story, *nodes(2), **mesh)
