"""Worlds with gangs that have a topology: racks in blocks, and nodes outside of them."""

import dataclasses
import random
from collections.abc import Iterator

from msgspec.structs import replace

from muster.simulation.scenario import TREES, Mutation, Scenario, make_scenario
from muster.simulation.worlds import ARRIVALS_MS, GIB, make_spec, make_world
from shared.events.observed import PodsSeen
from shared.model.cluster_objects import HyperNode, HyperNodeMember, LabelSelector
from shared.model.groups.topology import NetworkTopology, Topology
from shared.model.objects import (
    Gang,
    GpuRequest,
    HostPort,
    Node,
    PodSpec,
    PodTerm,
    Requirement,
    SpreadConstraint,
)
from shared.model.world import Arrival, World
from tests.simulation.ruled_worlds import HOST, ZONE, make_ruled_world

RACKS = 5
OUTSIDE = 0.1  # of the nodes
LEVELS = (
    Topology(("rack",)),
    Topology(("rack",)),
    Topology(("block",)),
    Topology(("block", "rack"), lowest=1, highest=0),
    Topology(("block", "rack"), lowest=1, highest=-1),
    Topology(("rack",), lowest=0, highest=-1),
)
ALIKE = (Requirement("group", "In", ("one",)),)


def make_topology_world(seed: int) -> World:
    """Return a seed's world with racks and gangs that have a topology; every other one has rules
    between pods, too.
    """
    base = make_ruled_world(seed) if seed % 2 else make_world(seed)
    rng = random.Random(f"{seed}/topology")
    nodes = tuple(in_a_rack(node, number, rng) for number, node in enumerate(base.nodes))
    gangs, arrivals = list(base.gangs), list(base.arrivals)
    for number in range(rng.randint(5, 8)):
        gang, parts = _gang(rng, number, is_ruled=bool(seed % 2))
        gangs.append(gang)
        arrivals += parts
    arrivals.sort(key=lambda one: one.at_ms)
    name = f"topology-{seed}"
    return replace(base, name=name, nodes=nodes, arrivals=tuple(arrivals), gangs=tuple(gangs))


def make_hyper_node_world(seed: int) -> World:
    """Return the same world with HyperNodes in place of the topologies of gangs."""
    base = make_topology_world(seed)
    blocks = {block: f"b{block}" for block in range(2)}
    hyper_nodes = [_labelled(f"r{rack}", 1, "rack") for rack in range(RACKS)]
    for block, name in blocks.items():
        racks = [f"r{rack}" for rack in range(RACKS) if rack % 2 == block]
        inside = tuple(HyperNodeMember(hyper_node=rack) for rack in racks)
        hyper_nodes.append(_labelled(name, 2, "block", inside))
    gangs = tuple(_by_hyper_nodes(gang) for gang in base.gangs)
    objects = (*base.objects, *hyper_nodes)
    return replace(base, name=f"hyper-nodes-{seed}", gangs=gangs, objects=objects)


def make_hyper_node_scenario(seed: int, placements: int) -> Scenario:
    """Return the scenario of such a world; HyperNodes change meanwhile."""
    rng = random.Random(f"{seed}/hyper-nodes")
    changes = tuple(Mutation(rng.uniform(1, 20), TREES) for _ in range(rng.randint(0, 8)))
    made = make_scenario(seed, make_hyper_node_world(seed), placements)
    return dataclasses.replace(made, mutations=(*made.mutations, *changes))


def _labelled(
    name: str, tier: int, label: str, members: tuple[HyperNodeMember, ...] = ()
) -> HyperNode:
    own = HyperNodeMember(selector=LabelSelector(((label, name),)))
    return HyperNode(
        uid=f"{name}-uid", name=name, tier=tier, tier_name=label, members=(*members, own)
    )


def _by_hyper_nodes(gang: Gang) -> Gang:
    """Return a gang with a networkTopology like its topology."""
    topology = gang.topology
    if topology is None:
        return gang
    if topology.highest < 0:
        network = NetworkTopology(is_hard=False)
    elif topology.levels[topology.highest] == "rack":
        network = NetworkTopology(highest_tier=1)
    else:
        network = NetworkTopology(highest_tier_name="block")
    return replace(gang, topology=None, network=network)


def in_a_rack(node: Node, number: int, rng: random.Random) -> Node:
    """Return the node in a rack of a block, or outside of them."""
    if rng.random() < OUTSIDE:
        return node
    rack = number % RACKS
    labels = {**node.labels, "rack": f"r{rack}", "block": f"b{rack % 2}"}
    if rng.random() < OUTSIDE:
        del labels["rack"]
    return replace(node, labels=labels)


def _gang(rng: random.Random, number: int, is_ruled: bool) -> tuple[Gang, list[Arrival]]:
    """Return a gang and its members; some come late."""
    key, count = f"default/near-{number}", rng.randint(2, 7)
    least = rng.choice((count, count, max(1, count - 2)))
    gang = Gang(
        key=key,
        min_count=least,
        timeout_ms=rng.choice((3_000, 6_000, 20_000)),
        topology=rng.choice(LEVELS),
    )
    kinds = [_member(rng, is_ruled) for _ in range(rng.choice((1, 1, 2)))]
    start_ms = rng.randrange(ARRIVALS_MS)
    late = rng.choice((0, 0, 1, 3))
    arrivals = list(_members(rng, number, kinds, count, late, start_ms))
    return gang, arrivals


def _members(
    rng: random.Random, number: int, kinds: list[PodSpec], count: int, late: int, start_ms: int
) -> Iterator[Arrival]:
    first = rng.choice((count, rng.randint(1, count)))
    for member in range(count + late):
        at_ms = start_ms if member < first else start_ms + 500
        if member >= count:
            at_ms = start_ms + rng.randrange(1_000, 6_000)
        seen = PodsSeen(
            spec=kinds[member % len(kinds)],
            uids=f"near-{number}-{member}-uid",
            names=f"near-{number}-{member}",
            revisions=b"",
            labels=(("app", "web"), ("group", "one")),
            gang=f"default/near-{number}",
        )
        yield Arrival(at_ms=at_ms, pods=seen)


def _member(rng: random.Random, is_ruled: bool) -> PodSpec:
    spec = make_spec(rng.choice((200, 500, 900, 2_000)), GIB, priority=rng.choice((0, 20, 70)))
    more: list[dict[str, object]] = [{}, {}, {"gpu": GpuRequest(500)}]
    more.append({"host_ports": (HostPort(9090),)})
    if is_ruled:
        more += [
            {"spread": (SpreadConstraint(ZONE, 1, True, ALIKE),)},
            {"spread": (SpreadConstraint(HOST, 1, True, ALIKE),)},
            {"pod_anti_affinity": (PodTerm(HOST, ALIKE),)},
        ]
    return replace(spec, **rng.choice(more))
