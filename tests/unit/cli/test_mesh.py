"""A mesh in a process that goes on afterwards."""

import gc

from muster.mesh import Mesh
from shared.adapters.memory_bus import MemoryBus, MemoryLog
from shared.adapters.sim_cluster import SimCluster
from shared.adapters.sim_cluster_config import SimConfig
from shared.adapters.snapshot_memory import MemorySnapshots
from shared.model.world import World


async def test_it_leaves_the_collector_as_it_was():
    log, before = MemoryLog(), gc.get_threshold()
    cluster = SimCluster(World(name="empty", nodes=(), arrivals=()), SimConfig())
    await Mesh(lambda _journal: MemoryBus(log), MemorySnapshots(), cluster).serve([])
    assert gc.get_threshold() == before
