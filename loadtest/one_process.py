"""One process, all services, SQLite with synchronous=FULL: throughput.

The mesh is the production one: assertions, counters and snapshots are on, the snapshot directory is
real, and snapshots are so frequent that a short flood has some. Two clocks run to the last `bound`
outcome, read from the journals: from the first world append, which brings the nodes, and from the
first with pods, once every service knows the nodes. A run with an unbound pod is void.
"""

import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtest.journals import Timing, gang_decisions, timing
from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.flood.targets.in_process import nodes_known
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.machine.snapshots import SnapshotPolicy
from shared.model.columns import split
from shared.model.ids import BINDING
from shared.model.world import World
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.directory import DirectorySnapshots

POLL_S = 0.005


@dataclass
class Case:
    """A world and the settings of the mesh. `speed` 0 = everything arrives at once. `is_over`: when
    the run ends; by default when every pod was created and bound.
    """

    world: World
    placements: int = 1
    speed: float = 0
    config: dict[str, Any] = field(default_factory=dict)
    time_limit_s: float = 300
    snapshot_ms: int = 1_000
    seed: int = 1
    is_over: Callable[[SimCluster], bool] | None = None


@dataclass
class Run:
    """The result of one run. `resident_mib` is the process's memory with everything bound.
    `committed_ms` and `evicting_ms` are those of gang_decisions.
    """

    pods: int
    bound: int
    timing: Timing
    records: int
    snapshots: int
    resident_mib: float
    committed_ms: dict[int, int]
    evicting_ms: dict[int, int]

    def pods_per_s(self, span_s: float) -> float:
        """Return the rate; 0 when the run is void."""
        return 0.0 if self.bound < self.pods else self.pods / max(span_s, 0.001)


def pods_of(world: World) -> int:
    """Return the number of pods in the world."""
    return sum(len(split(arrival.pods.uids)) for arrival in world.arrivals)


async def play(case: Case, folder: Path) -> Run:
    """Play a case on fresh journals in `folder`."""
    log = SqliteLog(str(folder / "journals.db"), exclusive=True)
    cluster = SimCluster(case.world, SimConfig(seed=case.seed, speed=case.speed))
    mesh = Mesh(
        bus_of=lambda _journal: SqliteBus(log),
        store=DirectorySnapshots(folder / "snapshots"),
        cluster=cluster,
        placements=case.placements,
        config=case.config,
        policy=SnapshotPolicy(every_ms=case.snapshot_ms),
    )
    journals = all_journals(case.placements)
    pods = pods_of(case.world)
    serving = asyncio.create_task(mesh.serve(journals))
    clock = asyncio.get_running_loop().time
    try:
        while len(mesh.owners()) < len(journals) or not nodes_known(mesh):
            await _look(serving)
        gc.freeze()
        started_ms = time.time_ns() // 1_000_000
        cluster.start()
        began_s = clock()
        lines = len(case.world.nodes) + 2 * pods  # each node; each pod created and bound
        is_over = case.is_over or (lambda cluster: len(cluster.history) >= lines)
        while not is_over(cluster) and clock() - began_s < case.time_limit_s:
            await _look(serving)
        while _are_binds_open(mesh) and clock() - began_s < case.time_limit_s:
            await _look(serving)
        await asyncio.sleep(0.3)
        resident_mib = _resident_mib()
    finally:
        cluster.stop()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    reader = SqliteBus(log)
    told = await timing(reader, started_ms)
    decisions = await gang_decisions(reader, started_ms)
    stats = [owner.stats for owner in mesh.owners()]
    log.close()
    return Run(
        pods,
        told.bound,
        told,
        sum(each.records for each in stats),
        sum(each.snapshots for each in stats),
        resident_mib,
        *decisions,
    )


def _are_binds_open(mesh: Mesh) -> bool:
    """Return whether binding waits for an outcome that the cluster shows already."""
    return any(owner.state.effects for owner in mesh.owners() if owner.journal == BINDING)


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


async def _look(serving: asyncio.Task[None]) -> None:
    if serving.done():
        serving.result()
    await asyncio.sleep(POLL_S)


def measure(case: Case) -> Run:
    """Measure one run in a temporary folder, on uvloop."""
    import uvloop

    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        return uvloop.run(play(case, Path(folder)))
