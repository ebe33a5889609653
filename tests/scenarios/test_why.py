"""`muster why` of pods that are gone or leave: evicted for whom, finished or deleted."""

from muster.cli.commands.why import lines_of
from muster.explain.why.answers import Answer
from muster.explain.why.pods import why_pod
from tests.scenarios.scene import Scene, node, play

GRACE_S = 300


async def ask(scene: Scene, name: str, on: str = "") -> Answer:
    return await why_pod(scene.recorded(), name, node=on)


async def first_line(scene: Scene, name: str) -> str:
    return lines_of(await ask(scene, name), 0)[0]


def test_an_evicted_pod_knows_for_which_pod_it_left():
    async def story(scene: Scene) -> None:
        scene.pods("low-0", "low-1", cpu_milli=1_000, priority=1)
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=1_000)
        await scene.settle()
        assert scene.where("high") == ["n"]
        found = await ask(scene, "low-0")
        assert found.evicted is not None
        assert (found.evicted.node, found.evicted.by) == ("n", "default/high")
        assert (found.evicted.priority, found.evicted.victims) == (1_000, 2)
        line = await first_line(scene, "low-0")
        assert line.startswith("pod default/low-0: evicted from n at 2023-11-14 22:1")
        assert line.endswith(" UTC for default/high (priority 1000), 1 of 2 victims")
        assert found.decided is not None
        assert found.decided.journal == "preemption/0"
        assert found.decided.text == (
            "default/low-0 (and 1 more) to be evicted from n for default/high"
        )

    play(story, node("n", 2_000))


def test_an_evicted_pod_that_still_ends_is_being_evicted():
    async def story(scene: Scene) -> None:
        scene.pods("low", cpu_milli=1_000, priority=1)
        await scene.settle()
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle(20)
        line = await first_line(scene, "low")
        assert line.startswith("pod default/low: being evicted from n at ")
        assert line.endswith(" for default/high (priority 9), the only victim")

    play(story, node("n", 1_000), grace_ms=1_000 * GRACE_S)


def test_a_victim_of_a_gang_names_the_gang_and_all_its_victims():
    async def story(scene: Scene) -> None:
        scene.pods("low-0", "low-1", cpu_milli=1_000, priority=1)
        await scene.settle()
        scene.gang("default/w/g", 2)
        scene.pods("a", "b", cpu_milli=1_000, priority=9, gang="default/w/g")
        await scene.settle(120)
        found = await ask(scene, "low-1")
        assert found.evicted is not None
        assert found.evicted.gang == "default/w/g"
        assert found.evicted.victims == 2
        assert (await first_line(scene, "low-1")).endswith(
            f" for {found.evicted.by} of gang default/w/g (priority 9), 1 of 2 victims"
        )

    play(story, node("n", 1_000), node("m", 1_000), queueing={"gang_preemption": True})


def test_a_deleted_pod_was_somewhere_or_nowhere():
    async def story(scene: Scene) -> None:
        scene.pods("ran", "waits", cpu_milli=1_000)
        await scene.settle()
        ran = next(name for name in ("ran", "waits") if scene.where(name) == ["n"])
        waited = next(name for name in ("ran", "waits") if scene.where(name) == [""])
        scene.delete(waited)
        await scene.settle()
        scene.delete(ran)
        await scene.settle()
        line = await first_line(scene, ran)
        assert line.startswith(f"pod default/{ran}: finished or deleted at 2023-11-14 22:")
        assert line.endswith(" UTC, it was on n")
        found = await ask(scene, waited)
        assert (found.state, found.node, found.evicted) == ("deleted", "", None)
        assert found.decided is not None
        assert found.decided.text == f"default/{waited} deleted or finished"

    play(story, node("n", 1_000))


def test_a_victim_that_left_by_itself_was_not_evicted():
    async def story(scene: Scene) -> None:
        scene.pods("low", cpu_milli=1_000, priority=1)
        await scene.settle()
        scene.delete("low")
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle()
        assert (await ask(scene, "low")).evicted is None

    play(story, node("n", 1_000))
