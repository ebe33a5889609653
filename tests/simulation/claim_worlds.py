"""A world in which some pods have resource claims: each its own, or one that several share; devices
of single nodes and, with one shard, one pool that several nodes reach; fewer devices than pods.
"""

import dataclasses
import random

from msgspec.structs import replace

from muster.cli.options.release import with_release
from muster.simulation.scenario import Scenario, make_scenario
from muster.simulation.worlds import BALLAST, make_node, make_spec, make_world
from shared.events.observed import PodsSeen
from shared.model.claims import (
    ClaimSpec,
    Device,
    DeviceClass,
    Reach,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.model.cluster_objects import ClaimObject, ClassObject, ClusterObject, SliceObject
from shared.model.columns import split
from shared.model.pod_rules.pod_claims import PodClaim
from shared.model.release import V1_37, ReleaseOptions
from shared.model.world import Arrival, World

WITH_CLAIMS = 0.7  # of the arrivals
CONTENDERS = 60
DRIVER, CLASS, MEMORY = "gpu.example.com", "gpu", "memory"
SHARE = 10**9


def make_claim_scenario(seed: int, placements: int = 1, for_gangs: bool = False) -> Scenario:
    """Return a scenario with resource claims and this many shards. `for_gangs`: members have claims
    too.
    """
    return make_scenario(seed, make_claim_world(seed, placements == 1, for_gangs), placements)


def make_contended_scenario(seed: int, has_shares: bool = False) -> Scenario:
    """Return a scenario with one device on each of two nodes, and a claim to one, or to a third of
    its memory, for each of many pods that end soon after they are bound.
    """
    rng = random.Random(f"{seed}/contended")
    nodes = tuple(make_node(number, rng) for number in range(2))
    objects: list[ClusterObject] = [ClassObject(uid=CLASS, name=CLASS, value=DeviceClass(CLASS))]
    objects += [slice_of(node.name, Reach(node=node.name), 1, has_shares) for node in nodes]
    arrivals = []
    for number in range(CONTENDERS):
        uid, pod = f"uid-{number}", f"pod-{number}"
        objects.append(claim("default", f"{pod}-gpu", 1, uid, has_shares))
        spec = replace(
            make_spec(100, 0), claims=(PodClaim("gpu", "", "one", f"{pod}-gpu", pod, uid),)
        )
        pods = PodsSeen(spec=spec, uids=uid, names=pod, revisions=b"")
        arrivals.append(Arrival(at_ms=100 * number, pods=pods, lifetime_ms=400))
    name = f"contended-{seed}"
    world = World(name=name, nodes=nodes, arrivals=tuple(arrivals), objects=tuple(objects))
    scenario = make_scenario(seed, world, 1)
    release = ReleaseOptions(compatibility=V1_37)
    return dataclasses.replace(scenario, config=with_release(scenario.config, release))


def make_claim_world(seed: int, is_alone: bool = True, for_gangs: bool = False) -> World:
    """Return `make_world`'s world, with devices and claims added: with one shard (`is_alone`) also
    devices that all nodes reach, and members that share a claim.
    """
    world, rng = make_world(seed), random.Random(f"{seed}/claims")
    objects: list[ClusterObject] = [ClassObject(uid=CLASS, name=CLASS, value=DeviceClass(CLASS))]
    objects += [
        slice_of(node.name, Reach(node=node.name), rng.randrange(1, 3) + 2 * for_gangs)
        for node in world.nodes
        if rng.random() < 0.5 or for_gangs
    ]
    if is_alone:
        objects.append(slice_of("fabric", Reach(all_nodes=True), 2))
    arrivals: list[Arrival] = []
    for number, arrival in enumerate(world.arrivals):
        is_member = bool(arrival.pods.gang)
        is_plain = (is_member and not for_gangs) or arrival.pods.names.startswith(BALLAST)
        if is_plain or rng.random() > WITH_CLAIMS:
            arrivals.append(arrival)
        elif rng.random() < (0.4 if is_member else 0.2) and (is_alone or not is_member):
            arrivals.append(_with_one_claim(arrival, number, objects))
        else:
            arrivals += _with_claims_each(arrival, rng, objects)
    named = replace(world, name=f"claims-{seed}", arrivals=tuple(arrivals))
    return replace(named, objects=tuple(objects))


def slice_of(pool: str, reach: Reach, devices: int, has_shares: bool = False) -> SliceObject:
    """Return the only slice of a pool; `has_shares`: claims share the memory of its devices."""
    memory = ((MEMORY, str(3 * SHARE)),) if has_shares else ()
    names = [f"gpu-{number}" for number in range(devices)]
    made = tuple(Device(name, capacity=memory, is_shared=has_shares) for name in names)
    value = ResourceSlice(f"slice-{pool}", DRIVER, pool, 1, 1, reach, made)
    return SliceObject(uid=value.name, name=value.name, value=value)


def claim(
    namespace: str, name: str, count: int = 1, owner: str = "", is_share: bool = False
) -> ClaimObject:
    """Return a claim to devices of the class, or to shares of them."""
    memory = ((MEMORY, str(SHARE)),) if is_share else ()
    spec = ClaimSpec((Request("gpu", (Wanted(CLASS, count=count, capacity=memory),)),))
    value = ResourceClaim(namespace, name, f"uid-{name}", spec, owner=owner)
    return ClaimObject(uid=value.uid, name=name, namespace=namespace, value=value, revision=1)


def _with_one_claim(arrival: Arrival, number: int, objects: list[ClusterObject]) -> Arrival:
    """Let all pods of an arrival share one claim."""
    pods, name = arrival.pods, f"shared-{number}"
    objects.append(claim(pods.namespace, name))
    spec = replace(pods.spec, claims=(PodClaim("gpu", name),))
    return replace(arrival, pods=replace(pods, spec=spec))


def _with_claims_each(
    arrival: Arrival, rng: random.Random, objects: list[ClusterObject]
) -> list[Arrival]:
    """Give each pod of an arrival claims of its own, as if made from templates."""
    found, pods = [], arrival.pods
    count = rng.choice((1, 1, 1, 2))
    for uid, name in zip(split(pods.uids), split(pods.names), strict=True):
        objects.append(claim(pods.namespace, f"{name}-gpu", count, uid))
        use = PodClaim("gpu", "", "one", f"{name}-gpu", name, uid)
        spec = replace(pods.spec, claims=(use,))
        found.append(replace(arrival, pods=replace(pods, uids=uid, names=name, spec=spec)))
    return found
