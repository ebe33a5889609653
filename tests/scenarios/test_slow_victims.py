"""A preemptor with slow victims takes the first node that has room."""

import pytest

from tests.scenarios.scene import Scene, node, play

GRACE_S = 300


@pytest.mark.parametrize("placements", [1, 2])
@pytest.mark.parametrize("way", ["a pod leaves", "the victims leave"])
def test_a_preemptor_takes_the_first_free_node(placements, way):
    async def story(scene: Scene) -> None:
        scene.pods("low", cpu_milli=1_000, priority=1, node_selector=(("n", "a"),))
        scene.pods("high", cpu_milli=1_000, priority=9, node_selector=(("n", "b"),))
        await scene.settle()
        scene.pods("first", cpu_milli=1_000, priority=9)
        await scene.settle(20)
        assert scene.where("low", "high", "first") == ["a", "b", ""]
        if way == "a pod leaves":
            scene.delete("high")
        await scene.settle(60)
        assert scene.where("first") == ["b" if way == "a pod leaves" else ""]
        await scene.settle(GRACE_S)
        assert scene.where("first") == ["b" if way == "a pod leaves" else "a"]
        assert "uid-low" not in scene.cluster.pods
        scene.pods("next", cpu_milli=1_000, priority=1)
        await scene.settle(60)
        assert scene.where("next") == (["a"] if way == "a pod leaves" else [""])

    nodes = (node(name, 1_000, labels={"n": name}) for name in "ab")
    play(story, *nodes, grace_ms=1_000 * GRACE_S, placements=placements)


def test_a_failed_attempt_on_another_node_asks_for_no_other_victims():
    async def story(scene: Scene) -> None:
        for name, priority in (("a", 1), ("b", 1), ("c", 9), ("d", 2)):
            where = (("n", name),)
            scene.pods(f"on-{name}", cpu_milli=1_000, priority=priority, node_selector=where)
        await scene.settle()
        scene.pods("first", "second", cpu_milli=1_000, priority=8)
        await scene.settle(20)
        scene.delete("on-c")
        await scene.settle(60)
        assert sorted(scene.where("first", "second")) == ["", "c"]
        await scene.settle(GRACE_S)
        assert scene.running("first", "second") == 2
        assert scene.where("on-d") == ["d"]
        assert not scene.cluster.pods["uid-on-d"].deleting

    play(
        story,
        *(node(name, 1_000, labels={"n": name}) for name in "abcd"),
        grace_ms=1_000 * GRACE_S,
    )
