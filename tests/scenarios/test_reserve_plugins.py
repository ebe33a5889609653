"""Reserve plugins in the whole mesh: pods, gangs, preemption, and what releases a reservation."""

from typing import Any

import pytest

from shared.model.profile import Profile
from tests.scenarios.scene import Scene, node, play
from tests.support.custom_plugins import Seats, known

ONE, TWO = (("labels.seats", "1"),), (("labels.seats", "2"),)


def played(story: Any, **mesh: Any) -> None:
    nodes = (
        node("a", 10_000, labels={"seats": "2"}),
        node("b", 10_000, labels={"seats": "1"}),
        node("c", 10_000),
    )
    with known(Seats) as reserve:
        play(story, *nodes, profiles=[Profile(reserve=reserve)], **mesh)


@pytest.mark.parametrize("mesh", [{}, {"placements": 2}, {"batch": False}], ids=str)
def test_a_pod_without_a_seat_waits_until_another_pod_leaves(mesh):
    names = [f"p{n}" for n in range(8)]

    async def story(scene: Scene):
        scene.pods(*names, cpu_milli=100, shown=ONE)
        await scene.settle()
        assert scene.running(*names) == 3
        assert sorted(filter(None, scene.where(*names))) == ["a", "a", "b"]
        scene.pods("free", cpu_milli=100)
        await scene.settle()
        assert scene.running("free") == 1
        for left in range(7, 3, -1):
            scene.delete(next(name for name in names if scene.running(name)))
            names[:] = [name for name in names if f"uid-{name}" in scene.cluster.pods]
            await scene.settle()
            assert (len(names), scene.running(*names)) == (left, 3)
        scene.cluster.set_node(node("c", 10_000, labels={"seats": "9"}))
        await scene.settle()
        assert scene.running(*names) == 4

    played(story, **mesh)


def test_a_pod_preempts_another_for_its_seat():
    async def story(scene: Scene):
        scene.pods("x", "y", "z", cpu_milli=100, shown=ONE)
        await scene.settle()
        assert scene.running("x", "y", "z") == 3
        scene.pods("high", cpu_milli=100, shown=TWO, priority=5)
        scene.pods("never", cpu_milli=100, shown=(("labels.seats", "3"),), priority=9)
        await scene.settle(60)
        assert scene.where("high", "never") == ["a", ""]
        left = [name for name in ("x", "y", "z") if f"uid-{name}" in scene.cluster.pods]
        assert len(left) == 1
        assert scene.where(*left) == ["b"]

    played(story)


def test_a_gang_gets_seats_for_all_or_none():
    async def story(scene: Scene):
        scene.gang("four", 4)
        scene.pods("a", "b", "c", "d", cpu_milli=100, shown=ONE, gang="four")
        scene.gang("three", 3)
        scene.pods("e", "f", "g", cpu_milli=100, shown=ONE, gang="three")
        await scene.settle(60)
        assert scene.running("a", "b", "c", "d") == 0
        assert scene.running("e", "f", "g") == 3

    played(story)
