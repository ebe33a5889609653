"""Queues get their guarantees back: pods that claim evict pods of queues that borrow, no others."""

import pytest

from muster.explain.why.pods import why_pod
from shared.events.queueing import PreemptAsked
from shared.model.cluster_objects import Queue
from shared.model.ids import QUEUEING
from tests.scenarios.scene import Scene, node, play
from tests.scenarios.test_topology import MESHES

anywhere = pytest.mark.parametrize("mesh", MESHES)
NODES = [node(name, 2_000) for name in ("n1", "n2", "n3")]


def queue(name: str, parent: str = "", **guaranteed: int) -> Queue:
    least = tuple(sorted(guaranteed.items()))
    return Queue(uid=f"{name}-uid", name=name, parent=parent, guaranteed=least)


def of(name: str) -> tuple[tuple[str, str], ...]:
    return (("muster.io/queue", name),)


def left(scene: Scene, *names: str) -> list[str]:
    return [name for name in names if f"uid-{name}" in scene.cluster.pods]


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


@anywhere
def test_a_claim_evicts_one_borrower_of_higher_priority_and_no_more_than_the_guarantee(mesh):
    async def story(scene: Scene):
        theirs = names("b", 6)
        scene.pods(*theirs, cpu_milli=1_000, priority=10, of=of("b"))
        await scene.settle()
        scene.pods("a0", cpu_milli=1_000, of=of("a"))
        await scene.settle()
        assert scene.running("a0") == 1
        assert len(left(scene, *theirs)) == 5
        scene.pods("a1", "a2", cpu_milli=1_000, of=of("a"))
        await scene.settle()
        assert scene.running("a1", "a2") == 1
        assert len(left(scene, *theirs)) == 4

    play(story, *NODES, objects=(queue("a", cpu=2_000), queue("b", cpu=1_000)), **mesh)


@anywhere
def test_nothing_is_taken_from_a_queue_within_its_guarantee(mesh):
    async def story(scene: Scene):
        theirs = names("b", 6)
        scene.pods(*theirs, cpu_milli=1_000, of=of("b"))
        await scene.settle()
        scene.pods(*names("a", 3), cpu_milli=1_000, priority=10, of=of("a"))
        await scene.settle()
        assert scene.running(*names("a", 3)) == 2
        assert len(left(scene, *theirs)) == 4, "neither by claims nor by priority"
        scene.pods("free", cpu_milli=1_000, priority=20)
        scene.pods("system", cpu_milli=1_000, priority=2_000_000_000)
        await scene.settle()
        assert scene.running("free", "system") == 1
        assert scene.running("system") == 1, "as in kube-scheduler"

    play(story, *NODES, objects=(queue("a", cpu=3_000), queue("b", cpu=4_000)), **mesh)


@anywhere
def test_the_place_is_kept_whatever_the_priority_of_what_comes_back(mesh):
    async def story(scene: Scene):
        scene.pods(*names("b", 6), cpu_milli=1_000, priority=10, of=of("b"))
        await scene.settle()
        scene.pods("a", cpu_milli=2_000, of=of("a"))
        await scene.settle(1)
        scene.pods(*names("new", 6), cpu_milli=1_000, priority=10, of=of("b"))
        await scene.settle(120)
        assert scene.running("a") == 1
        assert len(left(scene, *names("b", 6))) == 4, "one claim, two victims"

    tree = (queue("a", cpu=2_000), queue("b", cpu=1_000))
    play(story, *NODES, objects=tree, **{**mesh, "grace_ms": 5_000})


@anywhere
def test_queues_that_share_a_guarantee_take_nothing_from_each_other(mesh):
    async def story(scene: Scene):
        scene.pods(*names("b", 4), cpu_milli=1_000, of=of("b"))
        scene.pods(*names("s", 2), cpu_milli=1_000, priority=10, of=of("s"))
        await scene.settle()
        scene.pods(*names("a", 3), cpu_milli=1_000, of=of("a"))
        await scene.settle(120)
        assert scene.running(*names("a", 3)) == 1, "the guarantee of both is 5"
        assert len(left(scene, *names("b", 4))) == 4
        assert len(left(scene, *names("s", 2))) == 1

    tree = (queue("all", cpu=5_000), queue("a", "all"), queue("b", "all"), queue("s"))
    play(story, *NODES, objects=tree, **mesh)


@anywhere
def test_the_queue_that_borrows_most_gives_first(mesh):
    async def story(scene: Scene):
        scene.pods(*names("b", 2), cpu_milli=1_000, of=of("b"))
        scene.pods(*names("c", 4), cpu_milli=1_000, priority=10, of=of("c"))
        await scene.settle()
        for number in range(2):
            scene.pods(f"a{number}", cpu_milli=1_000, of=of("a"))
            await scene.settle()
        assert scene.running("a0", "a1") == 2
        assert len(left(scene, *names("c", 4))) == 2

    tree = (queue("a", cpu=2_000), queue("b"), queue("c"))
    play(story, node("n", 6_000), objects=tree, **mesh)


@anywhere
def test_a_claim_takes_what_is_left_above_guarantees_of_several_queues(mesh):
    async def story(scene: Scene):
        scene.pods(*names("b", 3), cpu_milli=1_000, of=of("b"))
        scene.pods(*names("c", 3), cpu_milli=1_000, of=of("c"))
        await scene.settle()
        scene.pods(*names("a", 4), cpu_milli=1_000, of=of("a"))
        scene.pods(*names("d", 4), cpu_milli=1_000, priority=10, of=of("d"))
        await scene.settle(60)
        assert scene.running(*names("a", 4), *names("d", 4)) == 2, "two above their guarantees"
        assert len(left(scene, *names("b", 3))) == 2
        assert len(left(scene, *names("c", 3))) == 2

    tree = (queue(name, cpu=n * 1_000) for name, n in (("a", 4), ("b", 2), ("c", 2), ("d", 4)))
    play(story, *NODES, objects=tuple(tree), **mesh)


