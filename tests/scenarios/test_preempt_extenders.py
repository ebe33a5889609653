"""Extenders that choose victims (preemptVerb), in the whole mesh."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec import to_builtins

from shared.extenders.port import NodeVictimRefs, VictimsLeft
from shared.extenders.values import Extender, Victims
from shared.model.preemption.post_filter import NO_CLAIMS
from shared.ports.cluster import PodRef
from tests.scenarios.scene import Scene, node, play

PREEMPTER = Extender(url="http://h", preempt_verb="preempt")
NODES = {"a": ["a0", "a1"], "b": ["b0", "b1"]}
Told = Mapping[str, NodeVictimRefs]


class Says:
    """Answers by a function of what it is asked."""

    def __init__(self, answer: Callable[[Told], VictimsLeft]) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, tuple[list[str], list[str]]]]] = []

    async def filter_and_score(self, extenders: Any, namespace: str, name: str, nodes: Any) -> Any:
        raise AssertionError("no filter request is expected")

    async def process_preemption(self, extenders: Any, pod: PodRef, nodes: Told) -> VictimsLeft:
        assert list(extenders) == [PREEMPTER]
        told = {
            name: (_names(going.victims), sorted(_names(going.others)))
            for name, going in nodes.items()
        }
        self.asked.append((pod.name, told))
        return self.answer(nodes)


def _names(pods: tuple[PodRef, ...]) -> list[str]:
    return [one.name for one in pods]


def as_told(nodes: Told) -> VictimsLeft:
    return VictimsLeft(
        {
            name: Victims(tuple(one.uid for one in going.victims), going.violations)
            for name, going in nodes.items()
        }
    )


def only(node: str) -> Callable[[Told], VictimsLeft]:
    return lambda nodes: VictimsLeft({node: as_told(nodes).nodes[node]})


def the_others(nodes: Told) -> VictimsLeft:
    """Name the pods that would stay as victims."""
    return VictimsLeft(
        {name: Victims(tuple(one.uid for one in going.others)) for name, going in nodes.items()}
    )


def too_few(nodes: Told) -> VictimsLeft:
    return VictimsLeft({name: Victims((going.victims[0].uid,)) for name, going in nodes.items()})


def played(
    story: Any,
    says: Says,
    extender: Extender = PREEMPTER,
    placements: int = 1,
    is_known: bool = True,
) -> None:
    """Two nodes, each full of two pods: those of `a` are the less important ones, and of the two
    the first is.
    """

    async def told(scene: Scene) -> None:
        for priority, name in ((1, "a0"), (2, "a1"), (3, "b0"), (4, "b1")):
            scene.pods(name, cpu_milli=1_000, priority=priority, node_selector=(("n", name[0]),))
        await scene.settle()
        assert scene.running("a0", "a1", "b0", "b1") == 4
        await story(scene)

    play(
        told,
        *(node(name, 2_000, labels={"n": name}) for name in NODES),
        placements=placements,
        binding={"preempters": to_builtins([extender] if is_known else [])},
        extenders=[extender],
        extender_calls=says,
    )


def left(scene: Scene) -> list[str]:
    return [one for names in NODES.values() for one in names if f"uid-{one}" in scene.cluster.pods]


@pytest.mark.parametrize("placements", [1, 2])
@pytest.mark.parametrize(
    ("answer", "gone"),
    [(as_told, "a0"), (only("b"), "b0"), (the_others, "a1")],
    ids=["as told", "one node", "other pods"],
)
def test_named_victims_are_evicted(answer, gone, placements):
    says = Says(answer)

    async def story(scene: Scene) -> None:
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle()
        assert sorted({"a0", "a1", "b0", "b1"} - {gone}) == left(scene)
        assert scene.where("high") == [gone[0]]
        assert says.asked == [("high", {"a": (["a0"], ["a1"]), "b": (["b0"], ["b1"])})]

    played(story, says, placements=placements)


@pytest.mark.parametrize("placements", [1, 2])
@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (VictimsLeft(), f"{NO_CLAIMS}, preemption: no candidate node for preemption"),
        (VictimsLeft(error="not in this house"), "preemption: not in this house"),
    ],
    ids=["nobody", "error"],
)
def test_extenders_that_leave_no_node_are_quoted(verdict, words, placements):
    async def story(scene: Scene) -> None:
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle()
        assert len(left(scene)) == 4
        text = f"0/2 nodes are available: 2 Insufficient cpu. {words}"
        assert await scene.said("high") == text

    played(story, Says(lambda _nodes: verdict), placements=placements)


@pytest.mark.parametrize("placements", [1, 2])
def test_equal_pods_are_asked_about_one_after_the_other(placements):
    says = Says(as_told)

    async def story(scene: Scene) -> None:
        scene.pods("h0", "h1", "h2", cpu_milli=1_000, priority=9)
        await scene.settle(60)
        assert scene.running("h0", "h1", "h2") == 3
        assert left(scene) == ["b1"]
        assert len(says.asked) >= 3

    played(story, says, placements=placements)


def test_too_few_victims_evict_no_pod():
    """kube-scheduler would evict them in vain."""
    says = Says(as_told)

    async def story(scene: Scene) -> None:
        says.answer = too_few
        scene.pods("big", cpu_milli=2_000, priority=9)
        await scene.settle()
        assert (len(left(scene)), scene.running("big")) == (4, 0)
        says.answer = as_told
        scene.delete("b1")
        await scene.settle(60)
        assert scene.running("big") == 1

    played(story, says)


def test_extenders_are_not_asked_about_unmanaged_pods():
    says = Says(lambda _nodes: VictimsLeft(error="never asked"))
    managed = Extender(url="http://h", preempt_verb="p", managed_resources=("example.com/gadget",))

    async def story(scene: Scene) -> None:
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle()
        assert (left(scene), says.asked) == (["a1", "b0", "b1"], [])

    played(story, says, managed)


def test_an_unforeseen_reply_is_an_extender_error():
    def breaks(_nodes: Told) -> VictimsLeft:
        raise RuntimeError("out of tea")

    async def story(scene: Scene) -> None:
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle()
        assert len(left(scene)) == 4
        assert "preemption: RuntimeError('out of tea')" in await scene.said("high")

    played(story, Says(breaks))


def test_removed_extenders_are_not_asked():
    """Shards and binding learn of a new configuration one after the other."""
    says = Says(lambda _nodes: VictimsLeft(error="never asked"))

    async def story(scene: Scene) -> None:
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle()
        assert (left(scene), says.asked) == (["a1", "b0", "b1"], [])

    played(story, says, is_known=False)


def test_no_eviction_where_a_victim_ends_by_itself():
    says = Says(as_told)

    async def story(scene: Scene) -> None:
        def answer(nodes: Told) -> VictimsLeft:
            scene.delete("a0")
            says.answer = as_told
            return as_told(nodes)

        says.answer = answer
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle(60)
        assert (left(scene), scene.where("high")) == (["a1", "b0", "b1"], ["a"])

    played(story, says)
