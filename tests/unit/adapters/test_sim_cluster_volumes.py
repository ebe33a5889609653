"""The simulated cluster binds claims whose volume or node was chosen, or makes no volume."""

import asyncio

import pytest

from shared.adapters.sim_cluster import SimCluster
from shared.adapters.sim_cluster_config import SimConfig
from shared.model.answers import Answer
from shared.model.cluster_objects import (
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
)
from shared.model.volumes import Choice
from shared.model.world import World
from shared.ports.cluster import VolumeRequest

CLAIM = PersistentVolumeClaim(uid="c", name="c", namespace="a", storage_class="s")
OTHER = PersistentVolumeClaim(uid="d", name="d", namespace="a", storage_class="s")
VOLUME = PersistentVolume(uid="v", name="v", storage_class="s", phase="Available")
STATIC, MADE = Choice("a", "c", "c", "v", "v"), Choice("a", "c", "c")


def cluster(**config: float) -> SimCluster:
    world = World(name="w", nodes=(), arrivals=(), objects=(CLAIM, OTHER, VOLUME))
    return SimCluster(world, SimConfig(volume_ms=0, **config))  # type: ignore[arg-type]


async def write(sim: SimCluster, choice: Choice, node: str = "n") -> Answer:
    (answer,) = await sim.bind_volumes([VolumeRequest(choice, node)])
    return answer


def claim(sim: SimCluster) -> PersistentVolumeClaim:
    found = sim.objects["c"]
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
    assert (claim(sim).selected_node, claim(sim).volume) == ("", "")


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
