"""Times of work on finished journals: recovery by folding, and deciding again."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from loadtest.one_process import Case, play
from muster.app.journals import all_journals
from muster.app.mesh import make_core
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.machine.fold import fold
from shared.model.ids import QUEUEING, placement
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotStore
from shared.replay.parallel import Part, Source, processes_for, replay_all
from shared.snapshots.directory import DirectorySnapshots
from shared.snapshots.memory import MemorySnapshots
from shared.worlds.flood import Flood, flood_world

NEVER_MS = 1_000_000_000


async def recover(flood: Flood, folder: Path) -> dict[str, float]:
    """Place a flood, then fold two journals from their start. Return seconds by journal."""
    case = Case(flood_world(flood), snapshot_ms=NEVER_MS)
    run = await play(case, folder)
    assert run.bound == run.pods, f"{run.bound} of {run.pods} bound"
    seconds: dict[str, float] = {}
    for journal in (placement(0), QUEUEING):
        log = SqliteLog(str(folder / "journals.db"), exclusive=True)
        began_s = time.perf_counter()
        await fold(make_core(journal, 1), SqliteBus(log), MemorySnapshots())
        seconds[journal] = time.perf_counter() - began_s
        log.close()
    return seconds


def replayed(case: Case, folder: Path) -> tuple[int, float, bool]:
    """Play a case, then decide every record of every journal again, as `muster replay` does. Return
    (pods, seconds on the clock, equal).
    """
    run = asyncio.run(play(case, folder))
    source = Source(partial(_opened, folder), partial(make_core, placements=case.placements))
    parts = [Part(journal) for journal in all_journals(case.placements)]
    began_s = time.perf_counter()
    reports = replay_all(source, parts, processes_for(parts))
    seconds = time.perf_counter() - began_s
    return run.pods, seconds, run.bound == run.pods and all(report.ok for report in reports)


@asynccontextmanager
async def _opened(folder: Path) -> AsyncIterator[tuple[Bus, SnapshotStore]]:
    log = SqliteLog(str(folder / "journals.db"), readonly=True)
    try:
        yield SqliteBus(log), DirectorySnapshots(folder / "snapshots")
    finally:
        log.close()
