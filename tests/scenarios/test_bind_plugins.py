"""Bind plugins in the whole mesh: what they are asked, and how often."""

import asyncio
from typing import Any, ClassVar

import pytest

from shared.events.binding import BindsAsked, PreBindFailed
from shared.extenders.calls import HttpBinders
from shared.extenders.port import Binders
from shared.model.columns import unpack
from shared.model.ids import BINDING
from shared.model.objects import PodSpec
from shared.model.profile import CustomPlugin, Profile
from shared.ports.bind_plugin import BindPlugin, BoundPod
from shared.scheduling.api.custom.plugin import PLUGINS, Registered
from tests.scenarios.scene import Scene, node, play

CPU = 100
SCHEDULER = PodSpec().scheduler


class Acts(BindPlugin):
    """Does what the pod's name says, and records the questions."""

    timeout_s = 20.0
    reads = ("priority",)
    said: ClassVar[list[tuple[str, str, str, int]]] = []

    async def pre_bind(self, pod: BoundPod, node: str) -> Any:
        asked = self._note("pre_bind", pod, node)
        await asyncio.sleep(1)
        match pod.name:
            case "never":
                return "it may not"
            case "slow":
                await asyncio.sleep(1_000 if asked < 2 else 0)
            case "broken":
                assert asked > 2, "not yet"
            case "wrong" if asked < 2:
                return 7
        return None

    async def post_bind(self, pod: BoundPod, node: str) -> None:
        self._note("post_bind", pod, node)
        assert pod.name != "plain", "of no effect"

    def _note(self, method: str, pod: BoundPod, node: str) -> int:
        self.said.append((method, pod.name, node, pod["priority"]))
        return self.count(method, pod.name)

    def count(self, method: str, name: str) -> int:
        """Return how often a method was called."""
        return [one[:2] for one in self.said].count((method, name))


class Binds(BindPlugin):
    """Leaves some pods to DefaultBinder, refuses one once, and fails for another once; of `mine` it
    says that it is bound, which is true from the third time on where it can write.
    """

    asked: ClassVar[list[str]] = []
    cluster: ClassVar[Any] = None

    async def bind(self, pod: BoundPod, node: str) -> Any:
        self.asked.append(pod.name)
        count = self.asked.count(pod.name)
        match pod.name:
            case "refused" if count < 2:
                return "not on a Monday"
            case "broken" if count < 2:
                raise ConnectionError("gone away")
            case "mine":
                if self.cluster is not None and count > 2:
                    self.cluster.foreign_bind(pod.uid, node)
                return True
        return False


class Companions(BindPlugin):
    """Pods of priority -N wait until N of them are there."""

    timeout_s = 90.0
    reads = ("priority",)
    waiting: ClassVar[list[tuple[int, asyncio.Event]]] = []

    async def permit(self, pod: BoundPod, node: str) -> Any:
        if pod.name == "denied":
            return "it is denied"
        mine = (pod["priority"], asyncio.Event())
        self.waiting.append(mine)
        try:
            together = [event for count, event in self.waiting if count == pod["priority"]]
            if len(together) < -pod["priority"]:
                await mine[1].wait()
            else:
                for event in together:
                    event.set()
        finally:
            self.waiting.remove(mine)
        return None


@pytest.fixture
def companions():
    yield from _known(Companions, Companions.waiting)


@pytest.fixture
def acts():
    yield from _known(Acts, Acts.said)


@pytest.fixture
def binds():
    yield from _known(Binds, Binds.asked)


def _known(kind: type[BindPlugin], kept: list[Any]):
    kind.name = kind.__name__
    found = PLUGINS[kind.name] = Registered(kind, "0")
    kept.clear()
    yield found.made_with("")
    PLUGINS.clear()


def played(
    story: Any,
    *points: str,
    name: str,
    placements: int = 1,
    nodes: int = 2,
    binders: Binders | None = None,
) -> None:
    own = (CustomPlugin(name, "0"),)
    columns: dict[str, Any] = dict.fromkeys(points, own)
    profile = Profile(**columns)
    binding = {point: {SCHEDULER: own} for point in points}
    made = [node(f"node-{number}", 1_000) for number in range(nodes)]
    more: dict[str, Any] = {"placements": placements, "binders": binders}
    play(story, *made, profiles=[profile], binding=binding, **more)


@pytest.mark.parametrize("placements", [1, 2])
def test_pre_bind_comes_before_and_post_bind_after_the_bind(acts, placements):
    async def story(scene: Scene):
        scene.pods("plain", "other", cpu_milli=CPU, priority=3)
        await scene.settle()
        assert scene.running("plain", "other") == 2
        for name in ("plain", "other"):
            (where,) = scene.where(name)
            mine = [one for one in acts.said if one[1] == name]
            assert mine == [("pre_bind", name, where, 3), ("post_bind", name, where, 3)]
        assert acts.errors == 1, "errors of post_bind are only counted"

    played(story, "pre_bind", "post_bind", name="Acts", placements=placements)


