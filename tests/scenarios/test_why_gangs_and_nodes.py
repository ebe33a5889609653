"""`muster why gang/NAME` and `node/NAME`: members and what is missing, pods and what is kept."""

import pytest

from muster.cli.commands.why import lines_of
from muster.cli.errors import UsageFault
from muster.cli.output import plain, time_of
from muster.explain.why.answers import GangAnswer, OneNodeAnswer
from muster.explain.why.gangs import why_gang
from muster.explain.why.nodes import quantity, why_node
from shared.events.observed import GangsDeletedSeen
from shared.model.objects import PartMinimum, Taint
from tests.scenarios.scene import GI, Scene, node, play

GRACE_S = 300
NOW = time_of(0)


async def gang(scene: Scene, name: str = "g") -> GangAnswer:
    return await why_gang(scene.recorded(), name)


async def on(scene: Scene, name: str) -> OneNodeAnswer:
    return await why_node(scene.recorded(), name)


def test_a_gang_without_room_says_what_it_needs_and_when_it_is_tried_again():
    async def story(scene: Scene) -> None:
        scene.gang("default/w/g", 3)
        scene.pods("a", "b", "c", cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        found = await gang(scene)
        assert (found.gang, found.state) == ("default/w/g", "waiting")
        assert (found.min_count, found.missing, found.message == "") == (3, 3, False)
        assert [one.pod for one in found.members] == ["default/a", "default/b", "default/c"]
        assert {one.state for one in found.members} == {"waiting for its gang"}
        assert found.next.startswith("it is tried again at 2023-11-14 22:1")
        lines = lines_of(found, NOW)
        assert lines[0].startswith("gang default/w/g: waiting since 2023-11-14 22:13:")
        assert "  0 of 3 members bound, minCount 3: 3 more needed" in lines
        assert "  3 waiting for its gang: default/a, default/b, default/c" in lines

    play(story, node("n", 2_000))


def test_a_committed_gang_has_nodes_and_nothing_more_to_wait_for():
    async def story(scene: Scene) -> None:
        scene.gang("default/w/g", 2)
        scene.pods("a", "b", cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        found = await gang(scene)
        assert (found.state, found.missing, found.next) == ("committed", 0, "")
        assert [(one.state, one.node) for one in found.members] == [("bound", "n")] * 2
        assert found.decided is not None
        assert found.decided.journal == "permit/0"
        assert "  2 bound: default/a (n), default/b (n)" in lines_of(found, NOW)
        assert list(plain(found)["members"][0]) == ["pod", "state", "node"]

    play(story, node("n", 2_000))


def test_a_gang_waits_for_members_its_group_or_victims():
    async def story(scene: Scene) -> None:
        scene.gang("default/w/g", 3)
        scene.pods("a", "b", cpu_milli=1_000, gang="default/w/g")
        scene.pods("lonely", cpu_milli=1_000, gang="default/w/none")
        await scene.settle()
        found = await gang(scene)
        assert found.next == "it is tried once it has 1 more member without gates"
        assert (await gang(scene, "none")).next == "it is tried when its pod group exists"
        scene.gang("default/p@volcano", 1, minimums=(PartMinimum("master", 1),))
        scene.pods("worker", cpu_milli=1_000, gang="default/p@volcano", part="worker")
        await scene.settle()
        found = await gang(scene, "p@volcano")
        assert found.next == "it is tried once each of its parts has enough members"
        scene.pods("low", cpu_milli=3_000, priority=-1)
        await scene.settle()
        scene.pods("c", cpu_milli=2_000, gang="default/w/g", priority=5)
        await scene.settle(60)
        found = await gang(scene)
        assert found.state == "waiting for preemption"
        assert found.next == "it is tried when preemption has made room for it"
        assert [one.pod for one in found.evictions] == ["default/low"]

    play(story, node("n", 4_000), grace_ms=1_000 * GRACE_S, queueing={"gang_preemption": True})


def test_a_gang_that_is_gone_or_never_was():
    async def story(scene: Scene) -> None:
        scene.gang("default/w/g", 2)
        await scene.settle()
        assert (await gang(scene)).state == "without members"
        scene.cluster.revision += 1
        scene.cluster._publish(GangsDeletedSeen("default/w/g"))
        await scene.settle()
        found = await gang(scene)
        assert (found.state, found.members) == ("deleted", ())
        with pytest.raises(UsageFault, match="gang nobody: not known"):
            await gang(scene, "nobody")

    play(story, node("n", 2_000))


def test_a_node_has_its_pods_its_amounts_and_its_taints():
    async def story(scene: Scene) -> None:
        scene.pods("a", "b", cpu_milli=1_500, priority=7)
        await scene.settle()
        found = await on(scene, "n")
        assert (found.state, found.shard, found.taints) == (
            "schedulable",
            0,
            ("dedicated=x:PreferNoSchedule",),
        )
        assert [(one.pod, one.state, one.priority) for one in found.pods] == [
            ("default/a", "bound", 7),
            ("default/b", "bound", 7),
        ]
        amounts = {one.resource: (one.requested, one.allocatable) for one in found.amounts}
        assert amounts["cpu"] == ("3", "4")
        assert amounts["memory"] == ("0", "64Gi")
        lines = lines_of(found, NOW)
        assert lines[0] == "node n: schedulable, shard 0"
        assert "  2 bound: default/a (priority 7), default/b (priority 7)" in lines
        scene.cluster.set_node(node("n", 4_000, unschedulable=True))
        await scene.settle()
        assert (await on(scene, "n")).state == "unschedulable (cordoned)"
        scene.cluster.remove_node("uid-n")
        await scene.settle()
        gone = await on(scene, "n")
        assert (gone.state, gone.pods) == ("deleted", ())
        assert gone.decided is not None
        assert gone.decided.text == "n deleted from shard 0"
        with pytest.raises(UsageFault, match="no node of this name is known"):
            await on(scene, "nowhere")

    taint = Taint("dedicated", "x", "PreferNoSchedule")
    play(story, node("n", 4_000, taints=(taint,)))


def test_a_node_keeps_room_for_a_nominated_pod_while_its_victims_leave():
    async def story(scene: Scene) -> None:
        scene.pods("low", cpu_milli=2_000, priority=1)
        await scene.settle()
        scene.pods("high", cpu_milli=2_000, priority=9)
        await scene.settle(20)
        found = await on(scene, "n")
        assert [(one.pod, one.state) for one in found.pods] == [("default/low", "leaving")]
        (kept,) = found.kept
        assert (kept.pod, kept.priority, kept.victims) == ("default/high", 9, ("default/low",))
        line = "  kept for default/high (priority 9) until default/low left"
        assert line in lines_of(found, NOW)

    play(story, node("n", 2_000), grace_ms=1_000 * GRACE_S)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1_500, "1500m"),
        ("cpu", 8_000, "8"),
        ("nvidia.com/gpu", 250, "250m"),
        ("memory", 512 * GI, "512Gi"),
        ("memory", 1_000, "1000"),
        ("memory", 0, "0"),
        ("hugepages-2Mi", 2 << 20, "2Mi"),
        ("pods", 110, "110"),
    ],
)
def test_amounts_are_written_as_in_kubernetes(resource, amount, text):
    assert quantity(resource, amount) == text
