"""Queues: no more than their max runs, what waits says so, and starts when there is room."""

import pytest
from msgspec.structs import replace

from muster.cli.commands.get import Asked
from muster.cli.commands.lists import listing
from muster.explain.lists import list_queues
from muster.explain.why.pods import why_pod
from shared.model.cluster_objects import Namespace, Queue
from shared.model.objects import GpuRequest
from tests.scenarios.scene import Scene, node, play
from tests.scenarios.test_topology import MESHES

GANG = "default/g"
anywhere = pytest.mark.parametrize("mesh", MESHES)
TEAM = (("muster.io/queue", "team"),)
OTHER = (("muster.io/queue", "other"),)
NODES = [node(name, 4_000) for name in ("a", "b", "c")]


def queue(name: str, parent: str = "", **most: int) -> Queue:
    limits = {key.replace("gpu", "nvidia.com/gpu"): value for key, value in most.items()}
    return Queue(uid=f"{name}-uid", name=name, parent=parent, max=tuple(sorted(limits.items())))


def guaranteed(name: str, **least: int) -> Queue:
    return replace(queue(name), guaranteed=tuple(sorted(least.items())))


def names(count: int) -> list[str]:
    return [f"p{number}" for number in range(count)]


@anywhere
def test_no_more_than_the_max_runs_and_the_next_start_when_pods_end(mesh):
    async def story(scene: Scene):
        scene.pods(*names(5), cpu_milli=1_000, of=TEAM)
        scene.pods("free", cpu_milli=1_000)
        await scene.settle()
        assert scene.running(*names(5)) == 2
        assert scene.running("free") == 1
        assert await scene.said("p4") == "queue team is at its max for cpu (2/2)"
        scene.delete(*(name for name in names(5) if scene.running(name)))
        await scene.settle(1)
        assert scene.running(*names(5)[2:]) == 2

    play(story, *NODES, objects=(queue("team", cpu=2_000),), **mesh)


@anywhere
def test_the_max_of_a_queue_above_counts_for_all_below_it(mesh):
    async def story(scene: Scene):
        scene.pods("a", "b", cpu_milli=1_000, of=TEAM)
        scene.pods("c", "d", cpu_milli=1_000, of=(("muster.io/queue", "other"),))
        await scene.settle()
        assert scene.running("a", "b", "c", "d") == 3
        assert await scene.said("d") == "queue all is at its max for pods (3/3)"

    tree = (queue("all", pods=3), queue("team", "all"), queue("other", "all"))
    play(story, *NODES, objects=tree, **mesh)


@anywhere
def test_a_gang_starts_with_whole_minimum_or_waits(mesh):
    async def story(scene: Scene):
        scene.pods("single", cpu_milli=1_000, of=TEAM)
        scene.gang(GANG, 3)
        scene.pods(*names(3), cpu_milli=1_000, gang=GANG, of=TEAM)
        await scene.settle()
        assert scene.running(*names(3)) == 0
        assert scene.running("single") == 1
        assert await scene.said("p0") == "queue team is at its max for cpu (1/3)"
        scene.gang(GANG, 2, version=2)
        await scene.settle()
        assert scene.running(*names(3)) == 2
        scene.delete("single")
        await scene.settle(1)
        assert scene.running(*names(3)) == 3

    play(story, *NODES, objects=(queue("team", cpu=3_000),), **mesh)


@anywhere
def test_a_changed_tree_counts_at_once(mesh):
    async def story(scene: Scene):
        scene.pods(*names(4), cpu_milli=1_000, of=TEAM)
        await scene.settle()
        assert scene.running(*names(4)) == 1
        scene.cluster.set_object(queue("team", "gone", cpu=9_000))
        await scene.settle()
        assert scene.running(*names(4)) == 1, "the last tree stays"
        scene.cluster.set_object(queue("team", cpu=3_000))
        await scene.settle(0.5)
        assert scene.running(*names(4)) == 3
        scene.cluster.remove_object("team-uid")
        await scene.settle(0.5)
        assert scene.running(*names(4)) == 4

    play(story, *NODES, objects=(queue("team", cpu=1_000),), **mesh)


@anywhere
def test_pods_that_run_count_when_the_first_queue_comes(mesh):
    async def story(scene: Scene):
        scene.pods("old", cpu_milli=1_000, of=TEAM)
        await scene.settle()
        scene.cluster.set_object(queue("team", cpu=2_000))
        await scene.settle(1)
        scene.pods("new", "newer", cpu_milli=1_000, of=TEAM)
        await scene.settle()
        assert scene.running("old", "new", "newer") == 2

    play(story, *NODES, **mesh)


@anywhere
def test_pods_of_a_queue_that_does_not_exist_wait(mesh):
    async def story(scene: Scene):
        scene.pods("p", cpu_milli=1_000, of=TEAM)
        await scene.settle()
        assert await scene.said("p") == "queue team does not exist"
        scene.cluster.set_object(queue("team"))
        await scene.settle(1)
        assert scene.running("p") == 1

    play(story, *NODES, objects=(queue("other"),), **mesh)


