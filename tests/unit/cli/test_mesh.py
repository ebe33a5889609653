"""A mesh in a process that goes on afterwards."""

import asyncio
import gc

from muster.mesh import Mesh
from shared.adapters.memory_bus import MemoryBus, MemoryLog
from shared.adapters.sim_cluster import SimCluster
from shared.adapters.sim_cluster_config import SimConfig
from shared.adapters.snapshot_memory import MemorySnapshots
from shared.machine import member as members
from shared.model.world import World
from shared.ports.bus import BusUnavailable, JournalName


async def test_it_leaves_the_collector_as_it_was():
    log, before = MemoryLog(), gc.get_threshold()
    cluster = SimCluster(World(name="empty", nodes=(), arrivals=()), SimConfig())
    await Mesh(lambda _journal: MemoryBus(log), MemorySnapshots(), cluster).serve([])
    assert gc.get_threshold() == before


class Away(MemoryBus):
    """Cannot be reached the first times."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.fails, self.is_back = 5, asyncio.Event()

    async def bounds(self, journal: JournalName) -> tuple[int, int]:
        if self.fails:
            self.fails -= 1
            raise BusUnavailable("kafka://nowhere:1: refused")
        self.is_back.set()
        return await super().bounds(journal)


async def test_an_outage_of_the_bus_is_told_of_once(monkeypatch, caplog):
    monkeypatch.setattr(members, "RETRY_MS", 0)
    cluster = SimCluster(World(name="empty", nodes=(), arrivals=()), SimConfig())
    bus = Away(MemoryLog())
    mesh = Mesh(lambda _journal: bus, MemorySnapshots(), cluster)
    serving = asyncio.create_task(mesh.serve(["permit/0"]))
    await bus.is_back.wait()
    serving.cancel()
    (member,) = mesh.members.values()
    member.terms += 1
    for _again in range(3):
        member.failed(BusUnavailable("a later one"))
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "permit/0: no answer from the bus, asking again: kafka://nowhere:1: refused",
        "permit/0: no answer from the bus, asking again: a later one",
    ]
