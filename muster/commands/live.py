"""`muster run --kubeconfig`: the whole mesh in one process, scheduling a live cluster's pods."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from muster.commands.run import loop_factory
from muster.display import LiveDisplay
from muster.faults import Fault, UsageFault
from muster.kube_address import kube_cluster, kube_config, open_kube
from muster.live import LiveRunner, Standing, line_of, result_of
from muster.mesh import Mesh
from muster.options import mesh_config, parse_settings
from muster.run_directory import FORMAT, JOURNALS, SNAPSHOTS, continued_run
from services.ingest.core import WrongCluster
from shared.adapters.memory_bus import MemoryBus, MemoryLog
from shared.adapters.snapshot_directory import DirectorySnapshots
from shared.adapters.sqlite_bus import SqliteBus, SqliteLog
from shared.machine.reset import EpochBus, EpochStore, epochs
from shared.machine.snapshots import SnapshotPolicy
from shared.ports.bus import Bus

SNAPSHOT_MS = 30_000
DEFAULT_FOLDER = Path("runs/live")


@dataclass(frozen=True)
class LiveOptions:
    """The words of the command line."""

    kubeconfig: str
    schedulers: list[str]
    placements: int
    bus: str
    run_dir: Path | None
    settings: list[str]

    def meta(self) -> dict[str, Any]:
        """What has to stay as it is while a run goes on in its folder."""
        return {"format": FORMAT, "live": True, "placements": self.placements}


def run_live(options: LiveOptions, output: str) -> None:
    """Schedule until told to stop. Raises UsageFault, Fault."""
    cluster = kube_cluster(options.kubeconfig, options.schedulers)
    config = kube_config(mesh_config(parse_settings(options.settings)), options.schedulers)
    folder = options.run_dir or DEFAULT_FOLDER
    continued_run(folder, options.meta())
    sqlite = SqliteLog(folder / JOURNALS, exclusive=True) if options.bus == "sqlite" else None
    memory = MemoryLog()

    def client(_journal: str) -> SqliteBus | MemoryBus:
        return SqliteBus(sqlite) if sqlite is not None else MemoryBus(memory)

    mesh = Mesh(
        client,
        DirectorySnapshots(folder / SNAPSHOTS),
        cluster,
        placements=options.placements,
        config=config,
        is_alone=True,
        policy=SnapshotPolicy(every_ms=SNAPSHOT_MS),
    )
    console = Console(stderr=True)

    async def go() -> Standing:
        await open_kube(cluster)
        epoch = await _epoch(client(""))
        mesh.epoch, mesh.store = epoch, EpochStore(mesh.store, epoch)
        mesh.bus_of = lambda journal: EpochBus(client(journal), epoch)
        with LiveDisplay(console, quiet=output == "json") as display:
            return await LiveRunner(cluster, mesh, display.show).run()

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as loop:
            standing = loop.run(go())
    except WrongCluster as error:
        raise UsageFault(f"{error}; or name another --run-dir than {folder}") from error
    finally:
        if sqlite is not None:
            sqlite.close()
    _sum_up(standing, folder, output)


async def _epoch(bus: Bus) -> int:
    """The epoch in force: resets begin new ones. Raises Fault while one is half done."""
    known = await epochs(bus)
    if known and not known[-1].is_open:
        raise Fault("a reset was not finished: run 'muster reset' again")
    return known[-1].number if known else 1


def _sum_up(standing: Standing, folder: Path, output: str) -> None:
    console = Console()
    if output == "json":
        console.out(json.dumps({**result_of(standing), "run": str(folder)}), highlight=False)
    else:
        console.out(f"stopped after {standing.seconds:.1f} s: {line_of(standing)}", highlight=False)
