"""Six processes over a real Kafka broker: throughput and latency.

One broker, the simulated cluster and a process for each journal share the machine's cores. The
clock runs from the first append with pods (nodes arrive while processes still start) to the last
`bound` outcome, both read from the journals. A run with an unbound pod is void.
"""

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from loadtest.journals import Timing, timing
from loadtest.processes import COMMAND, ProcessMesh
from muster.app.journals import all_journals, partitions
from shared.bus.kafka.bus import KafkaBus
from shared.bus.kafka.settings import KafkaSettings
from shared.events.binding import Bound
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.model.columns import size
from shared.model.ids import BINDING, START
from shared.ports.bus import Bus
from tests.support.kafka_server import KafkaBroker, KafkaServer, new_broker
from tests.support.server_process import cpu_seconds

LOOK_S = 0.1


@dataclass
class Case:
    """A world in the command line's words, and its number of pods."""

    world: str
    pods: int
    speed: float = 0
    time_limit_s: float = 180
    placements: int = 1
    snapshot_s: int = 0
    settings: Sequence[str] = ()
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The command of a journal's process, or of `cluster` (for profiling)."""


@dataclass
class Run:
    """The result of one run; `cpu_s` is the processor time of each process while the world was
    played.
    """

    pods: int
    timing: Timing
    cpu_s: dict[str, float]
    records: int

    @property
    def is_void(self) -> bool:
        """Return whether a pod stayed unbound."""
        return self.timing.bound < self.pods

    @property
    def pods_per_s(self) -> float:
        """Return the rate; 0 when the run is void."""
        return 0.0 if self.is_void else self.pods / max(self.timing.span_s, 0.001)


def measure(case: Case, folder: Path | None = None) -> Run:
    """Measure one run with its own broker; keep its files when a folder is given."""
    broker = new_broker()
    try:
        broker.start()
        with tempfile.TemporaryDirectory(prefix="muster-bench-") as made:
            # Users do not start a broker for each flood: by then its code is compiled.
            asyncio.run(play(WARM_UP, broker, Path(made) / "first"))
            return asyncio.run(play(case, broker, folder or Path(made) / "second"))
    finally:
        broker.stop()


async def play(case: Case, broker: KafkaBroker, folder: Path) -> Run:
    """Play a case over fresh topics of a running broker."""
    prefix = f"bench-{folder.name}"
    settings = [f"cluster.speed={case.speed}", *case.settings]
    mesh = ProcessMesh(
        folder,
        f"kafka://{broker.bootstrap}/{prefix}",
        [case.world],
        case.placements,
        settings,
        case.commands,
        snapshot_s=case.snapshot_s,
    )
    bus = KafkaBus(
        KafkaSettings(
            bootstrap=broker.bootstrap, prefix=prefix, replication_factor=1, min_insync_replicas=1
        ),
        partitions(case.placements),
        rest_ms={"binding": int(1_000 * LOOK_S)},
    )
    try:
        await bus.start()
        await asyncio.to_thread(mesh.start)
        before = _cpu_s(mesh, broker)
        await _until_bound(bus, case)
        after = _cpu_s(mesh, broker)
        started = re.search(r"plays since (\d+)", mesh.cluster.said())
        assert started is not None, mesh.cluster.said()
        codes = await asyncio.to_thread(mesh.stop)
        assert not any(codes.values()), codes
        times = await timing(bus, int(started[1]))
        records = 0
        for journal in all_journals(case.placements):
            records += (await bus.bounds(journal))[1]
    finally:
        mesh.close()
        await bus.close()
    used_s = {name: after[name] - before[name] for name in after}
    return Run(case.pods, times, used_s, records)


async def _until_bound(bus: Bus, case: Case) -> None:
    """Wait for all binds by following only binding's journal: the measured processes need the
    cores.
    """
    reader, bound = Reader(BINDING, Cursor()), 0
    end_s = time.monotonic() + case.time_limit_s
    cancel = bus.watch(BINDING, START, lambda: None)
    while bound < case.pods and time.monotonic() < end_s:
        await asyncio.sleep(LOOK_S)
        async for position, record in reader.records(bus):
            for event in own_events(record, BINDING, position):
                bound += size(event.ids) if isinstance(event, Bound) else 0
    cancel()


def _cpu_s(mesh: ProcessMesh, broker: KafkaBroker) -> dict[str, float]:
    pids = {journal: child.pid for journal, child in mesh.services.items()}
    pids |= {"cluster": mesh.cluster.pid, "this": os.getpid()}
    if isinstance(broker, KafkaServer):
        pids["broker"] = broker.pid
    return {name: cpu_seconds(pid) for name, pid in pids.items()}


def profiled(folder: Path) -> dict[str, Sequence[str]]:
    """Return commands that write a cProfile of each process into a folder."""
    return {
        name: ("-m", "cProfile", "-o", str(folder / f"{name.replace('/', '-')}.prof"), *COMMAND)
        for name in (*all_journals(1), "cluster")
    }


WARM_UP = Case("flood:pods=30000,nodes=1000,rate=6000", 30_000, speed=1)
IDENTICAL = Case("flood:pods=200000,nodes=5000", 200_000, snapshot_s=1)
OPENB = Case("flood:pods=50000,nodes=5000,gpu-nodes=1000,shapes=openb", 50_000, snapshot_s=1)
LATENCY = Case("flood:pods=60000,nodes=5000,rate=1000,start=3s", 60_000, speed=1)
CASES = {"identical": IDENTICAL, "openb": OPENB, "latency": LATENCY}


def main(names: Sequence[str]) -> None:
    """Run cases by name and print their figures; `profile=DIR` writes profiles there."""
    kept = next((Path(name[8:]) for name in names if name.startswith("profile=")), None)
    for name in names:
        if name not in CASES:
            continue
        case = CASES[name]
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            case = replace(case, commands=profiled(kept))
        run = measure(case)
        times = run.timing
        print(
            f"{name}: {run.pods_per_s:,.0f} pods/s, {times.bound:,} bound in {times.span_s:.2f} s, "
            f"p50 {times.percentile_ms(0.5)} p99 {times.percentile_ms(0.99)} ms, "
            f"{run.records:,} records; CPU s: "
            + " ".join(f"{who} {used_s:.2f}" for who, used_s in run.cpu_s.items()),
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
