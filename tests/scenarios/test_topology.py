"""Gangs with a topology: in which domain they start, wait, grow and are replaced."""

from collections import Counter

import pytest

from shared.model.groups.topology import Topology
from shared.model.objects import (
    HOSTNAME,
    GpuRequest,
    HostPort,
    PartMinimum,
    PodTerm,
    Requirement,
    SpreadConstraint,
)
from tests.scenarios.scene import Scene, node, play

MESHES = [
    pytest.param({"placements": 1}, id="one-shard"),
    pytest.param({"placements": 3}, id="three-shards"),
    pytest.param({"placements": 1, "batch": False}, id="single-cycles"),
]
anywhere = pytest.mark.parametrize("mesh", MESHES)
WEB = (Requirement("app", "In", ("web",)),)
GANG, OTHER = "default/g", "default/h"
RACK = Topology(("rack",))
PREEMPTING = {"gang_preemption": True}
FOUR = tuple("abcd")


def rack(name: str, cpu_milli: int = 2_000, nodes: int = 2, **labels: str):
    """Return the nodes of one rack."""
    labels = {"rack": name, **labels}
    return [node(f"{name}-{number}", cpu_milli, labels=labels) for number in range(nodes)]


def by_rack(scene: Scene, *names: str) -> Counter[str]:
    return Counter(name.rpartition("-")[0] for name in scene.where(*names) if name)


