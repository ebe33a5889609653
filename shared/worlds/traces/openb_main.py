"""The main job: openb with gangs, late gangs and one wave of high-priority latecomers, all seeded.

A share of the pods is grouped into gangs of 2-16 with the same QoS; small sizes are more frequent
(weight 1/size^2). The gangs that request most GPUs arrive late, after the latecomers have taken the
free ones, so they cannot be placed and reach their permit timeout.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import msgspec

from shared.model.objects import Gang
from shared.model.world import World
from shared.worlds.arrivals import Pod, arrivals_of
from shared.worlds.capacity import check_gangs
from shared.worlds.traces.openb import NODE_FILE, PodRow, Timing, pods_of, read_nodes, read_pods

POD_FILE = "openb_pod_list_gpuspec33.csv"
GANG_SIZES = range(2, 17)
LATECOMER_PRIORITY = 1_000
LATECOMER_LABEL = ("muster.io/latecomer", "true")


@dataclass(frozen=True)
class MainJob:
    """The changes to the trace. Times are those of fill mode; in timed mode the wave comes at three
    fifths of the trace and the late gangs at four fifths.
    """

    seed: int = 1
    gang_share: Fraction = Fraction(5, 100)
    gang_timeout_ms: int = 6_000
    late_gangs: int = 24
    latecomers: int = 400
    latecomers_at_ms: int = 5_000
    late_gangs_at_ms: int = 12_000


def main_world(folder: Path, pod_file: str, timing: Timing, job: MainJob) -> World:
    """Return the main job's world."""
    nodes = read_nodes(folder / NODE_FILE)
    rows = read_pods(folder / pod_file, timing)
    pods = pods_of(rows, timing)
    job = _placed_in_time(job, timing, pods)
    chance = random.Random(f"openb-{job.seed}")
    gangs = _choose_gangs(pods, job, chance)
    late = _most_gpus(pods, gangs, job.late_gangs)
    for number, members in enumerate(gangs, start=1):
        at_ms = job.late_gangs_at_ms if number - 1 in late else 0
        for index in members:
            pods[index] = msgspec.structs.replace(
                pods[index], gang=f"openb/gang-{number}", at_ms=max(at_ms, pods[index].at_ms)
            )
    pods += _latecomers(rows, job, chance)
    world = World(
        name="openb main job",
        nodes=nodes,
        arrivals=arrivals_of(pods),
        gangs=tuple(_gang(number, members, job) for number, members in enumerate(gangs, start=1)),
    )
    check_gangs(world, lambda gang: (f"{folder / pod_file} {gang.key}", "minCount"))
    return world


def _placed_in_time(job: MainJob, timing: Timing, pods: Sequence[Pod]) -> MainJob:
    if timing.speed is None and timing.rate is None:
        return job
    end_ms = max((pod.at_ms for pod in pods), default=0)
    return replace(job, latecomers_at_ms=end_ms * 3 // 5, late_gangs_at_ms=max(1, end_ms * 4 // 5))


def _gang(number: int, members: Sequence[int], job: MainJob) -> Gang:
    return Gang(key=f"openb/gang-{number}", min_count=len(members), timeout_ms=job.gang_timeout_ms)


def _choose_gangs(pods: Sequence[Pod], job: MainJob, chance: random.Random) -> list[list[int]]:
    """Return the pods' indices by gang; a gang has one priority and is in order of arrival."""
    count = int(len(pods) * job.gang_share)
    chosen = sorted(chance.sample(range(len(pods)), count))
    by_priority: dict[int, list[int]] = {}
    for index in chosen:
        by_priority.setdefault(pods[index].spec.priority, []).append(index)
    weights = [1 / size**2 for size in GANG_SIZES]
    gangs: list[list[int]] = []
    for _priority, indices in sorted(by_priority.items(), reverse=True):
        while len(indices) >= GANG_SIZES[0]:
            size = min(chance.choices(GANG_SIZES, weights)[0], len(indices))
            if len(indices) - size == 1:
                size += 1 if size < GANG_SIZES[-1] else -1
            gangs.append(indices[:size])
            indices = indices[size:]
    return gangs


def _most_gpus(pods: Sequence[Pod], gangs: list[list[int]], count: int) -> frozenset[int]:
    """Return the gangs (numbered from 0) that request most GPUs."""

    def asks_milli(number: int) -> int:
        requests = [pods[index].spec.gpu for index in gangs[number]]
        return sum(gpu.milli * gpu.count for gpu in requests if gpu is not None)

    ranked = sorted(range(len(gangs)), key=lambda number: (-asks_milli(number), number))
    return frozenset(ranked[:count])


def _latecomers(rows: Sequence[PodRow], job: MainJob, chance: random.Random) -> list[Pod]:
    gpu_rows = [row for row in rows if row.spec.gpu is not None]
    if not gpu_rows:
        return []
    return [
        Pod(
            name=f"latecomer-{number:04d}",
            spec=msgspec.structs.replace(row.spec, priority=LATECOMER_PRIORITY),
            labels=(LATECOMER_LABEL, ("muster.io/qos", row.qos)),
            at_ms=job.latecomers_at_ms,
        )
        for number, row in enumerate(chance.choices(gpu_rows, k=job.latecomers))
    ]
