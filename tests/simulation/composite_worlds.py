"""Worlds with trees of CompositePodGroups of two and three levels."""

import random
from collections.abc import Iterator

from msgspec.structs import replace

from muster.simulation.worlds import ARRIVALS_MS, GIB, make_spec, make_world
from shared.events.observed import PodsSeen
from shared.model.columns import join
from shared.model.groups.topology import Topology
from shared.model.objects import Gang, PodSpec
from shared.model.world import Arrival, World
from tests.simulation.topology_worlds import in_a_rack


def make_composite_world(seed: int) -> World:
    """Return a seed's world with trees of groups beside its other pods; odd seeds have topologies
    in them.
    """
    base, rng = make_world(seed), random.Random(f"{seed}/composites")
    gangs, arrivals = list(base.gangs), list(base.arrivals)
    for number in range(rng.randint(4, 6)):
        for one in _tree(rng, f"tree{number}"):
            if isinstance(one, Gang):
                gangs.append(one)
            else:
                arrivals.append(one)
    arrivals.sort(key=lambda one: one.at_ms)
    nodes = base.nodes
    if seed % 2:
        rng = random.Random(f"{seed}/topologies")
        nodes = tuple(in_a_rack(node, number, rng) for number, node in enumerate(nodes))
        gangs = [_with_topology(one, rng) for one in gangs]
    return replace(
        base,
        name=f"composites-{seed}",
        nodes=nodes,
        arrivals=tuple(arrivals),
        gangs=tuple(gangs),
    )


def _with_topology(gang: Gang, rng: random.Random) -> Gang:
    """Return a group of a tree in a block or a rack, most PodGroups in racks."""
    if not gang.is_in_tree:
        return gang
    levels = ("block", "") if gang.min_groups else ("rack", "rack", "block", "")
    level = rng.choice(levels)
    return replace(gang, topology=Topology((level,))) if level else gang


def _key(name: str) -> str:
    return f"default/{name}@composite"


def _tree(rng: random.Random, name: str) -> Iterator[Gang | Arrival]:
    """Yield a tree, and the pods of its groups, which may come apart."""
    cpu_milli = rng.choice((300, 900, 2_000, 4_000))
    spec = make_spec(cpu_milli, GIB, priority=rng.choice((0, 10, 40)))
    timeout_ms, at_ms = rng.choice((3_000, 6_000, 20_000)), rng.randrange(0, ARRIVALS_MS)
    yield Gang(key=_key(name), min_count=1, min_groups=rng.randint(1, 2), timeout_ms=timeout_ms)
    parents = [f"{name}-{part}" for part in range(2)] if rng.random() < 0.4 else [name]
    for part in parents if parents != [name] else ():
        least = rng.randint(1, 2)
        yield Gang(key=_key(part), min_count=1, min_groups=least, parent=_key(name))
    for parent in parents:
        for number in range(rng.randint(2, 3)):
            group = f"{parent}-g{number}"
            least = rng.randint(1, 4)
            key = f"default/{group}"
            yield Gang(key=key, min_count=least, parent=_key(parent), created=f"{number}")
            count = least + rng.choice((-1, 0, 0, 0, 1, 2))
            late_ms = rng.choice((0, 0, rng.randrange(10, 5_000)))
            if count > 0:
                yield _pods(group, key, spec, count, at_ms + late_ms)


def _pods(group: str, gang: str, spec: PodSpec, count: int, at_ms: int) -> Arrival:
    names = [f"{group}-{number}" for number in range(count)]
    seen = PodsSeen(
        spec=spec,
        uids=join(f"{one}-uid" for one in names),
        names=join(names),
        revisions=b"",
        labels=(("app", "tree"),),
        gang=gang,
    )
    return Arrival(at_ms=at_ms, pods=seen)
