"""A recorded or running run, opened for reading: a run directory, or a bus with its snapshots. The
epoch in force is read: a reset begins a new one with empty journals.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.app.journals import all_journals, partitions, topics
from muster.cli.addresses.bus import BusAddress, parse_bus
from muster.cli.errors import Fault, UsageFault
from muster.cli.run_directory import META, SNAPSHOTS, existing_run, read_meta
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.machine.fold import NeedsReset
from shared.machine.reader import JournalGap
from shared.machine.record import RecordUnreadable
from shared.machine.reset import EpochBus, EpochStore, epochs
from shared.model.ids import SHARDS_MAX, JournalName
from shared.ports.bus import Bus, CutAway
from shared.ports.snapshots import SnapshotStore
from shared.snapshots.directory import DirectorySnapshots


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Add the file or broker to errors of unreadable content. Raises Fault."""
    try:
        yield
    except (RecordUnreadable, JournalGap, CutAway, NeedsReset) as error:
        raise Fault(f"{place}: {error}") from error


@dataclass(frozen=True)
class Recorded:
    """What reading needs: a client, the snapshots, and the number of shards; `place` is the file or
    broker.
    """

    bus: Bus
    store: SnapshotStore
    placements: int
    place: str

    @property
    def journals(self) -> list[JournalName]:
        """Return the run's journals in the order of the flow."""
        return all_journals(self.placements)


@asynccontextmanager
async def recorded(run: Path, bus: str, placements: int) -> AsyncIterator[Recorded]:
    """Open `run` (its directory). With a bus address the journals are read from there, and `run`
    holds the snapshots. Raises UsageFault, BusCorrupt, BusUnavailable; content that cannot be read
    within the context raises Fault.
    """
    store = DirectorySnapshots(run / SNAPSHOTS)
    address = parse_bus(bus) if bus else BusAddress(sqlite=existing_run(run))
    shards = placements if bus else _placements(run)
    if address.sqlite is None:
        epoch = await _epoch_over(address, shards)
        clients = address.clients(topics(shards, epoch))
        await clients.open(["reader"])
        try:
            with naming(address.place):
                yield _of_epoch(clients.opened["reader"], store, shards, epoch, address.place)
        finally:
            await clients.close()
        return
    log = SqliteLog(address.sqlite, readonly=True)
    try:
        client = SqliteBus(log)
        with naming(address.place):
            yield _of_epoch(client, store, shards, await _epoch(client), address.place)
    finally:
        log.close()


def _of_epoch(bus: Bus, store: SnapshotStore, placements: int, epoch: int, place: str) -> Recorded:
    return Recorded(EpochBus(bus, epoch), EpochStore(store, epoch), placements, place)


async def _epoch_over(address: BusAddress, placements: int) -> int:
    """Return the epoch in force; its topics are not known before it is."""
    clients = address.clients(partitions(placements))
    await clients.open(["reader"])
    try:
        return await _epoch(clients.opened["reader"])
    finally:
        await clients.close()


async def _epoch(bus: Bus) -> int:
    """Return the newest opened epoch; while another is being opened, the one before."""
    opened = [epoch.number for epoch in await epochs(bus) if epoch.is_open]
    return max(opened, default=1) or 1


def _placements(run: Path) -> int:
    found = read_meta(run).get("placements")
    if not isinstance(found, int) or not 1 <= found <= SHARDS_MAX:
        raise UsageFault(f"{run / META}: placements must be a number from 1 to {SHARDS_MAX}")
    return found
