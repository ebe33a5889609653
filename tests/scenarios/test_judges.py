"""Extenders that filter, in the whole mesh: an error is no refusal, and time makes up for words."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from shared.events.queueing import Parked, TryFailed
from shared.model.extenders import POD, Extender
from shared.model.ids import QUEUEING
from shared.ports.cluster import PodRead, PodRef
from shared.ports.extenders import Judgement
from tests.scenarios.scene import Scene, node, play

JUDGE = Extender(url="http://h", filter_verb="filter")
CODE_500 = "failed filter with extender at URL http://h/filter, code 500"


class Judges:
    """What is said to the pods, one answer after the other, and then everywhere is fine."""

    def __init__(self, **answers: Sequence[Judgement]) -> None:
        self.answers = {name: list(said) for name, said in answers.items()}
        self.asked: list[str] = []

    async def judge(
        self, _extenders: Any, _namespace: str, name: str, nodes: Sequence[str]
    ) -> Judgement:
        self.asked.append(name)
        waiting = self.answers.get(name, ())
        return waiting.pop(0) if waiting else Judgement(tuple(nodes), (0,) * len(nodes))

    async def judge_victims(self, *_asked: Any) -> Any:
        raise AssertionError("it names no victims")


def come(scene: Scene, name: str) -> None:
    scene.pods(name, cpu_milli=100, shown=((POD, f"default/{name}"),))


def played(story: Any, judges: Judges) -> None:
    nodes = node("one", 1_000), node("two", 1_000)
    play(story, *nodes, extenders=[JUDGE], binding={"status_patches": True}, judges=judges)


def noted(scene: Scene) -> list[tuple[str, str, str]]:
    """What is written of pods from here on: whose, why, and in which words."""
    written: list[tuple[str, str, str]] = []
    touch = scene.cluster.touch

    async def noting(
        pods: Sequence[PodRef], messages: Sequence[str], reasons: Sequence[str] = ()
    ) -> list[PodRead]:
        said = zip(pods, reasons, messages, strict=True)
        written.extend((pod.uid, reason, message) for pod, reason, message in said)
        return await touch(pods, messages, reasons)

    scene.cluster.touch = noting  # type: ignore[method-assign]
    return written


def test_a_pod_whose_extender_fails_is_tried_again_after_backoffs_of_errors():
    judges = Judges(web=[Judgement(error=CODE_500)] * 3)

    async def story(scene: Scene):
        written = noted(scene)
        come(scene, "web")
        come(scene, "db")
        await scene.settle(1)
        assert scene.where("web", "db")[0] == ""
        assert scene.running("db") == 1
        assert written == [("uid-web", "SchedulerError", CODE_500)]
        await scene.settle(11)
        assert (scene.running("web"), judges.asked.count("web")) == (1, 4)
        events = [one async for one in scene._events(QUEUEING)]
        assert [type(one) for one in events if isinstance(one, Parked | TryFailed)] == [
            TryFailed
        ] * 3

    played(story, judges)


def test_a_pod_that_an_extender_refuses_is_tried_again_after_five_minutes():
    no = Judgement(failed=(("not today", 2),))
    judges = Judges(web=[no, replace(no)])

    async def story(scene: Scene):
        written = noted(scene)
        come(scene, "web")
        await scene.settle(295)
        assert judges.asked == ["web"]
        assert {reason for _uid, reason, _message in written} == {"Unschedulable"}
        await scene.settle(36)
        assert judges.asked == ["web"] * 2
        await scene.settle(332)
        assert judges.asked == ["web"] * 3
        assert scene.running("web") == 1

    played(story, judges)
