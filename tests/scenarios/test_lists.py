"""`muster get pods`, `gangs` and `nodes`: a row for each, with the words of `muster why`."""

from datetime import timedelta
from typing import Any

from muster.cli.commands.get import Asked
from muster.cli.commands.lists import listing
from muster.cli.output import plain
from muster.cli.table import table
from muster.explain.lists import PodRow
from muster.explain.why.pods import why_pod
from shared.model.objects import Taint
from tests.scenarios.scene import GI, Scene, node, play

GRACE_MS = 300_000


async def rows(scene: Scene, kind: str, namespace: str = "", waiting: bool = False) -> list[Any]:
    asked = Asked(kind, None, namespace, waiting, "", 1)
    return [plain(row) for row in (await listing(scene.recorded(), asked, is_wide=False)).rows]


async def lines(scene: Scene, kind: str, waiting: bool = False, wide: bool = False) -> list[str]:
    asked = Asked(kind, None, "", waiting, "", 1)
    return table((await listing(scene.recorded(), asked, wide)).cells)


def test_live_pods_are_listed_by_name_with_the_state_that_why_gives():
    async def story(scene: Scene) -> None:
        scene.pods("b", "a", "gone", cpu_milli=500)
        scene.pods("gated", cpu_milli=500, gated=True)
        await scene.settle()
        scene.delete("gone")
        scene.pods("large", cpu_milli=9_000)
        await scene.settle()
        found = await rows(scene, "pods")
        states = [("a", "bound"), ("b", "bound"), ("gated", "gated"), ("large", "unschedulable")]
        assert [(one["name"], one["state"]) for one in found] == states
        for one in found:
            answer = await why_pod(scene.recorded(), one["name"])
            said = answer.message or answer.detail
            told = (answer.state, answer.node, said)
            assert (one["state"], one["node"], one["message"]) == told
        assert [one["name"] for one in await rows(scene, "pods", waiting=True)] == [
            "gated",
            "large",
        ]
        assert await rows(scene, "pods", "other") == []
        assert len(await rows(scene, "pods", "default")) == 4

    play(story, node("n", 2_000))


def test_a_waiting_pod_has_its_wait_and_its_reason():
    async def story(scene: Scene) -> None:
        scene.pods("large", cpu_milli=9_000)
        await scene.settle(20)
        scene.pods("small", cpu_milli=100)
        await scene.settle(5)
        head, large = await lines(scene, "pods", waiting=True)
        assert head.split() == ["NAMESPACE", "NAME", "STATE", "WAIT", "REASON"]
        assert large.startswith("default    large  unschedulable  24 s  0/1 nodes")
        _head, *others = await lines(scene, "pods")
        assert "  <none>  24 s" in others[0]
        assert others[1].startswith("default    small  bound          n       ")
        asked = Asked("pods", None, "", True, "", 1)
        (row,) = (await listing(scene.recorded(), asked, is_wide=False)).rows
        assert isinstance(row, PodRow)
        assert row.seen_time is not None
        later = row.seen_time + timedelta(seconds=85)
        (cells,) = (await listing(scene.recorded(), asked, is_wide=False, now=later)).cells
        assert cells["WAIT"] == "1 min 25 s"

    play(story, node("n", 2_000))


def test_victims_and_their_preemptor_are_told_apart():
    async def story(scene: Scene) -> None:
        scene.pods("low", cpu_milli=1_000, priority=1)
        await scene.settle()
        scene.pods("high", cpu_milli=1_000, priority=9)
        await scene.settle(20)
        high, low = await rows(scene, "pods")
        assert (low["state"], low["node"]) == ("being evicted", "n")
        assert high["state"] == "waiting for its victims to leave"
        assert (high["node"], high["nominated_node"]) == ("", "n")
        assert "NOMINATED NODE" in (await lines(scene, "pods", wide=True))[0]

    play(story, node("n", 1_000), grace_ms=GRACE_MS)


def test_gangs_have_members_with_a_node_of_min_count():
    async def story(scene: Scene) -> None:
        scene.gang("default/w/g", 2)
        scene.gang("other/w/h", 3)
        scene.pods("a", "b", cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        first, second = await rows(scene, "gangs")
        assert (first["gang"], first["state"]) == ("default/w/g", "committed")
        assert (first["members"], first["placed"], first["min_count"]) == (2, 2, 2)
        assert (first["wait_start_time"], first["next"]) == (None, "")
        assert (second["state"], second["missing"]) == ("without members", 3)
        assert [one["gang"] for one in await rows(scene, "gangs", waiting=True)] == ["other/w/h"]
        assert [one["gang"] for one in await rows(scene, "gangs", "other")] == ["other/w/h"]
        assert [one["gang"] for one in await rows(scene, "pods")] == ["default/w/g"] * 2

    play(story, node("n", 2_000))


def test_a_gang_without_room_says_since_when_it_waits():
    async def story(scene: Scene) -> None:
        scene.gang("default/w/g", 3)
        scene.pods("a", "b", "c", cpu_milli=1_000, gang="default/w/g")
        await scene.settle()
        (found,) = await rows(scene, "gangs")
        assert (found["state"], found["placed"], found["missing"]) == ("waiting", 0, 3)
        assert found["wait_start_time"].startswith("2023-11-14T22:13:")
        assert found["message"] != ""
        head, line = await lines(scene, "gangs", wide=True)
        assert head.split() == ["GANG", "STATE", "MEMBERS", "PLACED", "WAIT", "REASON", "NEXT"]
        assert line.startswith("default/w/g  waiting  3        0/3     ")
        assert "  it is tried again at 2023-11-14 22:1" in line

    play(story, node("n", 2_000))


def test_nodes_have_what_their_pods_request_of_what_they_have():
    async def story(scene: Scene) -> None:
        scene.pods("a", "b", cpu_milli=250)
        await scene.settle()
        one, two = await rows(scene, "nodes")
        assert (one["node"], one["state"]) == ("n1", "schedulable")
        assert (two["node"], two["state"]) == ("n2", "unschedulable (cordoned)")
        assert (one["pods"], one["cpu_milli"], one["cpu_milli_allocatable"]) == (2, 500, 2_000)
        assert (one["memory_bytes_allocatable"], one["gpu_milli_allocatable"]) == (64 * GI, 0)
        assert (two["pods"], two["taints"]) == (0, ["a=b:NoSchedule"])
        head, _first, second = await lines(scene, "nodes")
        assert head.split() == ["NODE", "STATE", "PODS", "CPU", "MEMORY", "GPU", "TAINTS"]
        assert second.split()[3:] == ["0", "0/1", "0/64Gi", "<none>", "a=b:NoSchedule"]

    taint = Taint(key="a", value="b", effect="NoSchedule")
    play(story, node("n1", 2_000), node("n2", 1_000, unschedulable=True, taints=(taint,)))
