"""Gangs with members above their minCount: these come after the minimums of other gangs."""

from muster.cli.commands.why import lines_of
from muster.cli.output import time_of
from muster.explain.why.gangs import why_gang
from muster.explain.why.pods import why_pod
from shared.model.groups.topology import Topology
from tests.scenarios.scene import Scene, node, play
from tests.scenarios.test_topology import anywhere

ONE, TWO = "default/one", "default/two"
ONES, TWOS = tuple("abcd"), tuple("efgh")
FULL = tuple(f"full{number}" for number in range(8))
RACK = Topology(("rack",))


def nodes(count: int, rack: str = "r"):
    return [node(f"{rack}{number}", 1_000, labels={"rack": rack}) for number in range(count)]


def arrive(scene: Scene, key: str, *names: str, least: int = 2, cpu_milli: int = 1_000, **of: int):
    scene.gang(key, least, topology=of.pop("topology", None))
    scene.pods(*names, cpu_milli=cpu_milli, gang=key, **of)


async def fill(scene: Scene, count: int) -> None:
    scene.pods(*FULL[:count], cpu_milli=1_000)
    await scene.settle()


async def free(scene: Scene, count: int) -> None:
    scene.delete(*FULL[:count])
    await scene.settle()


@anywhere
def test_two_gangs_that_wait_start_with_their_minimums(mesh):
    async def story(scene: Scene):
        await fill(scene, 4)
        arrive(scene, ONE, *ONES)
        arrive(scene, TWO, *TWOS)
        await scene.settle()
        assert scene.running(*ONES, *TWOS) == 0
        await free(scene, 4)
        assert (scene.running(*ONES), scene.running(*TWOS)) == (2, 2)

    play(story, *nodes(4), **mesh)


@anywhere
def test_room_beyond_the_minimums_is_used(mesh):
    async def story(scene: Scene):
        await fill(scene, 7)
        arrive(scene, ONE, *ONES)
        arrive(scene, TWO, *TWOS)
        await scene.settle()
        await free(scene, 7)
        assert scene.running(*ONES) >= 2
        assert scene.running(*TWOS) >= 2
        assert scene.running(*ONES, *TWOS) == 7

    play(story, *nodes(7), **mesh)


@anywhere
def test_a_gang_alone_takes_what_it_can_get(mesh):
    async def story(scene: Scene):
        arrive(scene, ONE, *ONES)
        await scene.settle()
        assert scene.running(*ONES) == 4

    play(story, *nodes(4), **mesh)


@anywhere
def test_freed_room_goes_to_a_minimum_before_growth(mesh):
    async def story(scene: Scene):
        await fill(scene, 2)
        arrive(scene, ONE, *ONES)
        await scene.settle()
        assert scene.running(*ONES) == 2
        arrive(scene, TWO, *TWOS)
        await scene.settle()
        await free(scene, 2)
        assert (scene.running(*ONES), scene.running(*TWOS)) == (2, 2)
        scene.delete("e", "f", "g", "h")
        await scene.settle()
        assert scene.running(*ONES) == 4

    play(story, *nodes(4), **mesh)


@anywhere
def test_a_late_member_lets_a_minimum_go_first(mesh):
    async def story(scene: Scene):
        await fill(scene, 2)
        arrive(scene, ONE, "a", "b")
        await scene.settle()
        arrive(scene, TWO, *TWOS)
        await scene.settle()
        scene.delete(*FULL[:2])
        await scene.settle(0.1)
        scene.pods("c", "d", cpu_milli=1_000, gang=ONE)
        await scene.settle()
        assert (scene.running(*ONES), scene.running(*TWOS)) == (2, 2)

    play(story, *nodes(4), **mesh)


@anywhere
def test_minimums_of_lower_priority_do_not_hold_growth_back(mesh):
    async def story(scene: Scene):
        await fill(scene, 4)
        arrive(scene, ONE, *ONES, priority=1)
        arrive(scene, TWO, *TWOS)
        await scene.settle()
        await free(scene, 4)
        assert (scene.running(*ONES), scene.running(*TWOS)) == (4, 0)

    play(story, *nodes(4), queueing={"preemption": False}, **mesh)


@anywhere
def test_a_gang_that_fits_nowhere_does_not_hold_growth_back_for_ever(mesh):
    async def story(scene: Scene):
        await fill(scene, 4)
        arrive(scene, ONE, *ONES)
        arrive(scene, TWO, *TWOS, cpu_milli=2_000)
        await scene.settle()
        await free(scene, 4)
        assert scene.running(*ONES) == 4

    play(story, *nodes(4), **mesh)


@anywhere
def test_constant_improvements_for_a_gang_without_room_do_not_stop_growth(mesh):
    async def story(scene: Scene):
        await fill(scene, 6)
        arrive(scene, ONE, *ONES)
        arrive(scene, TWO, *(f"big{number}" for number in range(9)), least=9)
        await scene.settle()
        await free(scene, 2)
        assert scene.running(*ONES) == 2
        # Each pod that ends is an improvement for the big gang; all nodes together are too few.
        for number in range(2, 6):
            scene.delete(FULL[number])
            await scene.settle(6)
        await scene.settle(10)
        assert scene.running(*ONES) == 4

    play(story, *nodes(6), **mesh)


@anywhere
def test_late_members_of_a_gang_in_a_rack_come_after_minimums(mesh):
    async def story(scene: Scene):
        await fill(scene, 2)
        arrive(scene, ONE, *ONES, topology=RACK)
        await scene.settle()
        assert scene.running(*ONES) == 2
        arrive(scene, TWO, *TWOS, topology=RACK)
        await scene.settle()
        await free(scene, 2)
        assert (scene.running(*ONES), scene.running(*TWOS)) == (2, 2)
        scene.delete(*TWOS)
        await scene.settle()
        assert scene.running(*ONES) == 4

    play(story, *nodes(4), **mesh)


@anywhere
def test_members_that_wait_for_a_minimum_fall_with_their_gang(mesh):
    async def story(scene: Scene):
        await fill(scene, 2)
        arrive(scene, ONE, "a", "b")
        await scene.settle()
        arrive(scene, TWO, *TWOS, least=4)
        await scene.settle()
        scene.delete(FULL[0])
        scene.pods("c", "d", cpu_milli=1_000, gang=ONE)
        await scene.settle(0.5)
        scene.delete("a", "b")
        await scene.settle()
        assert scene.running("c", "d") in (0, 2)

    play(story, *nodes(4), **mesh)


@anywhere
def test_members_that_growth_holds_back_say_so(mesh):
    async def story(scene: Scene):
        await fill(scene, 4)
        arrive(scene, ONE, "a", "b")
        arrive(scene, TWO, *TWOS, least=4)
        await scene.settle()
        for name in FULL[:2]:  # each time the gang is tried in vain, and waits for longer
            scene.delete(name)
            await scene.settle(2.2)
        scene.delete(FULL[2])
        await scene.settle(0.1)
        scene.pods("c", cpu_milli=1_000, gang=ONE)
        await scene.settle(1.5)
        assert scene.running("c", *TWOS) == 0
        said = "gang default/one: members above minCount wait for gangs that lack theirs"
        assert await scene.said("c") == said
        lines = lines_of(await why_pod(scene.recorded(), "c"), time_of(0))
        assert lines[:2] == ["pod default/c: waiting for its gang", f"  {said}"]
        assert (await why_gang(scene.recorded(), "one")).message == said
        await scene.settle()
        assert scene.running("c") == 1

    play(story, *nodes(6), **mesh)
