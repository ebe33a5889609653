"""Gangs whose members have rules between pods of several nodes, on one shard and on three."""

from collections import Counter

import pytest

from shared.events.base import Event
from shared.events.permit import GangCommitted, GangReleased
from shared.model.ids import PERMIT
from shared.model.objects import PodTerm, Requirement, SpreadConstraint
from tests.scenarios.scene import Scene, node, play

MESHES = [
    pytest.param({"placements": 1}, id="one-shard"),
    pytest.param({"placements": 3}, id="three-shards"),
    pytest.param({"placements": 3, "batch": False}, id="single-cycles"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
ZONE = "zone"
APP = (("app", "web"),)
WEB = (Requirement("app", "In", ("web",)),)
SPREAD = {"spread": (SpreadConstraint(ZONE, 1, selector=WEB),)}
APART = {"pod_anti_affinity": (PodTerm(ZONE, WEB),)}
TOGETHER = {"pod_affinity": (PodTerm(ZONE, WEB),)}
GANG = "default/w/g"
SIX = tuple("abcdef")


def zones(cpu_milli: int = 2_000, each: int = 1):
    """Return the nodes of three zones, which a hash of their names gives to all shards."""
    return [
        node(f"{zone}-{number}", cpu_milli, labels={ZONE: zone})
        for zone in "xyz"
        for number in range(each)
    ]


def by_zone(scene: Scene, *names: str) -> Counter[str]:
    return Counter(name.partition("-")[0] for name in scene.where(*names) if name)


async def permits(scene: Scene, kind: type[Event]):
    """Return permit's decisions of this kind."""
    return [event async for event in scene._events(PERMIT) if isinstance(event, kind)]


@anywhere
def test_a_spread_gang_that_fits_only_over_all_nodes_is_whole(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 6)
        scene.pods(*SIX, cpu_milli=1_000, gang=GANG, of=APP, **SPREAD)
        await scene.settle()
        assert by_zone(scene, *SIX) == {"x": 2, "y": 2, "z": 2}
        (commit,) = await permits(scene, GangCommitted)
        assert (commit.shards > 1) == (mesh["placements"] > 1)

    play(story, *zones(), **mesh)


@anywhere
def test_members_that_keep_each_other_from_their_zones(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 3)
        scene.pods("a", "b", "c", cpu_milli=100, gang=GANG, of=APP, **APART)
        await scene.settle()
        assert by_zone(scene, "a", "b", "c") == {"x": 1, "y": 1, "z": 1}

    play(story, *zones(each=3), **mesh)


@anywhere
def test_members_that_want_one_zone(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 6)
        scene.pods(*SIX, cpu_milli=1_000, gang=GANG, of=APP, **TOGETHER)
        await scene.settle()
        assert list(by_zone(scene, *SIX).values()) == [6]

    play(story, *zones(each=3), **mesh)


@anywhere
def test_a_gang_with_one_member_too_many_waits_whole_and_lets_others_run(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 4)
        scene.pods("a", "b", "c", "d", cpu_milli=100, gang=GANG, of=APP, **APART)
        await scene.settle()
        assert scene.running("a", "b", "c", "d") == 0
        why = "3 of 4 members have a node; 1 more: 3 node(s) didn't match pod anti-affinity rules."
        assert (await scene.said("a")).startswith(f"gang {GANG}: {why}")
        scene.pods("alone", "other", cpu_milli=1_000, of=APP, **APART)
        scene.pods("plain", cpu_milli=1_000)
        await scene.settle()
        assert scene.running("alone", "other", "plain") == 3, "no turn lasts"

    play(story, *zones(), **mesh)


@anywhere
def test_tries_of_a_gang_that_does_not_fit_wake_no_waiting_pods(mesh):
    """Queueing tries it every ten seconds, and shards hold and release some members each time."""

    async def story(scene: Scene):
        scene.gang(GANG, 7)
        scene.pods("large", cpu_milli=3_000, of=APP, **SPREAD)
        scene.pods(*SIX, "g", cpu_milli=1_000, gang=GANG, of=APP, **SPREAD)
        await scene.settle(50)
        released, before = await permits(scene, GangReleased), await scene.refusals()
        await scene.settle(50)
        assert len(await permits(scene, GangReleased)) > len(released)
        assert (await scene.refusals())["large"] == before["large"]

    play(story, *zones(), **mesh)


@anywhere
def test_a_waiting_gang_runs_when_a_pod_that_its_rules_count_is_deleted(mesh):
    async def story(scene: Scene):
        scene.pods("first", cpu_milli=100, of=APP)
        await scene.settle()
        scene.gang(GANG, 3)
        scene.pods("a", "b", "c", cpu_milli=100, gang=GANG, of=APP, **APART)
        await scene.settle()
        assert scene.running("a", "b", "c") == 0
        scene.delete("first")
        await scene.settle(60)
        assert scene.running("a", "b", "c") == 3

    play(story, *zones(), **mesh)


@anywhere
def test_members_beyond_min_count_keep_the_rules_as_single_pods(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2)
        scene.pods(*SIX, cpu_milli=100, gang=GANG, of=APP, **APART)
        await scene.settle()
        assert by_zone(scene, *SIX) == {"x": 1, "y": 1, "z": 1}

    play(story, *zones(each=2), **mesh)


@anywhere
def test_gangs_and_single_pods_count_each_other(mesh):
    async def story(scene: Scene):
        for number in range(4):
            key = f"default/w/{number}"
            scene.gang(key, 3)
            names = [f"{number}{letter}" for letter in "abc"]
            scene.pods(*names, cpu_milli=100, gang=key, of=APP, **SPREAD)
            scene.pods(f"{number}s", cpu_milli=100, of=APP, **SPREAD)
        await scene.settle()
        names = [f"{number}{letter}" for number in range(4) for letter in "abcs"]
        assert sorted(by_zone(scene, *names).values()) == [5, 5, 6]

    play(story, *zones(each=2), **mesh)
