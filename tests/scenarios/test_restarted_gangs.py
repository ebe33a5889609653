"""Gangs whose members leave after the start: below minCount the replacements start together."""

import pytest

from shared.events.queueing import GangDispatched
from shared.model.ids import QUEUEING
from tests.scenarios.scene import Scene, node, play

MESHES = [
    pytest.param({"placements": 1}, id="one-shard"),
    pytest.param({"placements": 3}, id="three-shards"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
GANG = "default/g"
FEW = "waiting for minCount pods from a gang to appear in scheduling queue"


def nodes(count: int):
    return [node(f"n{number}", 1_000) for number in range(count)]


async def start(scene: Scene, least: int, *names: str) -> None:
    scene.gang(GANG, least)
    scene.pods(*names, cpu_milli=1_000, gang=GANG)
    await scene.settle()
    assert scene.running(*names) == len(names)


@anywhere
def test_a_gang_that_is_made_anew_starts_whole(mesh):
    async def story(scene: Scene):
        await start(scene, 3, "a", "b", "c")
        scene.delete("a", "b", "c")
        scene.pods("other", cpu_milli=1_000)
        await scene.settle()
        scene.pods("d", "e", "f", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("d", "e", "f") == 0
        assert (await scene.said("d")).startswith(f"gang {GANG}: 2 of 3 members have a node")
        scene.delete("other")
        await scene.settle()
        assert scene.running("d", "e", "f") == 3

    play(story, *nodes(3), **mesh)


@anywhere
def test_replacements_start_together_with_those_that_run(mesh):
    async def story(scene: Scene):
        await start(scene, 3, "a", "b", "c")
        scene.delete("a", "b")
        scene.pods("other", cpu_milli=1_000)
        await scene.settle()
        scene.pods("d", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("d") == 0
        assert await scene.said("d") == FEW
        scene.pods("e", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("d", "e") == 0
        scene.delete("other")
        await scene.settle()
        assert scene.running("c", "d", "e") == 3

    play(story, *nodes(3), **mesh)


@anywhere
def test_members_above_min_count_come_and_go_one_by_one(mesh):
    async def story(scene: Scene):
        await start(scene, 2, "a", "b", "c")
        scene.delete("a")
        scene.pods("d", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("b", "c", "d") == 3
        scene.pods("e", "f", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("e", "f") == 1

    play(story, *nodes(4), **mesh)


@anywhere
def test_members_that_waited_singly_wait_with_their_gang_again(mesh):
    async def story(scene: Scene):
        await start(scene, 2, "a", "b")
        scene.pods("c", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("c") == 0
        scene.delete("a", "b")
        scene.pods("other", cpu_milli=1_000)
        await scene.settle()
        assert scene.running("c") == 0
        scene.pods("d", cpu_milli=1_000, gang=GANG)
        scene.delete("other")
        await scene.settle()
        assert scene.running("c", "d") == 2

    play(story, *nodes(2), **mesh)


@anywhere
def test_a_member_that_finished_is_not_waited_for(mesh):
    async def story(scene: Scene):
        await start(scene, 3, "a", "b", "c")
        scene.finish("a", "b")
        scene.delete("c")
        scene.pods("d", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("d") == 1

    play(story, *nodes(3), **mesh)


def test_a_gang_that_a_gated_member_joined_is_tried_again():
    async def tries(scene: Scene) -> int:
        return sum([isinstance(one, GangDispatched) async for one in scene._events(QUEUEING)])

    async def story(scene: Scene):
        scene.gang("default/g", 2)
        scene.pods("a", "b", cpu_milli=1_000, gang="default/g")
        await scene.settle(5)
        before = await tries(scene)
        scene.pods("c", cpu_milli=1_000, gang="default/g", gated=True)
        await scene.settle(60)
        assert await tries(scene) > before

    play(story, node("n", 1_000))
