"""Evictions end when arrivals end, although a controller replaces each evicted pod at once.

Jobs of several priorities contend for too few nodes: lone pods, gangs, units, groups that keep
their minimum, grow above it, or are evicted or shrunk below it; with queues that claim their
guarantees and borrow what is left. Nothing else fails here.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from shared.model.cluster_objects import Queue
from shared.model.groups.below_minimum import EVICT, SHRINK, BelowMinimum
from tests.scenarios.scene import Scene, node, play
from tests.simulation.planted import IS_LONG

pytestmark = [pytest.mark.simulation, pytest.mark.slow]
CONTROLLERS_S = 0.2  # how often controllers look
ARRIVALS_S, REST_S = 30, 120
QUEUES = ("a", "b", "c", "d")
QUIET_S = 3_600 if IS_LONG else 600


@dataclass
class Job:
    """Pods that a controller replaces. `evicted`: how many pods were evicted and are gone."""

    name: str
    count: int
    cpu_milli: int
    priority: int
    gang: str = ""
    queue: str = ""
    names: list[str] = field(default_factory=list)
    made: int = 0
    evicted: int = 0

    def reconcile(self, scene: Scene) -> None:
        """Make as many pods as are missing."""
        live = [name for name in self.names if f"uid-{name}" in scene.cluster.pods]
        self.evicted += len(self.names) - len(live)
        new = [f"{self.name}-{self.made + number}" for number in range(self.count - len(live))]
        if new:
            of = (("muster.io/queue", self.queue),) if self.queue else ()
            spec = {"cpu_milli": self.cpu_milli, "priority": self.priority}
            scene.pods(*new, gang=self.gang or "", of=of, **spec)
        self.made += len(new)
        self.names = live + new


def start(scene: Scene, rng: random.Random, number: int) -> Job:
    """Return a new job, with its group if it has one."""
    name, count = f"job{number}", rng.randint(1, 5)
    job = Job(name, count, rng.choice((500, 1_000, 2_000)), rng.choice((0, 10, 20, 30)))
    if rng.random() < 0.8:
        is_other = rng.random() < 0.4
        job.gang = f"default/{name}@volcano" if is_other else f"default/{name}"
        rule = rng.choice(("", EVICT, EVICT, SHRINK))
        below = BelowMinimum(rule, rng.choice((500, 5_000))) if rule else None
        is_unit = not is_other and rng.random() < 0.4
        more = {"keeps_minimum": True} if is_other else {"priority": job.priority}
        least = rng.randint(1, count)
        scene.gang(job.gang, least, is_unit=is_unit, below_minimum=below, **more)
    return job


async def keep(scene: Scene, jobs: list[Job]) -> None:
    """Play the controllers."""
    while True:
        for job in jobs:
            job.reconcile(scene)
        await asyncio.sleep(CONTROLLERS_S)


def tree(rng: random.Random, nodes: int) -> tuple[Queue, ...]:
    """Return queues on two levels. What they are guaranteed is less than the nodes have."""
    least = [rng.choice((0, 500, 1_000, 1_500)) * nodes for _ in QUEUES]
    parents = [rng.choice(("", "", "part")) for _ in QUEUES]
    inside = sum(amount for amount, parent in zip(least, parents, strict=True) if parent)
    part = rng.choice((0, inside, inside + 1_000))
    rows = [("part", "", part), *zip(QUEUES, parents, least, strict=True)]
    return tuple(
        Queue(
            uid=f"{name}-uid",
            name=name,
            parent=parent,
            guaranteed=(("cpu", amount),) * (amount > 0),
        )
        for name, parent, amount in rows
    )


def evictions(seed: int, has_queues: bool) -> tuple[Counter[str], Counter[str]]:
    """Return the evictions by job until all is at rest, and those of a long time after that."""
    rng, found = random.Random(f"{seed}/evictions"), list[Counter[str]]()

    async def story(scene: Scene) -> None:
        jobs = list[Job]()
        controllers = asyncio.create_task(keep(scene, jobs))
        for number in range(rng.randint(8, 14)):
            jobs.append(start(scene, rng, number))
            jobs[-1].queue = rng.choice((*QUEUES, *QUEUES, "")) if has_queues else ""
            await scene.settle(rng.random() * ARRIVALS_S / 5)
        await scene.settle(REST_S)
        for seconds in (0, QUIET_S):
            await scene.settle(seconds)
            found.append(Counter({job.name: job.evicted for job in jobs}))
        controllers.cancel()
        await asyncio.gather(controllers, return_exceptions=True)

    nodes = [node(f"n{number}", 4_000) for number in range(rng.randint(2, 4))]
    objects = tree(rng, len(nodes)) if has_queues else ()
    mesh = {"placements": 1 + 2 * (seed % 2), "grace_ms": rng.choice((0, 2_000))}
    play(story, *nodes, queueing={"gang_preemption": True}, objects=objects, **mesh)
    return found[0], found[1] - found[0]


@pytest.mark.parametrize("has_queues", [False, True], ids=["alone", "in-queues"])
@pytest.mark.parametrize("seed", range(60) if IS_LONG else (1, 4))
def test_evictions_end_with_the_arrivals(seed: int, has_queues: bool) -> None:
    before, after = evictions(seed, has_queues)
    assert not after, f"seed {seed}: {before} until at rest, then {after}"
