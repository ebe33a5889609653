"""A gang of high priority in a cluster full of pods of lower priority gets its places, and no other
pod is evicted: whole meshes in virtual time, checked by the checker.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from msgspec import structs

from muster.app.virtual_time import VirtualLoop
from muster.simulation.bus import BusFaults
from muster.simulation.network import NetworkFaults
from muster.simulation.run import Run, simulate
from muster.simulation.scenario import Scenario, make_scenario
from muster.simulation.worlds import GIB, make_spec
from shared.events.observed import PodsSeen
from shared.model.columns import join
from shared.model.objects import Budget, Gang, Node, PodSpec, PodTerm, Requirement
from shared.model.world import Arrival, World
from tests.simulation.planted import IS_LONG
from tests.support.builders import model_node

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

NODES = 6
LOW, HIGH = 0, 100
HOSTNAME = "kubernetes.io/hostname"


def node(index: int) -> Node:
    labels = {HOSTNAME: f"n{index}", "zone": "abc"[index % 3]}
    builder = model_node(f"n{index}", f"n{index}-uid").labels(labels)
    return builder.capacity(cpu=4_000, memory=64 * GIB).obj()


def pods(
    name: str, spec: PodSpec, count: int, at_ms: int, gang: str = "", app: str = ""
) -> Arrival:
    names = [f"{name}-{index}" for index in range(count)]
    seen = PodsSeen(
        spec=spec,
        uids=join(f"{one}-uid" for one in names),
        names=join(names),
        revisions=b"",
        labels=(("app", name),),
        gang=gang,
    )
    return Arrival(at_ms=at_ms, pods=seen)


def world(least: int, *arrivals: Arrival, budgets: tuple[Budget, ...] = ()) -> World:
    """Six nodes of four cpu, full of pods of one cpu; a gang comes when they run."""
    low = pods("low", make_spec(1_000, GIB, priority=LOW), 4 * NODES, 0)
    return World(
        name="full",
        nodes=tuple(node(index) for index in range(NODES)),
        arrivals=(low, *arrivals),
        budgets=budgets,
        gangs=(Gang(key="default/g", min_count=least, timeout_ms=20_000),),
    )


def calm(world: World, placements: int) -> Scenario:
    """A configuration without faults."""
    return replace(
        make_scenario(1, world, placements),
        crashes=(),
        kills=(),
        takeovers=(),
        jumps=(),
        mutations=(),
        tears=(),
        reset_s=None,
        hunts_holds=False,
        bus=BusFaults(),
        network=NetworkFaults(),
    )


def played(world: World, placements: int) -> tuple[dict[str, str], int]:
    """Where each pod is, or was, and how many were evicted; by the end some finish."""

    async def go() -> Run:
        run = Run(calm(world, placements))
        await run.play()
        await run.mesh.stop()
        return run

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        run = runner.run(go())
    assert not run.problems, run.problems
    truth = run.history().pods.values()
    there = {one.name.split("/")[-1]: one.node for one in truth if not one.evicted}
    return there, sum(one.evicted for one in truth)


def members(there: dict[str, str]) -> Iterator[str]:
    return (where for name, where in there.items() if name.startswith("member"))


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize(("count", "cpu"), [(5, 2_000), (6, 3_000), (12, 1_000)])
def test_a_gang_evicts_only_the_needed_victims(placements: int, count: int, cpu: int) -> None:
    comes = pods("member", make_spec(cpu, GIB, priority=HIGH), count, 4_000, "default/g")
    there, gone = played(world(count, comes), placements)
    assert all(members(there))
    assert gone == count * cpu // 1_000


@pytest.mark.parametrize("placements", [1, 3])
def test_members_that_avoid_each_other_evict_pods_of_a_node_each(placements: int) -> None:
    apart = PodTerm(HOSTNAME, (Requirement("app", "In", ("member",)),))
    spec = make_spec(2_000, GIB, priority=HIGH, pod_anti_affinity=(apart,))
    there, gone = played(world(NODES, pods("member", spec, NODES, 4_000, "default/g")), placements)
    assert len({*members(there)} - {""}) == NODES
    assert gone == 2 * NODES


@pytest.mark.parametrize("placements", [1, 3])
def test_a_gang_that_cannot_fit_evicts_no_pod(placements: int) -> None:
    comes = pods("member", make_spec(3_000, GIB, priority=HIGH), NODES + 1, 4_000, "default/g")
    there, gone = played(world(NODES + 1, comes), placements)
    assert gone == 0
    assert not any(members(there))


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize(
    "more", [{"priority": LOW}, {"priority": HIGH, "never_preempts": True}], ids=["equal", "never"]
)
def test_a_gang_of_no_higher_priority_or_that_never_preempts_waits(
    placements: int, more: dict[str, object]
) -> None:
    spec = structs.replace(make_spec(2_000, GIB), **more)
    there, gone = played(world(3, pods("member", spec, 3, 4_000, "default/g")), placements)
    assert gone == 0
    assert not any(members(there))


def test_pods_without_a_budget_are_evicted_first() -> None:
    kept = pods("kept", make_spec(1_000, GIB, priority=LOW), 4, 0)
    free = pods("free", make_spec(1_000, GIB, priority=LOW), 4 * NODES - 4, 0)
    comes = pods("member", make_spec(1_000, GIB, priority=HIGH), 10, 4_000, "default/g")
    full = world(10, comes, budgets=(keep("kept"),))
    there, gone = played(structs.replace(full, arrivals=(kept, free, comes)), 1)
    assert gone == 10
    assert sum(name.startswith("kept") for name in there) == 4


def keep(app: str) -> Budget:
    return Budget(uid=app, namespace="default", name=app, match_labels=(("app", app),), allowed=0)


@pytest.mark.parametrize("placements", [1, 2])
@pytest.mark.parametrize("seed", range(12 if IS_LONG else 6))
def test_gangs_make_room_through_faults_in_one_shard_and_in_two(seed: int, placements: int) -> None:
    result = simulate(make_scenario(seed, None, placements), redecide=seed % 3 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


def test_seeds_in_which_a_gang_gets_room_through_faults() -> None:
    seen = sum(simulate(make_scenario(seed, None, 1)).seen["gang-room-made"] for seed in range(4))
    assert seen, "no gang got room: draw others"


def test_the_same_seed_makes_the_same_room() -> None:
    first, again = (simulate(make_scenario(2, None, 1), redecide=True) for _time in range(2))
    assert first.digest == again.digest
    assert first.is_good
