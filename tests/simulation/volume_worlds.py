"""A world in which some pods have volumes: bound claims, claims that wait for their first consumer,
ReadWriteOncePod claims; and fewer volumes than claims.
"""

import dataclasses
import random

from msgspec.structs import replace

from muster.simulation.scenario import CONFIG, Scenario, make_scenario
from muster.simulation.worlds import BALLAST, make_world
from shared.model.cluster_objects import (
    ClaimRef,
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from shared.model.columns import split
from shared.model.objects import Requirement, SelectorTerm
from shared.model.volumes import ClaimUse
from shared.model.world import Arrival, World

WITH_VOLUMES = 0.35  # of the arrivals
VOLUMES = 8
GANG_CLAIMS = 3
NO_PROVISIONER = "kubernetes.io/no-provisioner"


def make_volume_scenario(seed: int, placements: int = 1, for_gangs: bool = False) -> Scenario:
    """Return a scenario with volumes and this many shards. `for_gangs`: members have unbound claims
    too.
    """
    world = make_volume_world(seed, for_gangs)
    made = make_scenario(seed, world, placements)
    return dataclasses.replace(made, config={**CONFIG, "ingest": {"volumes": True}})


def make_volume_world(seed: int, for_gangs: bool = False) -> World:
    """Return `make_world`'s world, with volumes added."""
    world, rng = make_world(seed), random.Random(f"{seed}/volumes")
    objects: list[ClusterObject] = [*storage_classes()]
    objects += [volume(number, rng) for number in range(VOLUMES)]
    arrivals = []
    for number, arrival in enumerate(world.arrivals):
        if for_gangs and arrival.pods.gang:
            arrivals += members_with_claims(arrival, number, rng, objects)
        elif arrival.pods.names.startswith(BALLAST) or rng.random() > WITH_VOLUMES:
            arrivals.append(arrival)
        else:
            arrivals.append(with_claim(arrival, number, rng, objects))
    named = replace(world, name=f"volumes-{seed}", arrivals=tuple(arrivals))
    return replace(named, objects=tuple(objects))


def storage_classes() -> list[StorageClass]:
    """Return a class whose volumes are made, and one whose volumes must be there. Both wait for
    their first consumer.
    """
    provisioners = (("made", "disk"), ("there", NO_PROVISIONER))
    return [
        StorageClass(uid=name, name=name, provisioner=one, waits_for_consumer=True)
        for name, one in provisioners
    ]


def volume(number: int, rng: random.Random) -> PersistentVolume:
    """Return a free volume, which some zones may not reach."""
    zone = SelectorTerm((Requirement("zone", "In", (rng.choice("abc"),)),))
    return PersistentVolume(
        uid=f"pv-{number}",
        name=f"pv-{number}",
        capacity_bytes=(number + 1) << 30,
        access_modes=("ReadWriteOnce", "ReadWriteOncePod"),
        storage_class="there",
        node_affinity=(zone,) if rng.random() < 0.5 else (),
        phase="Available",
    )


def members_with_claims(
    arrival: Arrival, number: int, rng: random.Random, objects: list[ClusterObject]
) -> list[Arrival]:
    """Give the first few members of a gang that arrived at once an unbound claim each."""
    found, pods = [], arrival.pods
    with_claims = rng.randrange(GANG_CLAIMS + 1)
    columns = zip(split(pods.uids), split(pods.names), strict=True)
    for at, (uid, name) in enumerate(columns):
        one = replace(arrival, pods=replace(pods, uids=uid, names=name))
        if at < with_claims:
            claim = f"g-{number}-{at}"
            objects.append(_waiting(claim, pods.namespace, rng.choice(("made", "there"))))
            spec = replace(pods.spec, volumes=(ClaimUse(claim),))
            one = replace(one, pods=replace(one.pods, spec=spec))
        found.append(one)
    return found


def _waiting(name: str, namespace: str, storage_class: str) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        uid=f"uid-{name}",
        name=name,
        namespace=namespace,
        storage_class=storage_class,
        access_modes=("ReadWriteOnce",),
        request_bytes=1 << 30,
        phase="Pending",
    )


def with_claim(
    arrival: Arrival, number: int, rng: random.Random, objects: list[ClusterObject]
) -> Arrival:
    """Give all pods of an arrival one claim; a gang's claim is bound."""
    pods, name = arrival.pods, f"c-{number}"
    claim = PersistentVolumeClaim(
        uid=f"uid-{name}",
        name=name,
        namespace=pods.namespace,
        storage_class=rng.choice(("made", "there")),
        access_modes=("ReadWriteOncePod",) if rng.random() < 0.3 else ("ReadWriteOnce",),
        request_bytes=1 << 30,
        phase="Pending",
    )
    if pods.gang or rng.random() < 0.3:
        ref = ClaimRef(claim.namespace, claim.name, claim.uid)
        bound = PersistentVolume(uid=f"pv-{name}", name=f"pv-{name}", claim=ref, phase="Bound")
        objects.append(bound)
        modes = ("ReadWriteOnce",) if pods.gang else claim.access_modes
        claim = replace(
            claim, volume=bound.name, is_bind_completed=True, phase="Bound", access_modes=modes
        )
    objects.append(claim)
    spec = replace(pods.spec, volumes=(ClaimUse(name),))
    return replace(arrival, pods=replace(pods, spec=spec))
