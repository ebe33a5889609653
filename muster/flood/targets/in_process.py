"""The target in this process: the whole mesh with durable journals, and a simulated cluster."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from muster.app.embedded_bus import embedded_bus
from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.app.pacing import ONE_PROCESS, VIRTUAL
from muster.app.runner import check_mesh
from muster.flood.plan import Plan
from muster.flood.targets.simulated import Simulated
from shared.machine.runtime import Host
from shared.machine.snapshots import SnapshotPolicy
from shared.model.world import World
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.directory import DirectorySnapshots

LOOK_S = 0.005
SNAPSHOT_MS = 5_000


@asynccontextmanager
async def in_process(
    plan: Plan,
    folder: Path,
    placements: int,
    config: dict[str, Any],
    sim: SimConfig,
    snapshot_ms: int = SNAPSHOT_MS,
    host: Host | None = None,
) -> AsyncIterator[Simulated]:
    """Yield a target on fresh journals in `folder`, when every service knows the nodes. With a host
    on virtual time the journals are not synced to the disk.
    """
    world = World(name=plan.name, nodes=plan.nodes, arrivals=(), objects=plan.objects)
    cluster = SimCluster(world, sim)
    with embedded_bus("sqlite", folder / "journals.db", host is None) as client:
        mesh = Mesh(
            client,
            DirectorySnapshots(folder / "snapshots"),
            cluster,
            placements=placements,
            config=config,
            policy=SnapshotPolicy(every_ms=snapshot_ms),
            pace=ONE_PROCESS if host is None else VIRTUAL,
            host=host,
        )
        journals = all_journals(placements)
        serving = asyncio.create_task(mesh.serve(journals))
        try:
            while len(mesh.owners()) < len(journals) or not nodes_known(mesh):
                check_mesh(serving)
                await asyncio.sleep(LOOK_S)
            gc.freeze()
            yield Simulated(cluster, client(""), lambda: check_mesh(serving))
        finally:
            gc.unfreeze()
            cluster.stop()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def nodes_known(mesh: Mesh) -> bool:
    """Return whether every service has consumed ingest's records of the existing nodes."""
    ingest, *readers = mesh.owners()
    end = ingest.folded.own_reader.next
    behind = any(owner.state.cursors["ingest/0"].next < end for owner in readers)
    return bool(ingest.state.revision) and not ingest.submitted and not behind
