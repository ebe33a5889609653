"""Amounts at the end of int64, in every resource and in any number, through all services.

A snapshot is due in every turn of every service. The simulation loads them where processes are
killed, compares each with a fold from the start, and judges the cluster in exact integers.
"""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from muster.app.journals import all_journals
from muster.simulation.bus import BusFaults
from muster.simulation.network import NetworkFaults
from muster.simulation.run import Result, simulate
from muster.simulation.scenario import Mutation, make_scenario
from shared.events.observed import PodsSeen
from shared.machine.snapshots import SnapshotPolicy
from shared.model.columns import join
from shared.model.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Budget,
    Gang,
    GpuRequest,
    Node,
    PodSpec,
)
from shared.model.world import Arrival, World

INT64_MAX = (1 << 63) - 1
INT32_MAX, INT32_MIN = (1 << 31) - 1, -(1 << 31)
HELD_MAX = {CPU: 1 << 46, MEMORY: 1 << 46}  # what a table of nodes holds; 2^52 of the others
HELD_ELSE_MAX = 1 << 52
EDGES = (INT64_MAX, 7 << 60, 1 << 62, 1 << 53, 1 << 52, 1 << 46)
RESOURCES = (CPU, MEMORY, EPHEMERAL_STORAGE, "example.com/widget", "hugepages-2Mi")
FOREIGN = ("foreign-bind", "foreign-bind", "foreign-pod", "delete-bound", "node-shrink")
BY_THE_LIMIT = ("no-pod-lost", "preempts", "conservation")
"""Problems that the checker may report where nodes have more than can be held: pods wait, nothing
else.
"""


def amount(rng: random.Random) -> int:
    """Return an amount: mostly at an edge or near one, sometimes an ordinary one."""
    near = min(INT64_MAX, rng.choice(EDGES) + rng.choice((-1, 0, 0, 1)))
    return rng.choice((near, near, near // 2, near // 3, rng.randint(1, 4_000)))


def amounts(rng: random.Random) -> tuple[tuple[str, int], ...]:
    some = [name for name in RESOURCES if rng.random() < 0.5]
    return tuple(sorted((name, amount(rng)) for name in some))


def make_node(rng: random.Random, number: int, is_held: bool) -> Node:
    have = {**dict.fromkeys(RESOURCES, INT64_MAX), **dict(amounts(rng))}
    if is_held:
        have = {name: min(have[name], HELD_MAX.get(name, HELD_ELSE_MAX)) for name in have}
    have[PODS] = rng.choice((HELD_ELSE_MAX if is_held else INT64_MAX, 5))
    return Node(
        uid=f"node-uid-{number}",
        name=f"node-{number}",
        allocatable=tuple(sorted(have.items())),
        labels={"kubernetes.io/hostname": f"node-{number}"},
        gpu_count=rng.choice((0, 8, 63, 64, 1_000_000)),
    )


def make_spec(rng: random.Random) -> PodSpec:
    requests = amounts(rng)
    asked = dict(requests)
    gpu = (None, None, GpuRequest(1_000, rng.choice((1, 63, 64, *EDGES))), GpuRequest(500))
    return PodSpec(
        priority=rng.choice((INT32_MIN, 0, 0, 1_000_000_000, INT32_MAX)),
        requests=requests,
        nonzero_cpu_milli=asked.get(CPU, 100),
        nonzero_memory_bytes=asked.get(MEMORY, 200 << 20),
        gpu=rng.choice(gpu),
    )


class Maker:
    """Makes pods in the order of their names."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.made = rng, 0

    def arrival(self, spec: PodSpec, count: int, gang: str = "") -> Arrival:
        names = [f"pod-{self.made + number}" for number in range(count)]
        self.made += count
        pods = PodsSeen(
            spec=spec,
            uids=join(f"{name}-uid" for name in names),
            names=join(names),
            revisions=b"",
            labels=(("app", "web"),),
            gang=gang,
        )
        return Arrival(at_ms=self.rng.randrange(4_000), pods=pods)

    def arrivals(self, gangs: tuple[Gang, ...]) -> Iterator[Arrival]:
        rng = self.rng
        for _ in range(16):
            yield self.arrival(make_spec(rng), rng.choice((1, 1, 2, 7)))
        for gang in gangs:
            yield self.arrival(make_spec(rng), gang.min_count, gang.key)


def make_world(seed: int, is_held: bool) -> World:
    rng = random.Random(f"{seed}/absurd")
    gangs = tuple(Gang(key=f"default/g-{n}", min_count=n, timeout_ms=3_000) for n in (2, 3, 4))
    maker = Maker(rng)
    return World(
        name=f"absurd-{seed}",
        nodes=tuple(make_node(rng, number, is_held) for number in range(6)),
        arrivals=tuple(sorted(maker.arrivals(gangs), key=lambda one: one.at_ms)),
        budgets=(Budget(uid="web", namespace="default", name="web", allowed=INT32_MAX),),
        gangs=gangs,
    )


def play(seed: int, placements: int, is_held: bool) -> Result:
    """Run without faults other than kills, after which services load their snapshots."""
    rng = random.Random(f"{seed}/kills")
    made = make_scenario(seed, make_world(seed, is_held), placements)
    quiet = replace(
        made,
        policy=SnapshotPolicy(every_records=2, every_ms=1_000_000, keep=4, check=seed % 2 == 0),
        crashes=(),
        takeovers=(),
        jumps=(),
        tears=(),
        reset_s=None,
        kills=tuple((rng.uniform(1, 8), name) for name in all_journals(placements)),
        mutations=tuple(Mutation(rng.uniform(2, 8), kind) for kind in FOREIGN for _ in range(4)),
        bus=BusFaults(),
        network=NetworkFaults(),
        heal_s=9.0,
        deadline_s=60.0 if is_held else 1.0,
    )
    return simulate(quiet, redecide=True)


@pytest.mark.parametrize(("seed", "placements"), [(0, 1), (1, 3), (2, 2), (3, 1), (22, 2)])
def test_absurd_requests_never_end_a_service_nor_over_commit_a_node(seed, placements):
    result = play(seed, placements, is_held=True)
    assert result.is_good, "\n".join(result.lines)
    assert result.bound


@pytest.mark.parametrize(("seed", "placements"), [(4, 1), (5, 3), (6, 1)])
def test_absurd_nodes_never_end_a_service_nor_are_over_committed(seed, placements):
    """More than is held of a node counts as that much: pods may wait, and that is all."""
    result = play(seed, placements, is_held=False)
    wrong = [problem for problem in result.problems if problem[0] not in BY_THE_LIMIT]
    assert not wrong, wrong
    assert result.bound
