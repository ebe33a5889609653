"""Full clusters of three zones in which gangs with rules over zones need room. Pods that these
rules count, or that keep members away, come and go.
"""

import dataclasses
import random

from msgspec import structs

from muster.simulation.scenario import CONFIG, Scenario, make_scenario
from muster.simulation.worlds import GIB, make_spec
from shared.events.observed import PodsSeen
from shared.model.cluster_objects import ClusterObject
from shared.model.columns import join
from shared.model.objects import Gang, PodSpec, PodTerm, Requirement, SpreadConstraint
from shared.model.world import Arrival, World
from tests.simulation.volume_worlds import (
    VOLUMES,
    members_with_claims,
    storage_classes,
    volume,
)
from tests.support.builders import model_node

NODES = 6
LOW, HIGH = 0, 100
HOSTNAME, ZONE = "kubernetes.io/hostname", "zone"
MEMBERS = (Requirement("app", "In", ("member",)),)
APART: dict[str, object] = {"pod_anti_affinity": (PodTerm(ZONE, MEMBERS),)}
RULES: dict[str, tuple[int, dict[str, object]]] = {
    "apart": (3, APART),
    "spread": (6, {"spread": (SpreadConstraint(ZONE, 1, True, MEMBERS),)}),
    "together": (4, {"pod_affinity": (PodTerm(ZONE, MEMBERS),)}),
}
"""Name -> members, and their rules."""


def pods(
    name: str, spec: PodSpec, count: int, at_ms: int, gang: str = "", app: str = ""
) -> Arrival:
    """Return pods, of an app with their name if no other one is given."""
    names = [f"{name}-{index}" for index in range(count)]
    seen = PodsSeen(
        spec=spec,
        uids=join(f"{one}-uid" for one in names),
        names=join(names),
        revisions=b"",
        labels=(("app", app or name),),
        gang=gang,
    )
    return Arrival(at_ms=at_ms, pods=seen)


def members(rule: str, at_ms: int, gang: str = "g", priority: int = HIGH) -> Arrival:
    """Return the members of a gang with rules."""
    count, rules = RULES[rule]
    spec = make_spec(2_000, GIB, priority, **rules)
    return pods(f"{gang}-member", spec, count, at_ms, f"default/{gang}", app="member")


def full_world(*arrivals: Arrival, **gangs: int) -> World:
    """Return six nodes of four cpu in three zones, full of pods of one cpu. `gangs`: minCounts."""
    nodes = []
    for index in range(NODES):
        labels = {HOSTNAME: f"n{index}", ZONE: "abc"[index % 3]}
        one = model_node(f"n{index}", f"n{index}-uid").labels(labels)
        nodes.append(one.capacity(cpu=4_000, memory=64 * GIB).obj())
    low = pods("low", make_spec(1_000, GIB, priority=LOW), 4 * NODES, 0)
    return World(
        name="full zones",
        nodes=tuple(nodes),
        arrivals=(low, *arrivals),
        gangs=tuple(
            Gang(key=f"default/{name}", min_count=least, timeout_ms=20_000)
            for name, least in gangs.items()
        ),
    )


def make_full_zone_world(seed: int) -> World:
    """Return a seed's world with two gangs."""
    rng = random.Random(f"{seed}/zones")
    first, second = (rng.choice(sorted(RULES)) for _gang in range(2))
    priority = rng.choice((50, HIGH, 300))
    rival = make_spec(300, GIB, rng.choice((LOW, 50, 200)), never_preempts=True, **APART)
    mate = make_spec(300, GIB, rng.choice((LOW, 50, 200)))
    arrivals = (
        pods("old", make_spec(500, GIB, LOW), 3, 0),
        pods("rival", rival, 2, rng.randrange(8_000, 12_000)),
        pods("mate", mate, 3, rng.randrange(500, 12_000), app="member"),
        members(first, 9_000),
        members(second, rng.randrange(8_000, 12_000), "h", priority),
    )
    world = full_world(*arrivals, g=RULES[first][0], h=RULES[second][0])
    return structs.replace(world, name=f"full zones {seed}")


def make_full_zone_volume_scenario(seed: int) -> Scenario:
    """Return such a world on one shard, with members that have volumes to choose; most of them have
    no other rules.
    """
    world, rng = make_full_zone_world(seed), random.Random(f"{seed}/volumes")
    objects: list[ClusterObject] = [*storage_classes()]
    objects += [volume(number, rng) for number in range(VOLUMES)]
    arrivals: list[Arrival] = []
    for number, one in enumerate(world.arrivals):
        if not one.pods.gang:
            arrivals.append(one)
            continue
        spec = one.pods.spec
        if rng.random() < 0.7:
            spec = structs.replace(spec, pod_affinity=(), pod_anti_affinity=(), spread=())
        pods = structs.replace(one.pods, spec=spec)
        arrivals += members_with_claims(structs.replace(one, pods=pods), number, rng, objects)
    world = structs.replace(world, arrivals=tuple(arrivals), objects=tuple(objects))
    config = {**CONFIG, "ingest": {"volumes": True}}
    return dataclasses.replace(make_scenario(seed, world, 1), config=config)
