"""Preemptors that share a node: the next one waits for the victims of the others too."""

import pytest

from tests.scenarios.scene import Scene, node, play


@pytest.mark.parametrize("placements", [1, 2])
def test_a_preemptor_waits_for_victims_of_another_on_its_node(placements):
    """As kube-scheduler's "not eligible due to a terminating pod on the nominated node"."""

    async def story(scene: Scene) -> None:
        for priority, name in ((1, "a0"), (2, "a1"), (3, "b0"), (4, "b1")):
            scene.pods(name, cpu_milli=1_000, priority=priority, node_selector=(("n", name[0]),))
        await scene.settle()
        assert scene.running("a0", "a1", "b0", "b1") == 4
        scene.pods("first", cpu_milli=1_000, priority=9)
        await scene.settle(2)
        scene.pods("second", cpu_milli=900, priority=9)
        await scene.settle(60)
        assert scene.where("first", "second") == ["a", "a"]
        assert scene.where("b0", "b1") == ["b", "b"]

    nodes = (node(name, 2_000, labels={"n": name}) for name in "ab")
    play(story, *nodes, grace_ms=5_000, placements=placements)


@pytest.mark.parametrize("placements", [1, 2])
def test_a_preemptor_evicts_once_another_pod_left(placements):
    """kube-scheduler queues it when a pod leaves (fit.go isSchedulableAfterPodEvent); here nobody
    but the five minutes of the unschedulable woke it.
    """

    async def story(scene: Scene) -> None:
        scene.pods("high", cpu_milli=3_000, priority=100)
        scene.pods("low", cpu_milli=1_000, priority=0)
        await scene.settle(10)
        scene.pods("mid", cpu_milli=3_500, priority=50)
        await scene.settle(30)
        assert scene.where("high", "low", "mid") == ["only", "only", ""]
        scene.delete("high")
        await scene.settle(5)
        assert scene.where("mid") == ["only"]

    play(story, node("only", 4_000), placements=placements)


def test_preemptors_of_the_same_pod_are_looked_at_once():
    async def story(scene: Scene) -> None:
        scene.pods("high", cpu_milli=3_000, priority=100)
        scene.pods("low", cpu_milli=1_000, priority=0)
        await scene.settle(10)
        names = [f"mid-{number}" for number in range(200)]
        scene.pods(*names, cpu_milli=3_500, priority=50)
        await scene.settle(30)
        scene.delete("high")
        await scene.settle(120)
        assert scene.running(*names) == 1
        # The times of their arrival, and of the end of the pod after which one of them could evict
        # another.
        assert set((await scene.refusals()).values()) == {2}

    play(story, node("only", 4_000))
