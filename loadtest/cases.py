"""The cases of the speed table: world, measurement and target."""

import asyncio
import resource
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from loadtest import gangs, journals_at_rest, kafka
from loadtest.one_process import Case, Run, measure
from shared.worlds.flood import Flood, flood_world
from shared.worlds.settings import data_root

NODES = 5_000
Figures = list[dict[str, Any]]


@dataclass(frozen=True)
class Bench:
    """A case of the table. `targets` are (target, stretch) by figure, as text."""

    measure: Callable[[], Figures]
    targets: dict[str, tuple[str, str]] = field(default_factory=dict)


def figure(what: str, value: float, unit: str, void: bool = False) -> dict[str, Any]:
    """Return one figure of one run."""
    return {"what": what, "value": round(value, 3), "unit": unit, "void": void}


def _flood(pods: int, shapes: Any = "identical", **options: Any) -> Flood:
    gpu_nodes = 1_000 if shapes == "openb" else 0
    return Flood(pods=pods, shapes=shapes, nodes=NODES, gpu_nodes=gpu_nodes, **options)


def _case(flood: Flood, **options: Any) -> Case:
    pod_list = data_root() / "openb" / "openb_pod_list_default.csv"
    return Case(flood_world(flood, pod_list if flood.shapes == "openb" else None), **options)


def _speed(run: Run) -> Figures:
    void = run.bound < run.pods
    return [
        figure("speed", run.pods_per_s(run.timing.world_span_s), "pods/s", void),
        figure("nodes known", run.pods_per_s(run.timing.span_s), "pods/s", void),
        figure("records", run.records, "records", void),
        figure("snapshots", run.snapshots, "snapshots", void),
    ]


SOON_MS = 250
"""The time between snapshots of short floods, so that every journal takes one."""

RUN_MS = 5_000
"""The time between snapshots of a `muster run`, whose journals people replay."""

ONE_PER_DISPATCH = {"queueing": {"max_batch": 1}}

WORLDS: dict[str, Callable[[], Case]] = {
    "identical": lambda: _case(_flood(100_000), snapshot_ms=SOON_MS),
    "openb": lambda: _case(_flood(50_000, "openb"), snapshot_ms=SOON_MS),
    "single": lambda: _case(_flood(50_000, "openb"), config=ONE_PER_DISPATCH),
    "distinct": lambda: _case(_flood(20_000, "distinct")),
}
"""Backlogs: identical pods; the trace's shapes in random order; the same, one pod per dispatch;
every pod with its own signature.
"""


def speed(name: str) -> Figures:
    """Return how fast one of the backlogs is bound."""
    return _speed(measure(WORLDS[name]()))


def latency() -> Figures:
    """Return latencies at 1,000 pods/s for 60 s, open loop, from the intended arrival to the bound
    outcome.
    """
    run = measure(_case(_flood(60_000, rate=1_000), speed=1, snapshot_ms=30_000))
    void = run.bound < run.pods
    return [
        figure("p50", run.timing.percentile_ms(0.50), "ms", void),
        figure("p99", run.timing.percentile_ms(0.99), "ms", void),
    ]


def memory() -> Figures:
    """Return the memory of one process with 5,000 nodes and 150,000 bound pods."""
    run = measure(_case(_flood(150_000)))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        figure("resident", run.resident_mib, "MiB", run.bound < run.pods),
        figure("peak", peak_mib, "MiB", run.bound < run.pods),
    ]


def recovery() -> Figures:
    """Return the time to fold 1,000,000 placed pods in placement and in queueing, without a
    snapshot.
    """
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        flood = Flood(pods=1_000_000, nodes=10_000, cpu_milli=10, memory_bytes=1 << 20)
        seconds = asyncio.run(journals_at_rest.recover(flood, Path(folder)))
    return [figure(f"fold {name}", value, "s") for name, value in seconds.items()]


def replay_batches() -> Figures:
    """Return the time to decide all journals of 100,000 identical pods again."""
    return _replay(_case(_flood(100_000), snapshot_ms=RUN_MS))


def replay_single() -> Figures:
    """Return the time to decide all journals of 50,000 pods again, one pod per dispatch."""
    return _replay(WORLDS["single"]())


def _replay(case: Case) -> Figures:
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        pods, seconds, equal = journals_at_rest.replayed(case, Path(folder))
    return [figure("re-decided", pods / seconds, "pods/s", not equal)]


def _over_kafka(case: kafka.Case) -> Figures:
    run = kafka.measure(case)
    return [figure("speed", run.pods_per_s, "pods/s", run.is_void)]


def kafka_latency() -> Figures:
    """Return latencies at 1,000 pods/s for 60 s through six processes, from the intended arrival to
    the outcome.
    """
    run = kafka.measure(kafka.LATENCY)
    parts = (("p50", 0.50), ("p99", 0.99))
    return [figure(name, run.timing.percentile_ms(p), "ms", run.is_void) for name, p in parts]


def topology() -> Figures:
    """Return the speed and the decisions of gangs in one rack or one block, each beside those of
    the same gangs anywhere. The p99 of so few gangs is that of the slowest.
    """
    found: Figures = []
    for where, topology in (("one rack", gangs.RACK), ("anywhere", None)):
        speed, void = gangs.racks_speed(topology)
        found.append(figure(f"speed, {where}", speed, "pods/s", void))
    for what, decide in (("decision", gangs.block_ms), ("evictions", gangs.preemption_ms)):
        for where, topology in (("one block", gangs.BLOCK), ("anywhere", None)):
            times_ms, void = decide(topology)
            found += [
                figure(f"{what} p50, {where}", times_ms[len(times_ms) // 2], "ms", void),
                figure(f"{what} p99, {where}", times_ms[-1], "ms", void),
            ]
    return found


CASES: dict[str, Bench] = {
    "identical": Bench(partial(speed, "identical"), {"speed": ("120,000", "300,000")}),
    "openb": Bench(partial(speed, "openb"), {"speed": ("50,000", "120,000")}),
    "single": Bench(partial(speed, "single"), {"speed": ("7,000", "16,000")}),
    "distinct": Bench(partial(speed, "distinct"), {"speed": ("5,000", "11,000")}),
    "latency": Bench(latency, {"p99": ("8", "3")}),
    "memory": Bench(memory, {"peak": ("1,024", "400")}),
    "recovery": Bench(recovery, {"fold placement/0": ("10", "2"), "fold queueing/0": ("10", "2")}),
    "topology": Bench(
        topology,
        {
            "speed, one rack": ("20,000", ""),
            "decision p99, one block": ("50", ""),
            "evictions p99, one block": ("500", ""),
        },
    ),
    "replay-batches": Bench(replay_batches, {"re-decided": ("200,000", "1,000,000")}),
    "replay-single": Bench(replay_single, {"re-decided": ("15,000", "40,000")}),
    "kafka-identical": Bench(
        partial(_over_kafka, kafka.IDENTICAL), {"speed": ("60,000", "200,000")}
    ),
    "kafka-openb": Bench(partial(_over_kafka, kafka.OPENB), {"speed": ("30,000", "90,000")}),
    "kafka-latency": Bench(kafka_latency, {"p50": ("30", "12"), "p99": ("120", "40")}),
}
