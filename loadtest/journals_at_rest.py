"""What can be done with finished journals, and how fast: recovery by folding, re-decision."""

import time
from functools import partial
from pathlib import Path

from loadtest.one_process import Case, play
from muster.mesh import all_journals, make_core
from shared.adapters.snapshot_memory import MemorySnapshots
from shared.adapters.sqlite_bus import SqliteBus, SqliteLog
from shared.adapters.worlds.flood import Flood, flood_world
from shared.machine.fold import fold
from shared.replay.read_once import ReadOnceBus
from shared.replay.replay import replay

NEVER_MS = 1_000_000_000


async def recover(flood: Flood, folder: Path) -> dict[str, float]:
    """Place a flood, then fold two journals from their start: journal -> seconds."""
    case = Case(flood_world(flood), snapshot_ms=NEVER_MS)
    run = await play(case, folder)
    assert run.bound == run.pods, f"{run.bound} of {run.pods} bound"
    seconds = {}
    for journal in ("placement/0", "queueing/0"):
        log = SqliteLog(str(folder / "journals.db"), exclusive=True)
        began_s = time.perf_counter()
        await fold(make_core(journal, 1), SqliteBus(log), MemorySnapshots())
        seconds[journal] = time.perf_counter() - began_s
        log.close()
    return seconds


async def replayed(case: Case, folder: Path) -> tuple[int, float, bool]:
    """Play a case, then decide every record of every journal again: (pods, seconds, equal)."""
    run = await play(case, folder)
    log = SqliteLog(str(folder / "journals.db"), exclusive=True)
    bus, store = ReadOnceBus(SqliteBus(log)), MemorySnapshots()
    equal = run.bound == run.pods
    began_s = time.perf_counter()
    for journal in all_journals(case.placements):
        report = await replay(partial(make_core, journal, case.placements), bus, store)
        equal = equal and report.ok
    seconds = time.perf_counter() - began_s
    log.close()
    return run.pods, seconds, equal
