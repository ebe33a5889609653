"""`muster why pod`: who evicted it, where it went, and why it got its node."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from muster.cli.commands.why import lines_of
from muster.cli.errors import UsageFault
from muster.cli.output import time_of
from muster.explain.tally import Tally
from muster.explain.why.answers import Answer, Score
from muster.explain.why.nodes import why_node
from muster.explain.why.pods import why_pod
from shared.extenders.port import NodesLeft
from shared.extenders.values import POD, Extender
from tests.scenarios.scene import Scene, node, play

GRACE_S = 300
NOW = time_of(0)


async def ask(scene: Scene, name: str, on: str = "") -> Answer:
    return await why_pod(scene.recorded(), name, node=on)


async def first_line(scene: Scene, name: str) -> str:
    return lines_of(await ask(scene, name), NOW)[0]


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
        waits = await ask(scene, "high")
        assert (waits.state, waits.node) == ("waiting for its victims to leave", "n")
        assert [one.pod for one in waits.evictions] == ["default/low"]
        assert lines_of(waits, NOW)[0] == "pod default/high: waiting for its victims to leave n"
        assert waits.decided is not None
        assert waits.decided.text == "default/high waits for default/low to leave n"
        assert "        1 node: Insufficient cpu" in lines_of(waits, NOW)
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


def test_a_bound_pod_has_its_score_by_plugin_and_the_next_best_node():
    async def story(scene: Scene) -> None:
        scene.pods("first", cpu_milli=1_000)
        await scene.settle()
        scene.pods("a", "b", "c", cpu_milli=1_000)
        await scene.settle()
        assert scene.where("first") == ["large"]
        for name in ("a", "b", "c"):
            found = await ask(scene, name)
            (own,) = found.nodes
            pick = found.pick
            assert pick is not None
            assert (pick.missing, pick.feasible, pick.nodes) == ("", 2, 3)
            assert own.node == found.node == scene.where(name)[0]
            assert own.score == pick.score == sum(one.score for one in own.scores)
            assert pick.next_best is not None
            assert pick.next_best <= pick.score
            assert {pick.next_node, found.node} == {"large", "small"}
        found = await ask(scene, "a")
        assert found.decided is not None
        time = found.decided.time
        assert " UTC (+1.500 s): bound" in lines_of(found, time - timedelta(seconds=1.5))[-1]
        assert " UTC (2 min 5 s ago): bound" in lines_of(found, NOW, time + timedelta(0, 125))[-1]
        lines = lines_of(found, NOW)
        assert lines[1].startswith("  score ")
        assert lines[1].endswith("; 2 of 3 nodes feasible")
        assert " = " in lines[2]
        assert "NodeResourcesFit" in lines[2]

    play(story, node("large", 8_000), node("small", 7_000), node("tiny", 500))


def test_why_not_another_node_is_answered_for_the_moment_of_the_pick():
    async def story(scene: Scene) -> None:
        scene.pods("a", cpu_milli=1_000)
        await scene.settle()
        scene.pods("filler", cpu_milli=2_500, node_selector=(("n", "small"),))
        await scene.settle()
        own, other = (await ask(scene, "a", "small")).nodes
        assert (own.node, other.node) == ("large", "small")
        assert other.refused_by == ""
        assert other.score < own.score
        (_own, tiny) = (await ask(scene, "a", "tiny")).nodes
        assert (tiny.refused_by, tiny.reasons) == ("NodeResourcesFit", ("Insufficient cpu",))
        with pytest.raises(UsageFault, match="no node of this name was known then"):
            await ask(scene, "a", "nowhere")

    small = node("small", 3_000, labels={"n": "small"})
    play(story, node("large", 8_000), small, node("tiny", 500))


def test_members_of_a_gang_have_their_scores_too():
    async def story(scene: Scene) -> None:
        scene.gang("default/w/g", 3)
        scene.pods("a", "b", "c", cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        for name in ("a", "b", "c"):
            pick = (await ask(scene, name)).pick
            assert pick is not None
            assert (pick.missing, pick.batch) == ("", 3)

    play(story, node("n", 2_000), node("m", 2_000))


def test_a_bound_pod_names_the_pods_that_were_evicted_for_it():
    async def story(scene: Scene) -> None:
        scene.pods("low-0", "low-1", cpu_milli=1_000, priority=1)
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=9)
        await scene.settle()
        found = await ask(scene, "high")
        assert found.state == "bound"
        assert sorted(one.pod for one in found.evictions) == ["default/low-0", "default/low-1"]
        assert found.pick is not None
        assert (found.pick.feasible, found.pick.next_best) == (1, None)
        assert any(
            line.startswith("  evicted for it: default/low-") for line in lines_of(found, NOW)
        )

    play(story, node("n", 2_000))


def test_victims_beyond_their_budget_are_named_as_such():
    async def story(scene: Scene) -> None:
        labels = (("app", "web"),)
        scene.pods("low-0", "low-1", cpu_milli=1_000, priority=1, of=labels)
        scene.budget("web", labels, allowed=1)
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=9)
        await scene.settle()
        found = await ask(scene, "high")
        assert [one.is_beyond_budget for one in found.evictions] == [False, True]
        line = f"  evicted for it: {', '.join(one.pod for one in found.evictions)}"
        assert f"{line}; 1 of them beyond their PodDisruptionBudgets" in lines_of(found, NOW)
        inside, beyond = (one.pod.removeprefix("default/") for one in found.evictions)
        assert (await first_line(scene, inside)).endswith("1 of 2 victims")
        assert (await first_line(scene, beyond)).endswith(
            "1 of 2 victims, beyond its PodDisruptionBudget"
        )
        tally = Tally(scene.recorded().bus, scene.recorded().journals)
        await tally.catch_up()
        assert (tally.victims, tally.victims_beyond_budget) == (2, 1)

    play(story, node("n", 2_000))


class Prefers:
    """An extender that adds to the score of one node, and leaves out another."""

    async def filter_and_score(
        self, _extenders: Any, _namespace: str, _name: str, nodes: Sequence[str]
    ) -> NodesLeft:
        left = tuple(name for name in nodes if name != "third")
        return NodesLeft(left, tuple(300 if name == "small" else 1 for name in left))

    async def process_preemption(self, *_asked: Any) -> Any:
        raise AssertionError("it names no victims")


def test_scores_have_the_part_of_extenders():
    async def story(scene: Scene) -> None:
        scene.pods("a", cpu_milli=1_000, shown=((POD, "default/a"),))
        await scene.settle()
        found = await ask(scene, "a", "large")
        assert found.pick is not None
        own, large = found.nodes
        assert (own.node, found.pick.missing, found.pick.score) == ("small", "", own.score)
        added = Score("extenders", 300), Score("extenders", 1)
        assert (own.scores[-1], large.scores[-1]) == added
        assert found.pick.next_best == large.score < own.score
        third = (await ask(scene, "a", "third")).nodes[1]
        assert (third.refused_by, third.reasons) == ("Muster", ("extenders refused it",))

    judge = Extender(url="http://h", filter_verb="filter", prioritize_verb="score")
    nodes = (node("large", 8_000), node("small", 2_000), node("third", 8_000))
    play(story, *nodes, extenders=[judge], extender_calls=Prefers())


def test_a_pod_of_another_scheduler_has_no_pick():
    async def story(scene: Scene) -> None:
        scene.pods("theirs", cpu_milli=9_000)
        await scene.settle()
        scene.cluster.foreign_bind("uid-theirs", "n")
        await scene.settle()
        found = await ask(scene, "theirs")
        assert (found.state, found.node, found.pick) == ("bound", "n", None)
        assert found.detail == "no shard picked this node: another scheduler bound it"

    play(story, node("n", 2_000))


def test_a_node_of_another_shard_was_not_tried():
    async def story(scene: Scene) -> None:
        scene.pods("a", cpu_milli=1_000)
        await scene.settle()
        names = [name for name in "nmop" if await elsewhere(scene, name)]
        other = names[0]
        (_own, answer) = (await ask(scene, "a", other)).nodes
        assert answer.refused_by == "Muster"
        assert answer.reasons == ("another shard has this node now, and did not try the pod",)

    async def elsewhere(scene: Scene, name: str) -> bool:
        nodes = (await ask(scene, "a", name)).nodes
        return nodes[-1].refused_by == "Muster"

    play(story, *(node(name, 2_000) for name in "nmop"), placements=2)


def test_facts_that_a_service_has_not_recorded_yet_count():
    async def story(scene: Scene) -> None:
        scene.pods("a", "b", cpu_milli=1_000)
        await scene.settle()
        before = scene.lengths()
        scene.delete("a")
        await scene.settle()
        late = {name: end for name, end in before.items() if name != "ingest/0"}
        run = scene.recorded(late)
        assert (await why_pod(run, "a")).state == "finished or deleted"
        assert [one.pod for one in (await why_node(run, "n")).pods] == ["default/b"]

    play(story, node("n", 2_000))
