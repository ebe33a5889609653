"""Gangs with a topology on 5,000 nodes with 8 GPUs each, in 40 racks of 4 blocks, each case beside
the same gangs without a topology.

Ordinary: 1,000 gangs of 64 pods come at once, each in one rack. Decisions: gangs of 512 pods with a
GPU each come one after the other, each in one block, while nine GPUs in ten are taken; each ends
soon after its start. Evictions: smaller gangs of lower priority have the rest of the GPUs, and each
large gang evicts 64 of them. A decision takes from a gang's intended arrival to the record that
commits it, evictions to the record that asks for the last one.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from loadtest.one_process import Case, Run, measure
from shared.events.observed import PodsSeen
from shared.model.columns import join
from shared.model.groups.topology import Topology
from shared.model.objects import CPU, MEMORY, PODS, Gang, GpuRequest, Node, PodSpec
from shared.model.world import Arrival, World
from shared.simulated.cluster import SimCluster
from shared.worlds.arrivals import plain_node

GIB = 1 << 30
LOW, HIGH = 0, 100
RACK, BLOCK = Topology(("block", "rack"), 1, 1), Topology(("block",))


@dataclass(frozen=True)
class Size:
    """The cluster and its gangs. Large gangs come `every_ms` from `first_ms` on, those that evict
    `evictions_every_ms`; before that all others are bound.
    """

    nodes: int = 5_000
    gpus: int = 8
    racks: int = 40
    blocks: int = 4
    gangs: int = 1_000
    members: int = 64
    large: int = 512
    large_gangs: int = 20
    small: int = 8
    first_ms: int = 20_000
    every_ms: int = 1_000
    evictions_every_ms: int = 5_000
    lasts_ms: int = 200


SIZE = Size()


def racks_case(size: Size, topology: Topology | None) -> Case:
    """Return gangs of ordinary pods that come at once."""
    spec = _spec(100, GIB // 8)
    gangs = [_gang(f"rack-{number}", size.members, topology) for number in range(size.gangs)]
    arrivals = [_pods(gang.key, spec, size.members, gang=gang.key) for gang in gangs]
    return Case(_world("racks", size, arrivals, gangs))


def block_case(size: Size, topology: Topology | None) -> Case:
    """Return large gangs that find a tenth of the GPUs free, one after the other."""
    gangs = [_gang(f"block-{at}", size.large, topology) for at in range(size.large_gangs)]
    arrivals = [_taken(size), *_large(size, gangs, size.every_ms, size.lasts_ms)]
    return _one_after_another(_world("block", size, arrivals, gangs))


def preemption_case(size: Size, topology: Topology | None) -> Case:
    """Return a large gang for each block, which has room for it where small gangs are."""
    free = size.nodes * size.gpus // 10
    small = [_gang(f"small-{at}", size.small, None) for at in range(free // size.small)]
    large = [_gang(f"block-{at}", size.large, topology) for at in range(size.blocks)]
    members = (_pods(one.key, _gpu(LOW), size.small, gang=one.key) for one in small)
    arrivals = [_taken(size), *members, *_large(size, large, size.evictions_every_ms)]
    case = _one_after_another(_world("preemption", size, arrivals, [*small, *large]))
    case.config = {"queueing": {"gang_preemption": True}}
    return case


def _one_after_another(world: World) -> Case:
    """Return a case in real time, which ends when the last gang is bound."""
    last = world.arrivals[-1].pods.uids.split("\n")

    def is_over(cluster: SimCluster) -> bool:
        return all(uid in cluster.pods and cluster.pods[uid].node for uid in last)

    return Case(world, speed=1, is_over=is_over)


def _world(name: str, size: Size, arrivals: list[Arrival], gangs: list[Gang]) -> World:
    nodes = tuple(_nodes(size))
    return World(name=name, nodes=nodes, arrivals=tuple(arrivals), gangs=tuple(gangs))


def _nodes(size: Size) -> Iterator[Node]:
    allocatable = {CPU: 128_000, MEMORY: 1024 * GIB, PODS: 250}
    for row in range(size.nodes):
        rack = row * size.racks // size.nodes
        labels = {"rack": f"rack-{rack}", "block": f"block-{rack * size.blocks // size.racks}"}
        yield plain_node(f"node-{row:05d}", row, allocatable, size.gpus, "gpu", labels)


def _spec(cpu_milli: int, memory_bytes: int) -> PodSpec:
    return PodSpec(
        requests=((CPU, cpu_milli), (MEMORY, memory_bytes)),
        nonzero_cpu_milli=cpu_milli,
        nonzero_memory_bytes=memory_bytes,
    )


def _gpu(priority: int) -> PodSpec:
    return replace(_spec(1_000, GIB), gpu=GpuRequest(1_000), priority=priority)


def _gang(name: str, members: int, topology: Topology | None) -> Gang:
    return Gang(key=f"default/{name}", min_count=members, topology=topology)


def _taken(size: Size) -> Arrival:
    """Return pods for nine GPUs in ten."""
    return _pods("taken", _gpu(HIGH), size.nodes * size.gpus * 9 // 10)


def _large(size: Size, gangs: list[Gang], every_ms: int, lifetime_ms: int = 0) -> Iterator[Arrival]:
    for at, gang in enumerate(gangs):
        at_ms = size.first_ms + at * every_ms
        made = _pods(gang.key, _gpu(HIGH), size.large, gang=gang.key, at_ms=at_ms)
        yield replace(made, lifetime_ms=lifetime_ms)


def _pods(name: str, spec: PodSpec, count: int, gang: str = "", at_ms: int = 0) -> Arrival:
    names = [f"{name.rpartition('/')[2]}-{number}" for number in range(count)]
    seen = PodsSeen(
        spec=spec,
        uids=join(f"{one}-uid" for one in names),
        names=join(names),
        revisions=b"",
        gang=gang,
        ordered_ms=at_ms,
    )
    return Arrival(at_ms=at_ms, pods=seen)


def racks_speed(topology: Topology | None) -> tuple[float, bool]:
    """Return pods/s from the first record with pods to the last outcome, and whether it is void."""
    run = measure(racks_case(SIZE, topology))
    return run.pods_per_s(run.timing.span_s), run.bound < run.pods


def block_ms(topology: Topology | None) -> tuple[list[int], bool]:
    """Return the times to the commits of large gangs, sorted, and whether one was not bound."""
    run = measure(block_case(SIZE, topology))
    return _decisions(run, run.committed_ms, SIZE.large_gangs)


def preemption_ms(topology: Topology | None) -> tuple[list[int], bool]:
    """Return the times to the last evictions for large gangs, sorted, and whether one had none."""
    run = measure(preemption_case(SIZE, topology))
    return _decisions(run, run.evicting_ms, SIZE.blocks)


def _decisions(run: Run, found: dict[int, int], expected: int) -> tuple[list[int], bool]:
    times_ms = sorted(ms for at_ms, ms in found.items() if at_ms)
    return times_ms or [0], run.bound < run.pods or len(times_ms) < expected
