"""Synthetic floods: many pods as columns, without an object for each of equal pods.

Three shapes of flood: `identical` (one signature), `openb` (the trace's shapes in random order, all
amounts divided by 16, any GPU model) and `distinct` (every pod its own signature). Two ways to
arrive: a backlog (all at time 0) or an even open-loop rate. Names depend on the number alone, so
the same settings give the same flood on every machine.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import msgspec

from shared.events.observed import PodsSeen
from shared.model.objects import CPU, MEMORY, PODS, GpuRequest, Node, PodSpec
from shared.model.world import Arrival, World
from shared.worlds.arrivals import plain_node
from shared.worlds.traces.openb import read_pods

Shapes = Literal["identical", "openb", "distinct"]

MIB = 1 << 20
OPENB_DIVISOR = 16
GPU_MODEL = "flood-gpu"
COLUMN_PODS_MAX = 4_096
TICK_MS = 1


@dataclass(frozen=True)
class Flood:
    """Settings of one flood. `rate` (pods/s) 0 = backlog. Within `window` pods that arrive
    together, equal shapes share a column (1 = strict random order). `gpu_nodes` of the nodes have 8
    GPUs. The nodes exist from the start; the first pods arrive at `start_ms`.
    """

    pods: int = 1_000
    shapes: Shapes = "identical"
    nodes: int = 100
    rate: int = 0
    start_ms: int = 0
    seed: int = 1
    window: int = 1_000
    node_cpu_milli: int = 32_000
    node_memory_bytes: int = 256 << 30
    node_pods: int = 110
    gpu_nodes: int = 0
    cpu_milli: int = 100
    memory_bytes: int = 128 * MIB


def flood_world(flood: Flood, openb_pods: Path | None = None) -> World:
    """Return the flood as a world; `openb_pods` is the trace's pod list (for its shapes only)."""
    specs = _specs(flood, openb_pods)
    return World(
        name=f"flood of {flood.pods} {flood.shapes} pods",
        nodes=tuple(_node(flood, row) for row in range(flood.nodes)),
        arrivals=tuple(_arrivals(flood, specs)),
    )


def _node(flood: Flood, row: int) -> Node:
    allocatable = {
        CPU: flood.node_cpu_milli,
        MEMORY: flood.node_memory_bytes,
        PODS: flood.node_pods,
    }
    gpus = 8 if row < flood.gpu_nodes else 0
    return plain_node(f"node-{row:05d}", row, allocatable, gpus, GPU_MODEL if gpus else "")


def _spec(cpu_milli: int, memory_bytes: int) -> PodSpec:
    return PodSpec(
        requests=((CPU, cpu_milli), (MEMORY, memory_bytes)),
        nonzero_cpu_milli=cpu_milli,
        nonzero_memory_bytes=memory_bytes,
    )


def _specs(flood: Flood, openb_pods: Path | None) -> Sequence[PodSpec]:
    if flood.shapes == "openb":
        assert openb_pods is not None, "a flood of openb shapes needs the pod list"
        return [_sixteenth(row.spec) for row in read_pods(openb_pods)]
    return [_spec(flood.cpu_milli, flood.memory_bytes)]


def _sixteenth(spec: PodSpec) -> PodSpec:
    requests = tuple(
        (name, max(1, amount // OPENB_DIVISOR)) for name, amount in spec.requests if amount
    )
    gpu = spec.gpu
    if gpu is not None:
        gpu = GpuRequest(max(1, gpu.milli * gpu.count // OPENB_DIVISOR))
    shape = msgspec.structs.replace(spec, requests=requests, gpu=gpu)
    return msgspec.structs.replace(
        shape,
        nonzero_cpu_milli=shape.request(CPU),
        nonzero_memory_bytes=shape.request(MEMORY),
    )


def _instants(flood: Flood) -> Iterator[tuple[int, int, int]]:
    """Yield (time, first pod, number of pods) for each arrival time."""
    if flood.rate == 0:
        if flood.pods:
            yield flood.start_ms, 0, flood.pods
        return
    first, at_ms = 0, 0
    while first < flood.pods:
        due = Fraction((at_ms + TICK_MS) * flood.rate, 1000)
        stop = min(flood.pods, int(due))
        if stop > first:
            yield flood.start_ms + at_ms, first, stop - first
        first, at_ms = stop, at_ms + TICK_MS


def _arrivals(flood: Flood, specs: Sequence[PodSpec]) -> Iterator[Arrival]:
    chance = random.Random(f"flood-{flood.seed}")
    for at_ms, first, count in _instants(flood):
        if flood.shapes == "identical":
            for start in range(first, first + count, COLUMN_PODS_MAX):
                stop = min(start + COLUMN_PODS_MAX, first + count)
                yield _column(specs[0], range(start, stop), at_ms)
        elif flood.shapes == "distinct":
            for number in range(first, first + count):
                yield _column(_distinct(flood, number), (number,), at_ms)
        else:
            yield from _shuffled(flood, specs, chance, at_ms, range(first, first + count))


def _distinct(flood: Flood, number: int) -> PodSpec:
    """Return a spec whose memory differs from all others, by less than a thousandth of a MiB."""
    return _spec(flood.cpu_milli, flood.memory_bytes + number)


def _shuffled(
    flood: Flood, specs: Sequence[PodSpec], chance: random.Random, at_ms: int, pods: range
) -> Iterator[Arrival]:
    """Yield random shapes; inside a window, pods of one shape share a column at the place of the
    first.
    """
    for start in range(pods.start, pods.stop, flood.window):
        groups: dict[PodSpec, list[int]] = {}
        for number in range(start, min(start + flood.window, pods.stop)):
            groups.setdefault(specs[chance.randrange(len(specs))], []).append(number)
        for spec, numbers in groups.items():
            yield _column(spec, numbers, at_ms)


def _column(spec: PodSpec, numbers: Sequence[int], at_ms: int) -> Arrival:
    uids = "\n".join([f"flood.{number}" for number in numbers])
    names = "\n".join([f"flood-{number}" for number in numbers])
    seen = PodsSeen(spec=spec, uids=uids, names=names, revisions=b"", ordered_ms=at_ms)
    return Arrival(at_ms=at_ms, pods=seen)
