"""Preemptors that share a node: who is next waits for the victims of the others too."""

import pytest

from tests.scenarios.scene import Scene, node, play


@pytest.mark.parametrize("placements", [1, 2])
def test_a_pod_whose_room_another_still_waits_for_evicts_nobody_else(placements):
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