def test_one_large_pod_leaves_if_the_small_ones_are_too_few():
    async def story(scene: Scene):
        scene.pods("large", cpu_milli=4_000, of=of("b"))
        scene.pods(*names("b", 3), cpu_milli=1_000, of=of("b"))
        await scene.settle()
        scene.pods("a", cpu_milli=4_000, of=of("a"))
        await scene.settle()
        assert scene.running("a") == 1
        assert left(scene, "large", *names("b", 3)) == names("b", 3)

    tree = (queue("a", cpu=4_000), queue("b", cpu=3_000))
    play(story, node("n", 7_000), objects=tree)


@anywhere
@pytest.mark.parametrize("least", [3_000, 4_000])
def test_a_gang_preempts_only_above_the_guarantees_of_others(mesh, least):
    async def story(scene: Scene):
        scene.pods(*names("b", 6), cpu_milli=1_000, of=of("b"))
        await scene.settle()
        scene.gang("default/g", 3)
        scene.pods(*names("a", 3), cpu_milli=1_000, gang="default/g", priority=10, of=of("a"))
        await scene.settle(60)
        assert scene.running(*names("a", 3)) == (3 if least == 3_000 else 0)
        assert len(left(scene, *names("b", 6))) == (3 if least == 3_000 else 6)

    tree = (queue("a"), queue("b", cpu=least))
    play(story, *NODES, objects=tree, queueing={"gang_preemption": True}, **mesh)


@anywhere
def test_a_pod_that_waits_claims_when_its_queue_uses_less_or_is_guaranteed_more(mesh):
    async def story(scene: Scene):
        scene.pods("a0", cpu_milli=1_000, of=of("a"))
        scene.pods(*names("b", 5), cpu_milli=1_000, of=of("b"))
        await scene.settle()
        scene.pods("a1", cpu_milli=2_000, of=of("a"))
        await scene.settle()
        assert scene.running("a1") == 0, "3 of the 2 that are guaranteed"
        scene.delete("a0")
        await scene.settle(5)
        assert scene.running("a1") == 1
        scene.pods("a2", cpu_milli=1_000, of=of("a"))
        await scene.settle()
        assert scene.running("a2") == 0
        scene.cluster.set_object(queue("a", cpu=3_000))
        await scene.settle(5)
        assert scene.running("a2") == 1

    play(story, *NODES, objects=(queue("a", cpu=2_000), queue("b")), **mesh)


def test_a_victim_knows_which_queue_got_its_guarantee():
    async def story(scene: Scene):
        scene.pods("b0", cpu_milli=2_000, priority=10, of=of("b"))
        await scene.settle()
        scene.pods("a0", cpu_milli=1_000, of=of("a"))
        await scene.settle()
        found = await why_pod(scene.recorded(), "b0")
        assert found.evicted is not None
        assert (found.evicted.by, found.evicted.claimed_for) == ("default/a0", "a")
        assert [one.pod for one in (await why_pod(scene.recorded(), "a0")).evictions] == [
            "default/b0"
        ]

    play(story, NODES[0], objects=(queue("a", cpu=1_000), queue("b")))


def test_priorities_and_claims_make_no_circle():
    """Each pod that is evicted is made again, as controllers do."""
    wanted = (("d", of("d"), 20), ("free", (), 10), ("c", of("c"), 0))

    async def story(scene: Scene):
        made: dict[str, list[str]] = {prefix: [] for prefix, _of, _priority in wanted}
        for _second in range(60):
            for prefix, labels, priority in wanted:
                if not left(scene, *made[prefix][-1:]):
                    made[prefix].append(f"{prefix}{len(made[prefix])}")
                    scene.pods(made[prefix][-1], cpu_milli=1_000, priority=priority, of=labels)
            await scene.settle(1)
        assert scene.running(*made["c"]) == 1
        assert sum(map(len, made.values())) <= 5, "one eviction, or two"

    play(story, node("one", 1_000), objects=(queue("c", cpu=1_000), queue("d")))


def test_members_of_a_gang_above_its_minimum_borrow_as_single_pods_do():
    async def story(scene: Scene):
        scene.gang("default/g", 1)
        scene.pods(*names("g", 6), cpu_milli=1_000, gang="default/g", of=of("a"))
        scene.pods(*names("c", 3), cpu_milli=1_000, of=of("c"))
        await scene.settle(60)
        assert scene.running(*names("c", 3)) == 3
        assert len(left(scene, *names("g", 6))) == 6, "no pod was evicted"
        assert scene.running(*names("g", 6)) == 3

    play(story, *NODES, objects=(queue("a", cpu=1_000), queue("c", cpu=3_000)))


def test_what_asks_in_vain_asks_ever_more_rarely():
    async def story(scene: Scene):
        scene.pods(*names("b", 6), cpu_milli=900, of=of("b"))
        await scene.settle()
        scene.pods("a", cpu_milli=1_000, of=of("a"))
        await scene.settle()
        for number in range(60):
            scene.pods(f"c{number}", cpu_milli=10, of=of("c"))
            await scene.settle(0.5)
            scene.delete(f"c{number}")
            await scene.settle(0.5)
        assert await scene.count(QUEUEING, PreemptAsked) <= 8, "after 2, 4, 8, 16, 30 s"

    play(story, *NODES, objects=(queue("a", cpu=500), queue("b", cpu=5_400), queue("c")))
