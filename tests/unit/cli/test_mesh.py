"""A mesh in a process that continues afterwards."""

import asyncio
import gc
import re
import shutil
from pathlib import Path

import pytest

from muster.app.health import checks_of
from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.cli.commands.serve import of_cluster
from services.ingest.core.state import WrongCluster
from shared.adapters.metrics import registry_of
from shared.bus.memory import MemoryBus, MemoryLog
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.machine import member as members
from shared.model.ids import BINDING, INGEST, PERMIT, JournalName, Position
from shared.model.world import World
from shared.ports.bus import BusCorrupt, BusUnavailable
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.directory import DirectorySnapshots
from shared.snapshots.memory import MemorySnapshots


async def test_a_mesh_restores_the_settings_of_the_garbage_collector():
    log, before = MemoryLog(), gc.get_threshold()
    cluster = SimCluster(World(name="empty", nodes=(), arrivals=()), SimConfig())
    await Mesh(lambda _journal: MemoryBus(log), MemorySnapshots(), cluster).serve([])
    assert gc.get_threshold() == before


class Away(MemoryBus):
    """A bus that is unavailable the first times."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.fails, self.is_back = 5, asyncio.Event()

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        if self.fails:
            self.fails -= 1
            raise BusUnavailable("kafka://nowhere:1: refused")
        self.is_back.set()
        return await super().bounds(journal)


async def test_an_outage_of_the_bus_is_reported_once(monkeypatch, caplog):
    monkeypatch.setattr(members, "RETRY_MS", 0)
    cluster = SimCluster(World(name="empty", nodes=(), arrivals=()), SimConfig())
    bus = Away(MemoryLog())
    mesh = Mesh(lambda _journal: bus, MemorySnapshots(), cluster)
    serving = asyncio.create_task(mesh.serve([PERMIT]))
    await bus.is_back.wait()
    serving.cancel()
    (member,) = mesh.members.values()
    member.outage = ""
    for _attempt in range(3):
        member.on_bus_failed(BusUnavailable("a later one"))
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "permit/0: no answer from the bus, retrying: kafka://nowhere:1: refused",
        "permit/0: no answer from the bus, retrying: a later one",
    ]


def idle_cluster() -> SimCluster:
    return SimCluster(World(name="empty", nodes=(), arrivals=()), SimConfig())


async def until_owned(mesh: Mesh, journals: list[JournalName]) -> asyncio.Task[None]:
    serving = asyncio.create_task(mesh.serve(journals))
    async with asyncio.timeout(10):
        while True:
            await asyncio.sleep(0.01)
            if len(mesh.owners()) == len(journals):
                return serving


async def test_each_bad_snapshot_is_reported_and_counted(tmp_path: Path, caplog):
    folder = tmp_path / "permit-0"
    folder.mkdir()
    torn, without = folder / f"{4:020d}.manifest", folder / f"{7:020d}-0a.body"
    torn.write_bytes(b"x")
    without.write_bytes(b"y")
    log = MemoryLog()
    mesh = Mesh(lambda _journal: MemoryBus(log), DirectorySnapshots(tmp_path), idle_cluster())
    serving = await until_owned(mesh, [PERMIT])
    assert [record.getMessage() for record in caplog.records] == [
        f"permit/0: skipped a snapshot: {without}: its manifest is missing",
        f"permit/0: skipped a snapshot: {torn}: the manifest is torn or changed",
    ]
    registry = registry_of(mesh.owners)
    assert registry.get_sample_value("muster_snapshots_bad_total", {"journal": "permit/0"}) == 2
    serving.cancel()


async def test_standing_by_and_taking_over_are_logged(monkeypatch, caplog):
    caplog.set_level("INFO", "muster.mesh")
    monkeypatch.setattr(members, "HEARTBEAT_MS", 20)
    log = MemoryLog()
    first = await until_owned(mesh_of(log, "c", "one"), [PERMIT])
    assert caplog.messages == [], "a new journal is owned at once"
    second = mesh_of(log, "c", "two")
    serving = asyncio.create_task(second.serve([PERMIT]))
    async with asyncio.timeout(10):
        while not caplog.messages:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        checks = checks_of(second, [PERMIT])
        assert checks["journals"]() == (True, "stands by for permit/0 (owner one)")
        first.cancel()
        while not second.owners():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert checks["journals"]() == (True, "owns permit/0")
    stands_by, took_over = caplog.messages
    assert stands_by == "stands by for permit/0 (owner one)"
    assert re.fullmatch(r"took over permit/0 from one after \d+\.\d s", took_over)
    serving.cancel()


def mesh_of(log: MemoryLog, cluster: str, owner: str = "same", **ingest: object) -> Mesh:
    mesh = Mesh(lambda _journal: MemoryBus(log), MemorySnapshots(), idle_cluster(), owner=owner)
    mesh.config = of_cluster({"ingest": ingest}, cluster)
    return mesh


async def test_binding_does_not_own_a_journal_of_another_cluster():
    log = MemoryLog()
    (await until_owned(mesh_of(log, "c1"), [BINDING])).cancel()
    before = await MemoryBus(log).bounds(BINDING)
    with pytest.raises(WrongCluster, match=r"binding/0: this journal is of cluster c1, but .* c2"):
        await asyncio.wait_for(mesh_of(log, "c2").serve([BINDING]), 10)
    assert await MemoryBus(log).bounds(BINDING) == before
    (await until_owned(mesh_of(log, "c1"), [BINDING])).cancel()


async def test_binding_does_not_own_a_journal_that_another_cluster_took_while_it_stood_by(
    monkeypatch,
):
    monkeypatch.setattr(members, "HEARTBEAT_MS", 20)
    log = MemoryLog()
    waits = mesh_of(log, "c2", "waits").member(BINDING)
    waits.first = waits.make_owner()
    await waits.first.read_ahead()  # the journal is empty
    first = await until_owned(mesh_of(log, "c1"), [BINDING])
    waiting = asyncio.create_task(waits.serve())
    await asyncio.sleep(0.01)
    first.cancel()
    with pytest.raises(WrongCluster, match=r"binding/0: this journal is of cluster c1, but .* c2"):
        await asyncio.wait_for(waiting, 10)


async def test_a_journal_of_other_scheduler_names_is_reported(caplog):
    log = MemoryLog()
    first = await until_owned(mesh_of(log, "simulated-empty", schedulers=["a"]), [INGEST])
    async with asyncio.timeout(10):
        while (await MemoryBus(log).bounds(INGEST))[1] < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    first.cancel()
    (await until_owned(mesh_of(log, "simulated-empty", schedulers=["a"]), [INGEST])).cancel()
    assert caplog.records == []
    (await until_owned(mesh_of(log, "simulated-empty", schedulers=["b", "c"]), [INGEST])).cancel()
    assert caplog.records[0].getMessage() == (
        "ingest/0: recorded for pods of schedulers a, started for those of b, c: to schedule both, "
        "give all names to one mesh, or each mesh its own prefix"
    )


@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_mesh_ends_when_its_folder_is_removed(tmp_path: Path, is_alone):
    folder = tmp_path / "run"
    folder.mkdir()
    log = SqliteLog(folder / "journals.db", exclusive=is_alone)
    mesh = Mesh(lambda _journal: SqliteBus(log), MemorySnapshots(), idle_cluster())
    mesh.is_alone = is_alone
    serving = await until_owned(mesh, all_journals(1))
    shutil.rmtree(folder)
    with pytest.raises(ExceptionGroup) as raised:
        await asyncio.wait_for(serving, 10)
    log.close()
    causes = raised.value.exceptions
    assert all(isinstance(one, BusCorrupt) for one in causes)
    assert "journals.db: was removed or renamed while it was in use" in str(causes[0])
