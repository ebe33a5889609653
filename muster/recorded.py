"""A run that was recorded, opened for reading: a run directory, or a bus with its snapshots."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.addresses import parse_bus
from muster.faults import UsageFault
from muster.mesh import all_journals, partitions
from muster.run_directory import META, SNAPSHOTS, existing_run, read_meta
from shared.adapters.snapshot_directory import DirectorySnapshots
from shared.adapters.sqlite_bus import SqliteBus, SqliteLog
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotStore


@dataclass(frozen=True)
class Recorded:
    """What reading needs: a client, the snapshots, and how many shards there are."""

    bus: Bus
    store: SnapshotStore
    placements: int

    @property
    def journals(self) -> list[str]:
        """The run's journals in the order of the flow."""
        return all_journals(self.placements)


@asynccontextmanager
async def recorded(run: Path, bus: str, placements: int) -> AsyncIterator[Recorded]:
    """Open `run` (its directory). With a bus address the journals are read from there, and `run`
    holds the snapshots. Raises UsageFault, BusCorrupt, BusUnavailable.
    """
    store = DirectorySnapshots(run / SNAPSHOTS)
    if bus:
        clients = parse_bus(bus).clients(partitions(placements))
        await clients.open(["reader"])
        try:
            yield Recorded(clients.opened["reader"], store, placements)
        finally:
            await clients.close()
        return
    journals = existing_run(run)
    log = SqliteLog(journals, readonly=True)
    try:
        yield Recorded(SqliteBus(log), store, _placements(run))
    finally:
        log.close()


def _placements(run: Path) -> int:
    found = read_meta(run).get("placements")
    if not isinstance(found, int) or found < 1:
        raise UsageFault(f"{run / META}: placements must be a number of at least 1")
    return found