def test_a_pod_that_pre_bind_rejects_releases_its_node_and_is_retried(acts):
    async def story(scene: Scene):
        scene.pods("never", cpu_milli=1_000)
        await scene.settle(60)
        assert scene.running("never") == 0
        assert 3 <= acts.count("pre_bind", "never") <= 10, "with backoff"
        assert acts.count("post_bind", "never") == 0
        assert await reasons(scene) == {"it may not"}
        events = [one async for one in scene._events(BINDING)]
        assert not any(isinstance(one, BindsAsked) and unpack(one.ids).size for one in events)
        # Its reservation is free for others whenever it waits.
        scene.pods("a", "b", cpu_milli=1_000)
        await scene.settle(60)
        assert scene.running("a", "b") == 2

    played(story, "pre_bind", "post_bind", name="Acts")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("slow", 'running PreBind plugin "Acts": context deadline exceeded'),
        ("broken", 'running PreBind plugin "Acts": AssertionError: not yet'),
        ("wrong", 'running PreBind plugin "Acts": TypeError: pre_bind gave int'),
    ],
)
def test_a_failed_plugin_is_tried_again(acts, name, reason):
    async def story(scene: Scene):
        scene.pods(name, cpu_milli=CPU)
        await scene.settle(120)
        assert scene.running(name) == 1
        assert acts.count("post_bind", name) == 1
        (failed,) = await reasons(scene)
        assert failed.startswith(reason)

    played(story, "pre_bind", "post_bind", name="Acts")


@pytest.mark.parametrize("placements", [1, 2])
def test_a_gang_member_that_a_plugin_rejects_is_retried_alone(acts, placements):
    async def story(scene: Scene):
        scene.gang("g", 4)
        scene.pods("a", "b", "broken", "never", cpu_milli=CPU, gang="g", priority=3)
        await scene.settle(60)
        assert scene.running("a", "b", "broken", "never") == 3
        assert [acts.count("pre_bind", name) for name in ("a", "b", "broken")] == [1, 1, 3]
        assert 3 <= acts.count("pre_bind", "never") <= 10, "with backoff"
        assert {one[1] for one in acts.said if one[0] == "post_bind"} == {"a", "b", "broken"}

    played(story, "pre_bind", "post_bind", name="Acts", placements=placements)


def test_waiting_gang_members_are_bound_at_once(companions):
    async def story(scene: Scene):
        scene.gang("g", 3)
        scene.pods("a", "b", cpu_milli=CPU, gang="g", priority=-3)
        await scene.settle(20)
        assert companions.waiting == [], "no call before there are enough members"
        scene.pods("c", cpu_milli=CPU, gang="g", priority=-3)
        await scene.settle(20)
        assert scene.running("a", "b", "c") == 3

    played(story, "permit", name="Companions")


def test_bind_comes_before_default_binder_which_takes_what_is_left(binds):
    async def story(scene: Scene):
        scene.pods("plain", "refused", "broken", cpu_milli=CPU)
        await scene.settle(60)
        assert scene.running("plain", "refused", "broken") == 3
        assert sorted(binds.asked) == ["broken", "broken", "plain", "refused", "refused"]
        assert binds.errors == 1

    played(story, "bind", name="Binds")


@pytest.mark.parametrize("writes", [False, True])
def test_a_plugin_that_says_it_has_bound_a_pod_is_asked_until_the_cluster_shows_it(binds, writes):
    """With `writes` the plugin really binds the pod in the simulated cluster."""

    async def story(scene: Scene):
        binds.cluster = scene.cluster if writes else None
        scene.pods("mine", cpu_milli=CPU)
        await scene.settle(60)
        assert (scene.running("mine"), binds.asked.count("mine")) == (1, 3 if writes else 1)

    played(story, "bind", name="Binds", binders=HttpBinders(writes))


def test_waiting_pods_hold_their_nodes_and_are_bound_at_once(companions):
    async def story(scene: Scene):
        # More than there is room for in what other plugins may do at once.
        first = [f"pod-{number}" for number in range(299)]
        scene.pods(*first, cpu_milli=1, priority=-300)
        await scene.settle(20)
        assert scene.running(*first) == 0
        assert len(companions.waiting) == 299
        scene.pods("last", cpu_milli=1, priority=-300)
        await scene.settle(20)
        assert scene.running(*first, "last") == 300

    played(story, "permit", name="Companions", nodes=4)


def test_a_pod_that_waits_too_long_releases_its_node_and_is_retried(companions):
    async def story(scene: Scene):
        scene.pods("alone", cpu_milli=1_000, priority=-2)
        await scene.settle(60)
        scene.pods("full", cpu_milli=1_000)
        await scene.settle(10)
        scene.pods("wants", cpu_milli=1_000)
        await scene.settle(15)
        assert scene.running("full", "wants") == 1, "one place is held"
        await scene.settle(20)
        assert scene.running("full", "wants") == 2
        scene.delete("full", "wants")
        scene.pods("company", cpu_milli=1_000, priority=-2)
        await scene.settle(60)
        assert scene.running("alone", "company") == 2
        (why,) = await reasons(scene)
        assert why.endswith(" 1 rejected due to timeout after waiting 1m30s at plugin Companions.")

    played(story, "permit", name="Companions")


def test_denied_pods_have_a_message_and_deleted_pods_stop_waiting(companions):
    async def story(scene: Scene):
        scene.pods("denied", "gone", cpu_milli=CPU, priority=-2)
        await scene.settle(10)
        assert await reasons(scene) == {"0/1 nodes are available: 1 it is denied."}
        assert len(companions.waiting) == 1
        scene.delete("gone")
        await scene.settle(5)
        assert companions.waiting == []

    played(story, "permit", name="Companions")


async def reasons(scene: Scene) -> set[str]:
    """Return why binds were given up before anything was sent."""
    events = [one async for one in scene._events(BINDING)]
    return {one.reason for one in events if isinstance(one, PreBindFailed)}
