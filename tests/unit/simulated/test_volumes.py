"""The simulated cluster binds claims with a chosen volume or node, or makes no volume."""

import asyncio

import pytest
from msgspec.structs import replace

from shared.model.api_outcome import Answer
from shared.model.cluster_objects import (
    ClaimRef,
    LabelSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
)
from shared.model.volumes import Choice
from shared.model.world import World
from shared.ports.cluster import VolumeRequest
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig

CLAIM = PersistentVolumeClaim(uid="c", name="c", namespace="a", storage_class="s")
OTHER = PersistentVolumeClaim(uid="d", name="d", namespace="a", storage_class="s")
VOLUME = PersistentVolume(uid="v", name="v", storage_class="s", phase="Available")
WAITS = StorageClass(uid="s", name="s", provisioner="disk", waits_for_consumer=True)
AT_ONCE = replace(WAITS, waits_for_consumer=False)
STATIC, MADE = Choice("a", "c", "c", "v", "v"), Choice("a", "c", "c")


def cluster(**config: float) -> SimCluster:
    world = World(name="w", nodes=(), arrivals=(), objects=(CLAIM, OTHER, VOLUME, WAITS))
    return SimCluster(world, SimConfig(volume_ms=0, **config))


async def write(sim: SimCluster, choice: Choice, node: str = "n") -> Answer:
    (answer,) = await sim.bind_volumes([VolumeRequest(choice, node)])
    return answer


def claim(sim: SimCluster, uid: str = "c") -> PersistentVolumeClaim:
    found = sim.objects[uid]
    assert isinstance(found, PersistentVolumeClaim)
    return found


async def played(sim: SimCluster) -> None:
    sim.start()
    await asyncio.sleep(0.01)
    sim.stop()


@pytest.mark.parametrize(("choice", "name"), [(STATIC, "v"), (MADE, "pvc-c")])
async def test_a_claim_is_bound_a_little_later(choice: Choice, name: str):
    sim = cluster()
    assert await write(sim, choice) is Answer.DONE
    assert await write(sim, choice) is Answer.DONE, "again"
    assert not claim(sim).volume
    await played(sim)
    assert (claim(sim).volume, claim(sim).is_bind_completed) == (name, True)
    (volume,) = [one for one in sim.objects.values() if one.name == name]
    assert isinstance(volume, PersistentVolume)
    assert (volume.claim, volume.phase) == (ClaimRef("a", "c", "c"), "Bound")


async def test_preconditions_are_kept():
    sim = cluster()
    assert await write(sim, Choice("a", "d", "d", "v", "v")) is Answer.DONE
    assert await write(sim, STATIC) is Answer.REFUSED
    assert await write(sim, Choice("a", "c", "c", "v", "w")) is Answer.GONE
    assert await write(sim, Choice("a", "x", "x")) is Answer.GONE
    assert await write(sim, MADE) is Answer.DONE
    assert await write(sim, MADE, "m") is Answer.REFUSED


async def test_sometimes_no_volume_is_made():
    sim = cluster(volume_failure=1.0)
    await write(sim, MADE)
    assert claim(sim).selected_node == "n"
    await played(sim)
    assert (claim(sim).selected_node, claim(sim).volume) == (None, "")


@pytest.mark.parametrize(
    ("fault", "answer", "is_written"),
    [
        ("busy", Answer.BUSY, False),
        ("refused", Answer.REFUSED, False),
        ("lost_request", Answer.UNKNOWN, False),
        ("lost_response", Answer.UNKNOWN, True),
    ],
)
async def test_writes_fail_as_binds_do(fault: str, answer: Answer, is_written: bool):
    sim = cluster(**{fault: 1.0})
    assert await write(sim, MADE) is answer
    assert bool(claim(sim).selected_node) == is_written


def at_once(*objects: StorageObject) -> SimCluster:
    world = World(name="w", nodes=(), arrivals=(), objects=objects)
    return SimCluster(world, SimConfig(volume_ms=0))


async def test_an_immediate_claim_gets_a_volume():
    sim = at_once(CLAIM, AT_ONCE)
    await played(sim)
    assert (claim(sim).volume, claim(sim).is_bind_completed) == ("pvc-c", True)
    sim = at_once(CLAIM, WAITS)
    await played(sim)
    assert not claim(sim).volume


SMALL = replace(VOLUME, uid="small", name="small", capacity_bytes=5, access_modes=("X",))
LARGE = replace(SMALL, uid="large", name="large", capacity_bytes=9, labels=(("a", "b"),))
WANTS = replace(CLAIM, request_bytes=4, access_modes=("X",))


@pytest.mark.parametrize(
    ("wants", "objects", "name"),
    [
        (WANTS, (LARGE, SMALL), "small"),
        (WANTS, (LARGE, replace(SMALL, phase="", claim=None)), "small"),
        (WANTS, (LARGE, replace(SMALL, phase="Failed")), "large"),
        (WANTS, (LARGE, replace(SMALL, capacity_bytes=3)), "large"),
        (WANTS, (LARGE, replace(SMALL, access_modes=("Y",))), "large"),
        (WANTS, (LARGE, replace(SMALL, is_block=True)), "large"),
        (WANTS, (LARGE, replace(SMALL, is_leaving=True)), "large"),
        (WANTS, (LARGE, replace(SMALL, storage_class="t")), "large"),
        (WANTS, (LARGE, replace(SMALL, attributes_class="t")), "large"),
        (WANTS, (LARGE, replace(SMALL, claim=ClaimRef("a", "d"))), "large"),
        (WANTS, (SMALL, replace(LARGE, claim=ClaimRef("a", "c"))), "large"),
        (replace(WANTS, volume="large"), (SMALL, LARGE), "large"),
        (replace(WANTS, volume="nobody"), (SMALL, LARGE), "nobody"),
        (replace(WANTS, selector=LabelSelector((("a", "b"),))), (SMALL, LARGE), "large"),
        (replace(WANTS, is_leaving=True), (SMALL,), ""),
        (replace(WANTS, phase="Lost"), (SMALL,), ""),
        (replace(WANTS, request_bytes=10), (SMALL, LARGE), ""),
    ],
)
async def test_the_smallest_volume_that_will_do(wants, objects, name):
    sim = at_once(replace(AT_ONCE, provisioner="kubernetes.io/no-provisioner"), wants, *objects)
    await played(sim)
    assert claim(sim).volume == name
    assert claim(sim).is_bind_completed == (name not in ("", "nobody"))


async def test_a_claim_gets_the_volume_that_comes_later_and_no_two_the_same():
    sim = at_once(WANTS, replace(WANTS, uid="d", name="d"))
    sim.start()
    sim.set_object(SMALL)
    await asyncio.sleep(0.01)
    assert sorted(claim(sim, uid).volume for uid in ("c", "d")) == ["", "small"]
    sim.set_object(LARGE)
    await asyncio.sleep(0.01)
    sim.stop()
    assert sorted(claim(sim, uid).volume for uid in ("c", "d")) == ["large", "small"]
