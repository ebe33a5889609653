"""Permit plugins that make pods wait, in the whole mesh: which pods are retried, and when."""

from collections import Counter
from typing import Any, ClassVar

import pytest

from shared.model.objects import PodSpec
from shared.model.profile import CustomPlugin, Profile
from shared.ports.bind_plugin import BindPlugin, BoundPod
from shared.scheduling.api.custom.plugin import PLUGINS, Registered
from shared.simulated.cluster import SimCluster
from tests.scenarios.scene import Scene, node, play

CPU = 100
SCHEDULER = PodSpec().scheduler
MINUTES_5 = 331


class ForNodes(BindPlugin):
    """Rejects every pod that is not on the list."""

    allowed: ClassVar[set[str]] = set()
    asked: ClassVar[Counter[str]] = Counter()
    thinks: ClassVar[list[Any]] = []

    async def permit(self, pod: BoundPod, node: str) -> Any:
        self.asked[pod.name] += 1
        for meanwhile in self.thinks:
            await meanwhile()
        assert not pod.name.startswith("broken"), "gone away"
        return None if pod.name in self.allowed else "not on the list"


class ForPods(ForNodes):
    """The same with events of other pods."""


@pytest.fixture(autouse=True)
def _known():
    for kind in (ForNodes, ForPods):
        kind.name = kind.__name__
        PLUGINS[kind.name] = Registered(kind, "0")
    ForNodes.allowed.clear()
    ForNodes.asked.clear()
    ForNodes.thinks.clear()
    yield
    PLUGINS.clear()


NODES = ("Node/Add", "Node/UpdateLabel")


def played(story: Any, placements: int = 1, **wakes: tuple[str, ...]) -> None:
    wakes = wakes or {"ForNodes": NODES, "ForPods": ("Pod/Delete",)}
    names = {SCHEDULER: "ForNodes", "others": "ForPods"}
    own = {scheduler: (CustomPlugin(name, "0"),) for scheduler, name in names.items()}
    play(
        story,
        *(node(f"node-{number}", 1_000) for number in range(2)),
        placements=placements,
        profiles=[Profile(name=name, permit=plugins) for name, plugins in own.items()],
        binding={"permit": own},
        queueing={"wakes": wakes},
        ingest={"wakes": sorted({kind for kinds in wakes.values() for kind in kinds})},
    )


def add_node(cluster: SimCluster, name: str, **labels: str) -> None:
    cluster.set_node(node(name, 1_000, labels=labels))


@pytest.mark.parametrize("placements", [1, 2])
def test_an_event_wakes_the_pods_whose_plugin_names_it_and_no_others(placements):
    async def story(scene: Scene):
        scene.pods("a", "b", "passes-by", cpu_milli=CPU)
        scene.pods("c", cpu_milli=CPU, scheduler="others")
        ForNodes.allowed.add("passes-by")
        await scene.settle(60)
        first = ForNodes.asked.copy()
        assert first["c"] < 4, "what is bound at the same time ends for nobody"
        ForNodes.allowed.update("abc")
        await scene.settle(60)
        assert ForNodes.asked == first, "nobody is asked again for nothing"
        add_node(scene.cluster, "node-2")
        await scene.settle(20)
        assert (scene.running("a", "b"), scene.running("c")) == (2, 0)
        scene.delete("passes-by")
        await scene.settle(20)
        assert scene.running("c") == 1

    played(story, placements)


def test_a_node_label_wakes_pods_and_free_room_does_not():
    async def story(scene: Scene):
        scene.pods("a", cpu_milli=CPU)
        await scene.settle(60)
        ForNodes.allowed.add("a")
        scene.cluster.set_node(node("node-0", 2_000))
        await scene.settle(30)
        assert ForNodes.asked["a"] == 1
        add_node(scene.cluster, "node-1", audited="yes")
        await scene.settle(10)
        assert scene.running("a") == 1

    played(story)


def test_a_pod_without_events_waits_for_five_minutes():
    async def story(scene: Scene):
        scene.pods("a", cpu_milli=CPU)
        await scene.settle(5)
        ForNodes.allowed.add("a")
        await scene.settle(290)
        assert (scene.running("a"), ForNodes.asked["a"]) == (0, 1)
        await scene.settle(MINUTES_5 - 290)
        assert (scene.running("a"), ForNodes.asked["a"]) == (1, 2)

    played(story)


def test_events_during_the_plugins_call_count():
    async def story(scene: Scene):
        async def happens() -> None:
            ForNodes.thinks.clear()
            add_node(scene.cluster, "node-2")
            await scene.settle(1)

        ForNodes.thinks.append(happens)
        scene.pods("a", cpu_milli=CPU)
        await scene.settle(20)
        assert ForNodes.asked["a"] == 2, "asked again after its backoff"

    played(story)


def test_without_a_list_of_events_any_event_wakes_the_pod():
    async def story(scene: Scene):
        scene.pods("a", cpu_milli=CPU)
        await scene.settle(30)
        ForNodes.allowed.add("a")
        scene.pods("other", cpu_milli=CPU, scheduler="nobody")
        await scene.settle(10)
        assert scene.running("a") == 1

    played(story, ForNodes=("Pod/Add", "Pod/Delete", *NODES), ForPods=())


def test_a_plugin_that_fails_waits_for_no_event():
    async def story(scene: Scene):
        scene.pods("broken", cpu_milli=CPU)
        await scene.settle(60)
        assert 4 <= ForNodes.asked["broken"] <= 10, "with the backoff of errors"

    played(story)
