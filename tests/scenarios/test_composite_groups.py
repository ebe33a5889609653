"""CompositePodGroups: trees of groups start as kube-scheduler 1.37 starts them, or wait."""

import pytest

from tests.scenarios.scene import Scene, node, play

MESHES = [
    pytest.param({"placements": 1}, id="one-shard"),
    pytest.param({"placements": 3}, id="three-shards"),
    pytest.param({"placements": 1, "batch": False}, id="single-cycles"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
ROOT = "default/root@composite"
NODES = [node(f"node-{number}", 2_000) for number in range(3)]
"""Room for six pods of a CPU."""


def composite(scene: Scene, name: str, min_groups: int = 1, parent: str = "", **more) -> None:
    key = f"default/{name}@composite"
    scene.gang(key, 1, min_groups=min_groups, parent=_key(parent), **more)


def group(scene: Scene, name: str, min_count: int, parent: str = "root", **more) -> None:
    """Add a PodGroup; groups are as old as their names say."""
    scene.gang(f"default/{name}", min_count, parent=_key(parent), created=name, **more)


def members(scene: Scene, name: str, count: int, cpu_milli: int = 1_000, **more) -> list[str]:
    names = [f"{name}-{number}" for number in range(count)]
    scene.pods(*names, cpu_milli=cpu_milli, gang=f"default/{name}", **more)
    return names


def _key(parent: str) -> str:
    return f"default/{parent}@composite" if parent else ""


@anywhere
def test_a_tree_starts_with_as_many_groups_as_it_needs_or_not_at_all(mesh):
    async def story(scene: Scene):
        scene.pods("blocker", cpu_milli=2_000)
        await scene.settle()
        composite(scene, "root", 2)
        group(scene, "a", 3)
        group(scene, "b", 2)
        pods = members(scene, "a", 3) + members(scene, "b", 2)
        await scene.settle()
        assert scene.running(*pods) == 0, "a has room, but not both"
        assert "1 of 2 groups have nodes" in await scene.said("a-0")
        assert await scene.said("b-0") == await scene.said("a-0")
        scene.pods("other", cpu_milli=2_000)
        await scene.settle()
        assert scene.running("other") == 1, "a tree that waits holds nothing"
        scene.delete("blocker", "other")
        await scene.settle()
        assert scene.running(*pods) == 5

    play(story, *NODES, **mesh)


@anywhere
def test_an_infeasible_group_gives_its_room_to_the_next(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        group(scene, "a", 7)
        group(scene, "b", 4)
        pods_a = members(scene, "a", 7)
        pods_b = members(scene, "b", 4)
        await scene.settle()
        assert scene.running(*pods_a) == 0
        assert scene.running(*pods_b) == 4

    play(story, *NODES, **mesh)


@anywhere
def test_groups_are_tried_in_the_order_of_their_age(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        group(scene, "b", 4)
        group(scene, "a", 4)
        pods_b = members(scene, "b", 4)
        pods_a = members(scene, "a", 4)
        await scene.settle()
        assert (scene.running(*pods_a), scene.running(*pods_b)) == (4, 0)

    play(story, *NODES, **mesh)


@anywhere
def test_a_tree_waits_until_enough_groups_have_their_members(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 2)
        group(scene, "a", 2)
        group(scene, "b", 2)
        pods = members(scene, "a", 2) + members(scene, "b", 1)
        await scene.settle()
        assert scene.running(*pods) == 0
        said = 'waiting for composite pod group "root" tree to meet quorum'
        assert await scene.said("a-0") == said
        scene.pods("b-1", cpu_milli=1_000, gang="default/b")
        await scene.settle()
        assert scene.running(*pods, "b-1") == 4

    play(story, *NODES, **mesh)


@anywhere
@pytest.mark.parametrize("first", ["pods", "groups"])
def test_pods_wait_for_a_root_that_comes_last(mesh, first):
    async def story(scene: Scene):
        pods = members(scene, "a", 2) if first == "pods" else []
        group(scene, "a", 2)
        pods = pods or members(scene, "a", 2)
        await scene.settle()
        assert scene.running(*pods) == 0
        said = 'waiting for composite pod group "root" tree to meet quorum'
        assert await scene.said("a-0") == said
        composite(scene, "root", 1)
        await scene.settle()
        assert scene.running(*pods) == 2

    play(story, *NODES, **mesh)


@anywhere
def test_later_members_join_and_later_groups_start_whole(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        group(scene, "a", 2)
        pods = members(scene, "a", 2)
        await scene.settle()
        assert scene.running(*pods) == 2
        scene.pods("a-2", cpu_milli=1_000, gang="default/a")
        await scene.settle()
        assert scene.running("a-2") == 1
        group(scene, "b", 4)
        pods = members(scene, "b", 4)
        await scene.settle()
        assert scene.running(*pods) == 0, "there is room for three"
        scene.delete("a-2")
        await scene.settle()
        assert scene.running(*pods) == 4

    play(story, *NODES, **mesh)


@anywhere
def test_a_tree_of_three_levels(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        composite(scene, "x", 2, "root", created="x")
        composite(scene, "y", 1, "root", created="y")
        group(scene, "x1", 3, "x")
        group(scene, "x2", 4, "x")
        group(scene, "y1", 5, "y")
        pods_x = members(scene, "x1", 3) + members(scene, "x2", 4)
        pods_y = members(scene, "y1", 5)
        await scene.settle()
        assert scene.running(*pods_x) == 0, "x2 has no room, so x1 gives up its own"
        assert scene.running(*pods_y) == 5

    play(story, *NODES, **mesh)


@anywhere
def test_basic_groups_need_one_member(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        group(scene, "a", 1)
        pods = members(scene, "a", 8)
        await scene.settle()
        assert scene.running(*pods) == 6

    play(story, *NODES, **mesh)


@anywhere
def test_a_group_that_leaves_its_tree_is_a_gang_by_itself(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 2)
        group(scene, "a", 2)
        pods = members(scene, "a", 2)
        await scene.settle()
        assert scene.running(*pods) == 0
        group(scene, "a", 2, parent="")
        await scene.settle()
        assert scene.running(*pods) == 2

    play(story, *NODES, **mesh)


@anywhere
def test_the_pods_of_a_tree_with_disruption_mode_all_leave_together(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 2, is_unit=True, priority=0)
        group(scene, "a", 1, priority=0)
        group(scene, "b", 1, priority=0)
        pods = members(scene, "a", 2) + members(scene, "b", 2)
        await scene.settle()
        assert scene.running(*pods) == 4
        scene.pods("high", cpu_milli=2_000, priority=10, node_selector=(("name", "first"),))
        await scene.settle()
        assert scene.where("high") == ["node-0"]
        assert [name for name in pods if f"uid-{name}" in scene.cluster.pods] == []

    labelled = node("node-0", 2_000, labels={"name": "first"})
    play(story, labelled, node("node-1", 1_000), node("node-2", 1_000), **mesh)


@anywhere
def test_a_tree_that_lost_members_starts_again_with_as_many_as_it_needs(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        group(scene, "a", 3)
        pods = members(scene, "a", 3)
        await scene.settle()
        assert scene.running(*pods) == 3
        scene.delete("a-0", "a-1")
        scene.pods("blocker", cpu_milli=2_000)
        await scene.settle()
        scene.pods("blocker-2", cpu_milli=2_000)
        await scene.settle()
        scene.pods("a-3", "a-4", cpu_milli=1_000, gang="default/a")
        await scene.settle()
        assert scene.running("a-3", "a-4") == 0, "there is room for one of two"
        scene.delete("blocker")
        await scene.settle()
        assert scene.running("a-3", "a-4") == 2

    play(story, *NODES, **mesh)


@anywhere
@pytest.mark.parametrize("is_enough", [True, False])
def test_pods_are_evicted_for_all_members_that_a_tree_needs_or_none(mesh, is_enough):
    async def story(scene: Scene):
        low = members(scene, "low", 3, cpu_milli=1_000)
        scene.gang("default/low", 1, priority=0)
        scene.pods("high", cpu_milli=2_000, priority=100)
        await scene.settle()
        assert scene.running(*low, "high") == 4
        composite(scene, "root", 2)
        group(scene, "a", 2)
        group(scene, "b", 2 if is_enough else 3)
        group(scene, "c", 2)
        pods = members(scene, "a", 2, priority=10) + members(scene, "b", 3, priority=10)
        pods += members(scene, "c", 2, priority=10)
        await scene.settle(60.0)
        gone = [name for name in low if f"uid-{name}" not in scene.cluster.pods]
        if is_enough:
            assert scene.running(*pods) == 4
            assert len(gone) == 3
        else:
            assert (scene.running(*pods), gone) == (0, [])

    play(story, *NODES, queueing={"gang_preemption": True}, **mesh)
