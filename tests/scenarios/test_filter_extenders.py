"""Extenders that filter, in the whole mesh: an error is no refusal, and a timeout replaces missing
events.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from shared.events.queueing import Parked, TryFailed
from shared.extenders.port import NodesLeft
from shared.extenders.values import POD, Extender
from shared.kubernetes.writing.bodies import NO_CANDIDATE
from shared.model.ids import QUEUEING
from shared.ports.cluster import PodRead, PodRef
from tests.scenarios.scene import Scene, node, play

JUDGE = Extender(url="http://h", filter_verb="filter")
CODE_500 = "failed filter with extender at URL http://h/filter, code 500"


class Judges:
    """The answers about the pods, one after the other; after them every node is fine."""

    def __init__(self, **answers: Sequence[NodesLeft]) -> None:
        self.answers = {name: list(said) for name, said in answers.items()}
        self.asked: list[str] = []

    async def filter_and_score(
        self, _extenders: Any, _namespace: str, name: str, nodes: Sequence[str]
    ) -> NodesLeft:
        self.asked.append(name)
        waiting = self.answers.get(name, ())
        return waiting.pop(0) if waiting else NodesLeft(tuple(nodes), (0,) * len(nodes))

    async def process_preemption(self, *_asked: Any) -> Any:
        raise AssertionError("it names no victims")


def come(scene: Scene, name: str, cpu_milli: int = 100, **spec: Any) -> None:
    scene.pods(name, cpu_milli=cpu_milli, shown=((POD, f"default/{name}"),), **spec)


def played(story: Any, judges: Judges) -> None:
    nodes = node("one", 1_000), node("two", 1_000)
    play(story, *nodes, extenders=[JUDGE], binding={"status_patches": True}, extender_calls=judges)


def noted(scene: Scene) -> list[tuple[str, str, str]]:
    """Return the messages written from here on: (pod, reason, text)."""
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
    judges = Judges(web=[NodesLeft(error=CODE_500)] * 3)

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
    no = NodesLeft(failed=(("not today", 2),))
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


class Strict(Judges):
    """Always refuses one pod these nodes."""

    def __init__(self, name: str, *nodes: str) -> None:
        super().__init__()
        self.name, self.nodes = name, nodes

    async def filter_and_score(
        self, extenders: Any, namespace: str, name: str, nodes: Sequence[str]
    ) -> NodesLeft:
        if name != self.name:
            return await super().filter_and_score(extenders, namespace, name, nodes)
        self.asked.append(name)
        left = tuple(node for node in nodes if node not in self.nodes)
        gone = len(nodes) - len(left)
        return NodesLeft(left, (0,) * len(left), (("no", gone),) if gone else (), gone)


def fill(scene: Scene, name: str, node: str = "", priority: int = 0) -> None:
    """Fill a whole node."""
    where = {"node_selector": (("n", node),)} if node else {}
    come(scene, name, 1_000, priority=priority, **where)


def labelled(*names: str) -> list[Any]:
    return [node(name, 1_000, labels={"n": name}) for name in names]


def test_a_nominated_node_that_an_extender_refuses_is_free_at_once():
    judges = Strict("high", "one")

    async def story(scene: Scene):
        fill(scene, "low")
        await scene.settle(2)
        fill(scene, "high", priority=9)
        await scene.settle(2)
        assert judges.asked.count("high") == 2, "about its nominated node, and about all"
        assert "uid-low" not in scene.cluster.pods
        assert NO_CANDIDATE in await scene.said("high"), "it clears the nominated node"
        fill(scene, "next")
        await scene.settle(2)
        assert (scene.running("next"), scene.running("high")) == (1, 0)

    play(story, *labelled("one"), extenders=[JUDGE], extender_calls=judges)


class Replicas:
    """Two small pods fill the node; each comes again under another name when it ends."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.came = scene, 0
        self.there: list[str] = []

    def look(self) -> int:
        """Replace the deleted pods; return their number."""
        left = [name for name in self.there if f"uid-{name}" in self.scene.cluster.pods]
        gone = len(self.there) - len(left)
        self.there = left
        while len(self.there) < 2:
            self.came += 1
            self.there.append(f"low-{self.came}")
            come(self.scene, self.there[-1], 500)
        return gone


def test_no_second_eviction_for_room_that_an_extender_refused():
    judges = Strict("high", "one")
    evicted: list[int] = []

    async def story(scene: Scene):
        replicas = Replicas(scene)
        replicas.look()
        await scene.settle(2)
        fill(scene, "high", priority=9)
        for second in range(900):
            if replicas.look():
                evicted.append(second)
            elif second % 7 == 6:
                scene.delete(replicas.there[0])
                replicas.look()
            await scene.settle(1)
        assert scene.running(*replicas.there) == 2
        assert len(evicted) == 3, evicted
        between = [later - earlier for earlier, later in itertools.pairwise(evicted)]
        assert min(between) >= 300, evicted

    play(story, *labelled("one"), extenders=[JUDGE], extender_calls=judges)


def test_a_preemptor_that_is_refused_its_room_gets_another_after_its_backoff():
    judges = Strict("high", "one", "two")

    async def story(scene: Scene):
        for name, priority in (("one", 1), ("two", 2), ("three", 3)):
            fill(scene, f"low-{name}", name, priority)
        await scene.settle(5)
        went: dict[str, float] = {}
        fill(scene, "high", priority=9)
        for tenth in range(300):
            for name in ("one", "two", "three"):
                if f"uid-low-{name}" not in scene.cluster.pods:
                    went.setdefault(name, tenth / 10)
            await scene.settle(0.1)
        assert list(went) == ["one", "two", "three"]
        assert went["two"] - went["one"] >= 1
        assert went["three"] - went["two"] >= 2
        assert went["three"] < 10
        assert scene.where("high") == ["three"]

    play(story, *labelled("one", "two", "three"), extenders=[JUDGE], extender_calls=judges)


def test_after_an_extender_error_the_nomination_stays():
    judges = Judges(high=[NodesLeft(error=CODE_500)] * 3)

    async def story(scene: Scene):
        fill(scene, "low")
        await scene.settle(2)
        fill(scene, "high", priority=9)
        await scene.settle(1)
        fill(scene, "next")
        await scene.settle(20)
        assert (scene.running("next"), scene.running("high")) == (0, 1)

    play(story, *labelled("one"), extenders=[JUDGE], extender_calls=judges)
