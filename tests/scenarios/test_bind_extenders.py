"""Extenders that bind, in the whole mesh: the questions, and the effect of the answers."""

from typing import Any

import pytest
from msgspec import to_builtins

from shared.events.binding import BindFailed
from shared.events.observed import BindAnswers
from shared.extenders.values import Extender
from shared.model.ids import BINDING
from shared.ports.cluster import PodRef
from tests.scenarios.scene import Scene, node, play

CPU = 100
GADGET = "example.com/gadget"
BINDER = Extender(url="http://h", bind_verb="bind")


class Binds:
    """Refuses pods by their name; `late`: it writes nothing before it is asked for the third time
    (in a scene it cannot write: whoever is asked for the third time has been bound by the story).
    """

    def __init__(self, writes: bool = False) -> None:
        self.writes = writes
        self.scene: Any = None
        self.asked: list[tuple[str, str, str]] = []

    async def bind(self, extender: Extender, pod: PodRef, node: str) -> str:
        self.asked.append((pod.name, pod.uid, node))
        count = [one[0] for one in self.asked].count(pod.name)
        match pod.name:
            case "never":
                return "not in this house"
            case "refused" if count < 3:
                return "not on a Monday"
            case "late" if count < 3:
                return ""
        if self.writes:
            self.scene.cluster.foreign_bind(pod.uid, node)
        return ""

    def count(self, name: str) -> int:
        return [one[0] for one in self.asked].count(name)


def played(story: Any, binders: Binds, binder: Extender = BINDER, placements: int = 1) -> None:
    nodes = node("one", 1_000), node("two", 1_000)
    play(
        story,
        *nodes,
        placements=placements,
        binding={"binder": to_builtins(binder)},
        extenders=[binder],
        binders=binders,
    )


@pytest.mark.parametrize("placements", [1, 2])
@pytest.mark.parametrize("writes", [False, True])
def test_the_extender_is_asked_once_for_every_pod(placements, writes):
    binders = Binds(writes)

    async def story(scene: Scene):
        binders.scene = scene
        names = [f"p{number}" for number in range(8)]
        scene.pods(*names, cpu_milli=CPU)
        await scene.settle()
        assert scene.running(*names) == 8
        wanted = [(name, f"uid-{name}", scene.where(name)[0]) for name in names]
        assert sorted(binders.asked) == wanted

    played(story, binders, placements=placements)


def test_a_failed_bind_backs_off_and_releases_the_node():
    binders = Binds()

    async def story(scene: Scene):
        scene.pods("refused", "never", cpu_milli=1_000)
        await scene.settle(60)
        assert (scene.running("refused", "never"), binders.count("refused")) == (1, 3)
        assert 3 <= binders.count("never") <= 10, "with backoff"
        events = [one async for one in scene._events(BINDING)]
        reasons = {one.reason for one in events if isinstance(one, BindFailed)}
        assert reasons == {"failed"}
        scene.pods("other", cpu_milli=1_000)
        await scene.settle(60)
        assert scene.running("other") == 1

    played(story, binders)


def test_an_ignorable_extender_that_fails_leaves_the_bind_to_default_binder():
    binders = Binds()

    async def story(scene: Scene):
        scene.pods("never", cpu_milli=CPU)
        await scene.settle()
        assert (scene.running("never"), binders.count("never")) == (1, 1)

    played(story, binders, Extender(url="http://h", bind_verb="bind", ignorable=True))


def test_an_extender_that_claims_a_bind_it_did_not_make_is_asked_again():
    binders = Binds(writes=True)

    async def story(scene: Scene):
        binders.scene = scene
        scene.pods("late", cpu_milli=CPU)
        await scene.settle(30)
        assert (scene.running("late"), binders.count("late")) == (1, 3)

    played(story, binders)


def test_unmanaged_pods_are_bound_without_the_extender():
    binders = Binds()

    async def story(scene: Scene):
        scene.pods("plain", cpu_milli=CPU)
        await scene.settle()
        assert (scene.running("plain"), binders.asked) == (1, [])
        events = [one async for one in scene._events(BINDING)]
        assert not any(one.texts for one in events if isinstance(one, BindAnswers))

    managed = Extender(url="http://h", bind_verb="bind", managed_resources=(GADGET,))
    played(story, binders, managed)


@pytest.mark.parametrize("placements", [1, 2])
def test_gang_members_are_bound_and_failed_ones_retried_alone(placements):
    binders = Binds()

    async def story(scene: Scene):
        binders.scene = scene
        scene.gang("g", 3)
        scene.pods("a", "b", "refused", cpu_milli=CPU, gang="g")
        await scene.settle(60)
        assert scene.running("a", "b", "refused") == 3
        assert [binders.count(name) for name in ("a", "b", "refused")] == [1, 1, 3]

    played(story, binders, placements=placements)
