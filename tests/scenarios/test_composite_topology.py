"""Topologies in trees of CompositePodGroups: in which domains groups start, grow and wait."""

from collections import Counter

import pytest

from shared.model.groups.topology import Topology
from shared.model.objects import Node
from tests.scenarios.scene import Scene, node, play
from tests.scenarios.test_composite_groups import MESHES, composite, group, members

anywhere = pytest.mark.parametrize("mesh", MESHES)
BLOCK, RACK = {"topology": Topology(("block",))}, {"topology": Topology(("rack",))}


def rack(name: str, block: str = "", cpu_milli: int = 2_000) -> Node:
    """Return the only node of a rack."""
    return node(name, cpu_milli, labels={"rack": name} | ({"block": block} if block else {}))


RACKS = [rack("r0", "b0"), rack("r1", "b0"), rack("r2", "b1"), rack("r3", "b1")]
"""Two racks in each of two blocks, each with room for two pods of a CPU."""


def racks(scene: Scene, *names: str) -> Counter[str]:
    return Counter(name for name in scene.where(*names) if name)


@anywhere
def test_each_group_gets_a_rack_of_its_own(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 3)
        pods = []
        for name in "abc":
            group(scene, name, 2, **RACK)
            pods.append(members(scene, name, 2))
        await scene.settle()
        assert [list(racks(scene, *ones).values()) for ones in pods] == [[2], [2], [2]]

    play(story, *RACKS, **mesh)


@anywhere
def test_a_tree_waits_if_no_rack_has_room_for_a_group(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 2)
        group(scene, "a", 2, **RACK)
        group(scene, "b", 3, **RACK)
        pods = members(scene, "a", 2) + members(scene, "b", 3)
        await scene.settle()
        assert scene.running(*pods) == 0
        said = await scene.said("b-0")
        assert "1 of 2 groups have nodes" in said
        assert "outside the gang's topology domain" in said
        scene.pods("other", cpu_milli=2_000)
        await scene.settle()
        assert scene.running("other") == 1, "a tree that waits holds nothing"

    play(story, *RACKS, **mesh)


def test_all_groups_below_a_composite_are_in_its_block():
    async def story(scene: Scene):
        scene.pods("first", cpu_milli=1_000, node_selector=(("rack", "r0"),))
        await scene.settle()
        composite(scene, "root", 2, **BLOCK)
        group(scene, "a", 2, **RACK)
        group(scene, "b", 2, **RACK)
        pods = members(scene, "a", 2) + members(scene, "b", 2)
        await scene.settle()
        assert racks(scene, *pods) == {"r2": 2, "r3": 2}, "block b0 has a rack with one place"

    play(story, *RACKS, placements=1)


def test_composites_below_the_root_have_blocks_of_their_own():
    async def story(scene: Scene):
        composite(scene, "root", 2)
        pods = []
        for part in "xy":
            composite(scene, part, 2, "root", created=part, **BLOCK)
            for name in (f"{part}1", f"{part}2"):
                group(scene, name, 2, part, **RACK)
                pods += members(scene, name, 2)
        await scene.settle()
        assert scene.running(*pods) == 8
        found = racks(scene, *(one for one in pods if one.startswith("x")))
        assert found in ({"r0": 2, "r1": 2}, {"r2": 2, "r3": 2})

    play(story, *RACKS, placements=1)


def test_the_fullest_rack_with_room_is_taken():
    async def story(scene: Scene):
        scene.pods("first", cpu_milli=1_000, node_selector=(("rack", "r2"),))
        await scene.settle()
        composite(scene, "root", 1)
        group(scene, "a", 1, **RACK)
        pods = members(scene, "a", 1)
        await scene.settle()
        assert racks(scene, *pods) == {"r2": 1}

    play(story, *RACKS, placements=1)


@anywhere
@pytest.mark.parametrize("nodes", [2, 7])
def test_a_rack_may_have_many_nodes(mesh, nodes):
    async def story(scene: Scene):
        composite(scene, "root", 2)
        pods = []
        for name in "ab":
            group(scene, name, nodes, **RACK)
            pods.append(members(scene, name, nodes))
        await scene.settle()
        found = [Counter(one.rpartition("-")[0] for one in scene.where(*ones)) for ones in pods]
        assert sorted(map(dict, found), key=str) == [{"r0": nodes}, {"r1": nodes}]

    labels = ("r0", "r1")
    play(
        story,
        *(
            node(f"{one}-{number}", 1_000, labels={"rack": one})
            for one in labels
            for number in range(nodes)
        ),
        **mesh,
    )


@anywhere
def test_later_members_join_the_domain_of_their_group(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        group(scene, "a", 1, **RACK)
        first = members(scene, "a", 1)
        await scene.settle()
        (home,) = racks(scene, *first)
        scene.pods("a-1", "a-2", cpu_milli=1_000, gang="default/a")
        await scene.settle()
        assert racks(scene, "a-0", "a-1", "a-2") == {home: 2}, "the third has no room there"

    play(story, *RACKS, **mesh)


@anywhere
def test_later_groups_join_the_domain_of_their_tree(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1, **BLOCK)
        group(scene, "a", 2, **RACK)
        first = members(scene, "a", 2)
        await scene.settle()
        (home,) = racks(scene, *first)
        group(scene, "b", 2)
        group(scene, "c", 2)
        later = members(scene, "b", 2) + members(scene, "c", 2)
        await scene.settle()
        (other,) = {"r0": ["r1"], "r1": ["r0"], "r2": ["r3"], "r3": ["r2"]}[home]
        assert racks(scene, *later) == {other: 2}, "the block has room for one group"
        scene.delete(*first)
        await scene.settle()
        assert racks(scene, *later) == {home: 2, other: 2}

    play(story, *RACKS, **mesh)


@anywhere
def test_an_infeasible_group_gives_its_rack_to_the_next(mesh):
    async def story(scene: Scene):
        composite(scene, "root", 1)
        group(scene, "a", 3, **RACK)
        group(scene, "b", 2, **RACK)
        pods_a, pods_b = members(scene, "a", 3), members(scene, "b", 2)
        await scene.settle()
        assert (scene.running(*pods_a), scene.running(*pods_b)) == (0, 2)

    play(story, rack("r0"), **mesh)


@anywhere
def test_a_tree_with_topologies_evicts_no_pods(mesh):
    async def story(scene: Scene):
        low = [f"low-{number}" for number in range(8)]
        scene.pods(*low, cpu_milli=1_000)
        await scene.settle()
        composite(scene, "root", 1)
        group(scene, "a", 2, **RACK)
        pods = members(scene, "a", 2, priority=9)
        await scene.settle()
        assert (scene.running(*low), scene.running(*pods)) == (8, 0)

    play(story, *RACKS, **mesh)