@anywhere
def test_a_gang_gets_the_only_rack_with_room(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 4, topology=RACK)
        scene.pods(*FOUR, cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert by_rack(scene, *FOUR) == {"s": 4}

    play(story, *rack("r", 1_000), *rack("s"), *rack("t", 1_000), **mesh)


@anywhere
def test_of_racks_with_room_the_fullest_is_taken(mesh):
    async def story(scene: Scene):
        scene.pods("first", cpu_milli=1_500, node_selector=(("rack", "s"),))
        await scene.settle()
        scene.gang(GANG, 2, topology=RACK)
        scene.pods("a", "b", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert by_rack(scene, "a", "b") == {"s": 2}

    play(story, *rack("r", 4_000), *rack("s", 4_000), *rack("t", 4_000), **mesh)


@anywhere
def test_a_gang_that_fits_in_no_rack_waits_and_says_so(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 4, topology=RACK)
        scene.pods(*FOUR, cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running(*FOUR) == 0
        said = await scene.said("a")
        assert said.startswith(f"gang {GANG}: 3 of 4 members have a node in rack=s; 1 more: "), said
        assert "node(s) outside the gang's topology domain" in said
        scene.pods("plain", cpu_milli=1_000)
        await scene.settle()
        assert scene.running("plain") == 1

    play(story, *rack("r", 1_000), *rack("s", 1_000, nodes=3), **mesh)


@anywhere
def test_a_late_member_joins_the_others_or_waits(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, topology=RACK)
        scene.pods("a", "b", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        (home,) = by_rack(scene, "a", "b")
        scene.pods("c", "d", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert by_rack(scene, *FOUR) == {home: 4}
        scene.pods("e", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert scene.running("e") == 0, "its rack is full"
        scene.delete("b")
        await scene.settle()
        assert by_rack(scene, "a", "c", "d", "e") == {home: 4}

    play(story, *rack("r"), *rack("s"), **mesh)


@anywhere
def test_when_all_members_are_gone_another_rack_may_be_taken(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, topology=RACK)
        scene.pods("a", "b", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        (home,) = by_rack(scene, "a", "b")
        scene.delete("a", "b")
        scene.pods("full", cpu_milli=1_500, node_selector=(("rack", home),))
        scene.pods("full2", cpu_milli=1_500, node_selector=(("rack", home),))
        await scene.settle()
        scene.pods("c", "d", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        (other,) = by_rack(scene, "c", "d")
        assert other != home

    play(story, *rack("r"), *rack("s"), **mesh)


@anywhere
def test_the_narrowest_level_with_room_is_taken(mesh):
    levels = Topology(("block", "rack"), lowest=1, highest=-1)

    async def story(scene: Scene):
        scene.gang(GANG, 2, topology=levels)
        scene.pods("a", "b", cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert len(by_rack(scene, "a", "b")) == 1
        scene.gang(OTHER, 3, topology=levels)
        scene.pods("c", "d", "e", cpu_milli=1_000, gang=OTHER)
        await scene.settle()
        (block,) = {name[0] for name in by_rack(scene, "c", "d", "e")}
        assert len(by_rack(scene, "c", "d", "e")) == 2
        assert block != next(iter(by_rack(scene, "a", "b")))[0], "no block has three free places"

    racks = [
        one for block in "xy" for name in "12" for one in rack(block + name, 1_000, block=block)
    ]
    play(story, *racks, **mesh)


@anywhere
def test_at_last_the_whole_cluster_is_taken_with_few_racks(mesh):
    levels = Topology(("rack",), lowest=0, highest=-1)

    async def story(scene: Scene):
        scene.gang(GANG, 4, topology=levels)
        scene.pods(*FOUR, cpu_milli=1_000, gang=GANG)
        await scene.settle()
        assert by_rack(scene, *FOUR) == {"s": 3, "r": 1}, "most room first, then the tightest"

    nodes = [*rack("r", 1_000, 1), *rack("s", 1_000, 3), *rack("t", 1_000, 2)]
    play(story, *nodes, **mesh)


@anywhere
@pytest.mark.parametrize(
    "rule",
    [
        {"host_ports": (HostPort(80),)},
        {"pod_anti_affinity": (PodTerm(HOSTNAME, WEB),)},
        {"spread": (SpreadConstraint(HOSTNAME, 1, selector=WEB, min_domains=3),)},
        {"gpu": GpuRequest(500)},
    ],
    ids=["ports", "apart", "spread", "shared-gpus"],
)
def test_rules_between_members_count_when_a_rack_is_chosen(mesh, rule):
    async def story(scene: Scene):
        scene.gang(GANG, 3, topology=RACK)
        names = ("a", "b", "c")
        scene.pods(*names, cpu_milli=1_000, gang=GANG, of=(("app", "web"),), **rule)
        await scene.settle(60)
        assert by_rack(scene, *names) == {"s": 3}

    gpus = {"r": 1, "s": 2, "t": 0}
    nodes = []
    for name, count in (("r", 2), ("s", 3), ("t", 1)):
        for number in range(count):
            labels = {"rack": name, HOSTNAME: f"{name}-{number}"}
            has = gpus[name] if number == 0 else 0
            nodes.append(node(f"{name}-{number}", 9_000, labels=labels, gpu_count=has))
    play(story, *nodes, **mesh)


@anywhere
def test_a_spread_counts_the_nodes_of_the_domain_only(mesh):
    """As kube-scheduler's snapshot for a pod group has no other nodes."""
    spread = (SpreadConstraint("zone", 1, selector=WEB),)

    async def story(scene: Scene):
        scene.gang(GANG, 3, topology=RACK)
        scene.pods(*"abc", cpu_milli=1_000, gang=GANG, of=(("app", "web"),), spread=spread)
        await scene.settle(60)
        assert by_rack(scene, *"abc") == {"s": 3}

    play(story, *rack("r", 500, zone="x"), *rack("s", zone="y"), **mesh)


def kept(scene: Scene, *names: str) -> int:
    """Return how many of these pods were not evicted."""
    return sum(f"uid-{name}" in scene.cluster.pods for name in names)


def full(scene: Scene, name: str, nodes: int, priority: int, cpu_milli: int = 1_000) -> list[str]:
    """Fill a rack with two pods on each of its nodes; return their names."""
    names = [f"{name}{number}" for number in range(2 * nodes)]
    where = (("rack", name),)
    scene.pods(*names, cpu_milli=cpu_milli, priority=priority, node_selector=where)
    return names


@anywhere
def test_preemption_makes_room_in_one_rack_only(mesh):
    async def story(scene: Scene):
        cheap, dear = full(scene, "r", 2, 1), full(scene, "s", 2, 100)
        scene.pods("t0", "t1", cpu_milli=1_000, priority=1, node_selector=(("rack", "t"),))
        await scene.settle()
        scene.gang(GANG, 4, topology=RACK)
        scene.pods(*FOUR, cpu_milli=1_000, gang=GANG, priority=10)
        await scene.settle(60)
        assert by_rack(scene, *FOUR) == {"r": 4}
        assert kept(scene, *cheap) == 0
        assert scene.running(*dear, "t0", "t1") == len(dear) + 2

    play(story, *rack("r"), *rack("s"), *rack("t", nodes=1), queueing=PREEMPTING, **mesh)


@anywhere
def test_nobody_is_evicted_if_no_rack_can_have_room(mesh):
    async def story(scene: Scene):
        low = full(scene, "r", 2, 1) + full(scene, "s", 2, 1)
        await scene.settle()
        scene.gang(GANG, 5, topology=RACK)
        scene.pods(*"abcde", cpu_milli=1_000, gang=GANG, priority=10)
        await scene.settle(60)
        assert scene.running(*low) == len(low)
        assert scene.running(*"abcde") == 0

    play(story, *rack("r"), *rack("s"), queueing=PREEMPTING, **mesh)


@anywhere
def test_a_late_member_preempts_in_the_rack_of_the_others(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, topology=RACK)
        scene.pods("a", "b", cpu_milli=1_000, gang=GANG, priority=10)
        await scene.settle()
        (home,) = by_rack(scene, "a", "b")
        low = ("x", "y")
        scene.pods(*low, cpu_milli=1_000, priority=1, node_selector=(("rack", home),))
        await scene.settle()
        assert scene.running(*low) == 2
        scene.pods("c", cpu_milli=1_000, gang=GANG, priority=10)
        await scene.settle(60)
        assert by_rack(scene, "a", "b", "c") == {home: 3}
        assert kept(scene, *low) == 1

    play(story, *rack("r"), *rack("s"), queueing=PREEMPTING, **mesh)


@anywhere
def test_parts_of_a_gang_must_all_fit_in_the_rack(mesh):
    """Two workers and the one launcher, which is too large for the fuller rack."""
    minimums = (PartMinimum("launcher", 1), PartMinimum("worker", 1))

    async def story(scene: Scene):
        scene.gang(GANG, 2, topology=RACK, minimums=minimums)
        scene.pods("a", "b", cpu_milli=1_000, gang=GANG, part="worker")
        scene.pods("c", cpu_milli=3_000, gang=GANG, part="launcher")
        await scene.settle()
        assert by_rack(scene, "a", "b", "c") == {"s": 3}

    play(story, *rack("r", 2_000, nodes=3), *rack("s", 4_000), **mesh)


@pytest.mark.parametrize("mesh", MESHES[::2])
def test_kinds_of_members_are_tried_in_another_order_before_a_rack_is_given_up(mesh):
    async def story(scene: Scene):
        scene.gang(GANG, 2, topology=RACK)
        scene.pods("small", cpu_milli=700, gang=GANG)
        scene.pods("large", cpu_milli=1_500, gang=GANG)
        await scene.settle()
        assert scene.where("small", "large") == ["r-1", "r-0"]

    labels = {"labels": {"rack": "r"}}
    play(story, node("r-0", 1_500, **labels), node("r-1", 700, **labels), **mesh)
