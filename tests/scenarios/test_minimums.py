"""Gangs with minimums for their parts, as Volcano's minTaskMember has them."""

import pytest

from shared.model.objects import PartMinimum
from tests.scenarios.scene import Scene, node, play

MESHES = [
    pytest.param({"placements": 1}, id="one-shard"),
    pytest.param({"placements": 3}, id="three-shards"),
    pytest.param({"placements": 1, "batch": False}, id="single-cycles"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
GANG = "default/g@volcano"
TASKS = (PartMinimum("master", 1), PartMinimum("worker", 2))
WORKERS = ("w0", "w1", "w2", "w3")
NODES = [node(f"node-{number}", 2_000, labels={"size": "small"}) for number in range(2)]
SMALL, LARGE = (("size", "small"),), (("size", "large"),)


def create(scene: Scene, *workers: str, master_milli: int = 4_000) -> None:
    """Create a gang of at least three: a master, which is large, and two workers."""
    scene.gang(GANG, 3, minimums=TASKS)
    scene.pods(*workers, cpu_milli=1_000, gang=GANG, part="worker", node_selector=SMALL)
    scene.pods("master", cpu_milli=master_milli, gang=GANG, part="master")


@anywhere
def test_enough_workers_without_room_for_the_master_wait(mesh):
    async def story(scene: Scene):
        scene.pods("blocker", cpu_milli=3_000, node_selector=LARGE)
        await scene.settle()
        create(scene, *WORKERS)
        await scene.settle()
        assert scene.running(*WORKERS, "master") == 0
        scene.pods("other", cpu_milli=2_000, node_selector=SMALL)
        await scene.settle()
        assert scene.running("other") == 1, "the gang holds nothing while it waits"
        scene.delete("blocker")
        await scene.settle()
        assert scene.where("master") == ["large"]
        assert scene.running(*WORKERS) == 2, "the others are single pods without room"

    play(story, *NODES, node("large", 4_000, labels=dict(LARGE)), **mesh)


@anywhere
def test_members_that_tasks_need_go_before_others(mesh):
    async def story(scene: Scene):
        create(scene, *WORKERS, master_milli=1_000)
        await scene.settle()
        assert scene.running("master") == 1
        assert scene.running(*WORKERS) == 3

    play(story, *NODES, **mesh)


@anywhere
def test_a_gang_waits_until_every_task_has_its_members(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 3, minimums=TASKS)
        scene.pods(*WORKERS, cpu_milli=500, gang=GANG, part="worker")
        await scene.settle()
        assert scene.running(*WORKERS) == 0
        assert 'waiting for 1 pod of "master"' in await scene.said("w0")
        scene.pods("master", cpu_milli=500, gang=GANG, part="master")
        await scene.settle()
        assert scene.running(*WORKERS, "master") == 5

    play(story, *NODES, **mesh)


@anywhere
def test_two_whole_sub_groups_come_or_none(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 4, minimums=(PartMinimum("team", 2, parts=2),))
        for team in ("a", "b", "c"):
            names = (f"{team}0", f"{team}1")
            scene.pods(*names[:1], cpu_milli=1_000, gang=GANG, part=f"team/{team}")
        scene.pods("a1", "a2", cpu_milli=1_000, gang=GANG, part="team/a")
        await scene.settle()
        assert scene.running("a0", "a1", "a2", "b0", "c0") == 0, "one whole sub-group of two"
        scene.pods("c1", cpu_milli=1_000, gang=GANG, part="team/c")
        await scene.settle()
        assert scene.running("a0", "a1", "c0", "c1") == 4
        assert scene.running("a2", "b0") == 0

    play(story, *NODES, **mesh)