@anywhere
def test_a_pod_that_preempts_stays_below_the_max(mesh):
    async def story(scene: Scene):
        scene.pods("low1", "low2", "low3", cpu_milli=4_000)
        await scene.settle()
        scene.pods(*names(3), cpu_milli=4_000, priority=10, of=TEAM)
        await scene.settle(60)
        assert scene.running(*names(3)) == 2
        left = [name for name in ("low1", "low2", "low3") if f"uid-{name}" in scene.cluster.pods]
        assert len(left) == 1

    play(story, *NODES, objects=(queue("team", cpu=8_000),), **mesh)


def test_the_list_shows_what_is_guaranteed_and_what_is_borrowed():
    async def story(scene: Scene):
        scene.pods(*names(3), cpu_milli=1_500, of=TEAM)
        scene.pods("x", cpu_milli=1_000, of=OTHER)
        await scene.settle()
        rows, _newest = await list_queues(scene.recorded())
        assert [(one.queue, one.guaranteed, one.borrowed) for one in rows] == [
            ("other", {"cpu": "2"}, {}),
            ("team", {}, {"cpu": "4500m"}),
        ]
        table = await listing(scene.recorded(), Asked("queues", None, "", False, "", 1), False)
        shown = [(row["GUARANTEED"], row["BORROWED"]) for row in table.cells]
        assert shown == [("cpu 2", ""), ("", "cpu 4500m")]

    play(story, *NODES, objects=(queue("team"), guaranteed("other", cpu=2_000)))


@anywhere
def test_a_guarantee_goes_before_a_borrower_of_higher_priority(mesh):
    async def story(scene: Scene):
        scene.pods(*names(6), cpu_milli=2_000, of=TEAM)
        await scene.settle()
        assert scene.running(*names(6)) == 6, "what is guaranteed to another queue may be borrowed"
        scene.pods("x1", "x2", cpu_milli=2_000, priority=10, of=TEAM, never_preempts=True)
        scene.pods("y1", "y2", cpu_milli=2_000, of=OTHER, never_preempts=True)
        await scene.settle(60)
        scene.finish("p0", "p1")
        await scene.settle()
        assert [scene.running(name) for name in ("x1", "x2", "y1", "y2")] in (
            [1, 0, 1, 0],
            [0, 1, 1, 0],
        )
        scene.cluster.set_object(guaranteed("other", cpu=4_000))
        scene.finish("p2")
        await scene.settle()
        assert scene.running("y1", "y2") == 2

    play(story, *NODES, objects=(queue("team"), guaranteed("other", cpu=2_000)), **mesh)


def test_the_namespace_names_the_queue_and_parts_of_devices_count():
    async def story(scene: Scene):
        scene.pods(*names(3), cpu_milli=100, gpu=GpuRequest(500))
        await scene.settle()
        assert scene.running(*names(3)) == 1
        assert await scene.said("p2") == "queue team is at its max for nvidia.com/gpu (500m/750m)"

    space = Namespace(uid="ns", name="default", labels=TEAM)
    gpus = node("a", 4_000, gpu_count=2)
    play(story, gpus, objects=(space, queue("team", gpu=750)))


def test_queues_are_listed_as_a_tree_and_a_waiting_pod_knows_its_reason():
    async def story(scene: Scene):
        scene.pods(*names(3), cpu_milli=1_500, of=TEAM)
        await scene.settle()
        rows, _newest = await list_queues(scene.recorded())
        assert [(one.queue, one.depth, one.waiting) for one in rows] == [
            *(("all", 0, 0), ("other", 1, 0), ("team", 1, 2))
        ]
        assert (rows[0].used, rows[0].max) == ({"cpu": "1500m", "pods": "1"}, {})
        assert (rows[1].used, rows[2].max) == ({}, {"cpu": "2"})
        assert rows[0].wait_start_time is None
        assert rows[2].wait_start_time is not None
        found = await why_pod(scene.recorded(), "p2")
        full = "queue team is at its max for cpu (1500m/2)"
        assert full in (found.message or found.detail)
        table = await listing(scene.recorded(), Asked("queues", None, "", False, "", 1), False)
        assert table.cells[2] | {"WAIT": ""} == {
            "QUEUE": "  team",
            "USED": "cpu 1500m/2",
            "WAITING": "2",
            "WAIT": "",
        }

    tree = (queue("all"), queue("team", "all", cpu=2_000), queue("other", "all"))
    play(story, *NODES, objects=tree)


@anywhere
def test_what_borrows_leaves_the_guarantee_of_others_free_below_a_max(mesh):
    async def story(scene: Scene):
        scene.pods(*names(6), cpu_milli=1_000, of=TEAM)
        await scene.settle()
        assert scene.running(*names(6)) == 4
        kept = "queue all is at its max for cpu (4/6, 2 kept for guarantees)"
        assert await scene.said("p5") == kept
        scene.pods("a", "b", "c", cpu_milli=1_000, of=OTHER)
        await scene.settle()
        assert scene.running("a", "b", "c") == 2
        assert scene.running(*names(6)) == 4
        assert await scene.said("c") == "queue all is at its max for cpu (6/6)"

    tree = (
        queue("all", cpu=6_000),
        queue("team", "all"),
        replace(guaranteed("other", cpu=2_000), parent="all"),
    )
    play(story, *NODES, objects=tree, **mesh)
