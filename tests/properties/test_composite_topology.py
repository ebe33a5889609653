"""Trees with topologies start in domains, and wait only if an exhaustive search finds no domains.

Each pod takes a node's only CPU, so that only the number of free nodes in a domain counts.
"""

import random
from collections import Counter
from itertools import product
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model.groups.topology import Topology
from shared.model.objects import Node
from tests.scenarios.scene import Scene, node, play

BLOCKS, RACKS = 2, 4
Room = tuple[int, ...]
"""Free nodes by rack; rack r is in block r % 2."""


class Leaf(NamedTuple):
    """A PodGroup with as many members as it needs, in one rack if it has a topology."""

    pods: int
    has_rack: bool


class Tree(NamedTuple):
    """A root with `least` of these groups, in one block if it has a topology."""

    least: int
    has_block: bool
    groups: tuple[Leaf, ...]


def make_tree(rng: random.Random) -> Tree:
    """Return a random tree."""
    groups = [Leaf(rng.randint(1, 3), rng.random() < 0.6) for _ in range(rng.randint(1, 3))]
    return Tree(rng.randint(1, len(groups)), rng.random() < 0.5, tuple(groups))


def can_start(tree: Tree, room: Room) -> bool:
    """Return whether some choice of groups and of their racks has room."""
    for block in range(BLOCKS) if tree.has_block else (None,):
        inside = [free if block in (None, rack % 2) else 0 for rack, free in enumerate(room)]
        racks = [range(-1, RACKS) for _ in tree.groups]  # -1: the group does not start
        for chosen in product(*racks):
            started = [
                (one, rack) for one, rack in zip(tree.groups, chosen, strict=True) if rack >= 0
            ]
            taken = Counter[int]()
            for one, rack in started:
                taken[rack] += one.pods if one.has_rack else 0
            left = [free - taken[rack] for rack, free in enumerate(inside)]
            others = sum(one.pods for one, _rack in started if not one.has_rack)
            if min(left) >= 0 and sum(left) >= others and len(started) >= tree.least:
                return True
    return False


def make_nodes(room: Room) -> list[Node]:
    """Return the free nodes of all racks."""
    return [
        node(f"r{rack}-{at}", 1_000, labels={"rack": f"r{rack}", "block": f"b{rack % 2}"})
        for rack, free in enumerate(room)
        for at in range(free)
    ]


def started(tree: Tree, room: Room, shards: int) -> list[list[int]]:
    """Return the racks of each group's pods that get a node."""
    found: list[list[int]] = []

    async def story(scene: Scene) -> None:
        key, block, rack = "default/root@composite", Topology(("block",)), Topology(("rack",))
        topology = block if tree.has_block else None
        scene.gang(key, 1, min_groups=tree.least, topology=topology)
        for number, one in enumerate(tree.groups):
            topology = rack if one.has_rack else None
            more = {"parent": key, "created": f"{number}", "topology": topology}
            scene.gang(f"default/g{number}", one.pods, **more)
        for number, one in enumerate(tree.groups):
            names = [f"g{number}-{at}" for at in range(one.pods)]
            scene.pods(*names, cpu_milli=1_000, gang=f"default/g{number}")
        await scene.settle(60.0)
        for number, one in enumerate(tree.groups):
            where = scene.where(*(f"g{number}-{at}" for at in range(one.pods)))
            found.append([int(name[1]) for name in where if name])

    play(story, *make_nodes(room), placements=shards)
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([1, 1, 3]))
def test_safety_groups_start_in_domains_if_one_has_room(seed: int, shards: int):
    rng = random.Random(seed)
    tree, room = make_tree(rng), tuple(rng.randint(0, 3) for _ in range(RACKS))
    if not any(room):
        return
    found = started(tree, room, shards)
    blocks = {rack % 2 for racks in found for rack in racks}
    assert not tree.has_block or len(blocks) <= 1
    for one, racks in zip(tree.groups, found, strict=True):
        assert len(racks) in (0, one.pods), "a group starts whole"
        assert not one.has_rack or len(set(racks)) <= 1
    assert not any(found) or sum(map(bool, found)) >= tree.least
    # Otherwise an older group may take the only domain of a younger one.
    is_simple = len(tree.groups) == 1 or not any(one.has_rack for one in tree.groups)
    if is_simple and shards == 1:
        assert any(found) == can_start(tree, room)
