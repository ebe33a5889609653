"""Trees of groups start the same pods as kube-scheduler's recursion, written down here once more.

All pods are of one CPU, so that only the room in all counts. Source:
compositePodGroupSchedulingDefaultAlgorithm of kube-scheduler 1.37.
"""

import random
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scenarios.scene import Scene, node, play


class Group(NamedTuple):
    """A PodGroup with `pods` members, or a composite one with `groups`."""

    least: int
    pods: int = 0
    groups: tuple["Group", ...] = ()


def tree(rng: random.Random, depth: int) -> Group:
    """Return a random tree of composite groups of at most this depth."""
    groups = [
        tree(rng, depth - 1) if depth > 1 and rng.random() < 0.4 else leaf(rng)
        for _ in range(rng.randint(1, 3))
    ]
    return Group(rng.randint(1, 3), groups=tuple(groups))


def leaf(rng: random.Random) -> Group:
    return Group(rng.randint(1, 4), rng.randint(0, 5))


Started = dict[tuple[int, ...], int]
"""The path of a PodGroup -> how many of its pods have a node"""


def after_cycle(group: Group, path: tuple[int, ...], room: int, started: Started) -> Started | None:
    """Return what has started after a cycle; None if the group is infeasible."""
    if not group.groups:
        have = started.get(path, 0)
        more = min(group.pods - have, room)
        return {**started, path: have + more} if have + more >= group.least else None
    feasible = 0
    for at, one in enumerate(group.groups):
        found = after_cycle(one, (*path, at), room, started)
        if found is not None:
            room -= sum(found.values()) - sum(started.values())
            started, feasible = found, feasible + 1
    return started if feasible >= group.least else None


def expected(root: Group, room: int) -> Started:
    """Return what has started when nothing more does."""
    started: Started = {}
    while (found := after_cycle(root, (), room - sum(started.values()), started)) is not None:
        if sum(found.values()) == sum(started.values()):
            break
        started = found
    return {path: count for path, count in started.items() if count}


def create(scene: Scene, group: Group, path: tuple[int, ...], pods: list[tuple[int, ...]]) -> None:
    parent = f"default/g{'-'.join(map(str, path[:-1]))}@composite" if path else ""
    name = f"g{'-'.join(map(str, path))}"
    more = {"parent": parent, "created": str(path[-1:])}
    if group.groups or not path:
        scene.gang(f"default/{name}@composite", 1, min_groups=group.least, **more)
    elif group.pods:
        scene.gang(f"default/{name}", group.least, **more)
        pods.append(path)
    else:
        scene.gang(f"default/{name}", group.least, **more)
    for at, one in enumerate(group.groups):
        create(scene, one, (*path, at), pods)


def group_at(root: Group, path: tuple[int, ...]) -> Group:
    for at in path:
        root = root.groups[at]
    return root


@settings(max_examples=60, deadline=None)
@example(240, 3)  # a later group fits on one shard, an older one on two
@given(st.integers(0, 1 << 32), st.sampled_from([1, 3]))
def test_safety_a_tree_starts_what_kube_scheduler_starts(seed, shards):
    rng = random.Random(seed)
    root, cpus = tree(rng, 3), [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]

    async def story(scene: Scene):
        pods: list[tuple[int, ...]] = []
        create(scene, root, (), pods)
        names: dict[tuple[int, ...], list[str]] = {}
        for path in pods:
            name = f"g{'-'.join(map(str, path))}"
            names[path] = [f"{name}-p{at}" for at in range(group_at(root, path).pods)]
            scene.pods(*names[path], cpu_milli=1_000, gang=f"default/{name}")
        await scene.settle(120.0)
        found = {path: scene.running(*ones) for path, ones in names.items()}
        started = {path: count for path, count in found.items() if count}
        alike = expected(root, sum(cpus))
        # Several shards may find a cut where members above a minimum would take a group's room.
        if alike or shards == 1 or not started:
            assert started == alike
        else:
            assert after_cycle(root, (), 0, started) == started

    play(story, *(node(f"n{at}", cpu * 1_000) for at, cpu in enumerate(cpus)), placements=shards)
