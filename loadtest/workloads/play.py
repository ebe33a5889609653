"""Plays a workload through the mesh of one process with durable journals; there is no API server.

The clock runs from the first world record with a measured pod to the last bound outcome of one,
both read from the journals. A run with an unbound measured pod is void.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from loadtest.journals import told
from loadtest.one_process import nodes_known
from loadtest.workloads.ops import (
    Barrier,
    Churn,
    CreateClaimedPods,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateService,
    Op,
    Workload,
)
from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.events.observed import PodsSeen
from shared.machine.snapshots import SnapshotPolicy
from shared.model.cluster_objects import ClusterObject
from shared.model.columns import split
from shared.model.objects import Node
from shared.model.world import Arrival, World
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.directory import DirectorySnapshots

LOOK_S = 0.005
LIMIT_S = 300.0


@dataclass
class Played:
    """The result of the measured pods."""

    pods: int
    bound: int
    span_s: float

    @property
    def pods_per_s(self) -> float:
        """Return the rate; 0 when the run is void."""
        return 0.0 if self.bound < self.pods else self.pods / max(self.span_s, 0.001)


def objects_of(ops: Sequence[Op]) -> tuple[ClusterObject, ...]:
    """Return the objects that are neither nodes nor pods; they exist from the start."""
    services = [op.service() for op in ops if isinstance(op, CreateService)]
    services += [op.services.service() for op in ops if isinstance(op, Churn)]
    spaces = [one for op in ops if isinstance(op, CreateNamespaces) for one in op.namespaces()]
    drivers = [one for op in ops if isinstance(op, CreateNodes) for one in op.csi_nodes()]
    return (*services, *spaces, *drivers)


class _Player:
    """One workload in progress."""

    def __init__(self, cluster: SimCluster, serving: asyncio.Task[None]) -> None:
        self._cluster, self._serving = cluster, serving
        self._number = 0
        self._wanted: set[str] = set()
        self._bound: set[str] = set()
        self._seen = 0  # lines of the cluster's history that were read
        self._tasks: list[asyncio.Task[None]] = []
        self._leaving: list[tuple[list[str], int]] = []  # pods, and deletions per second
        self.measured: set[str] = set()

    def create(self, op: CreatePods) -> None:
        """Create pods, all at once."""
        for seen in op.seen(self._number):
            uids = split(seen.uids)
            self._cluster.create(Arrival(at_ms=self._cluster.now_ms(), pods=seen))
            if not op.stays:
                self._wanted.update(uids)
            if op.measured:
                self.measured.update(uids)
            if op.deletes_per_s:
                self._leaving.append((uids, op.deletes_per_s))
        self._number += op.count

    def create_claimed(self, op: CreateClaimedPods) -> None:
        """Create claims, their volumes and pods, all at once."""
        for objects, pods in op.seen(self._number):
            for one in objects:
                self._cluster.set_object(one)
            for seen in pods:
                self._cluster.create(Arrival(at_ms=self._cluster.now_ms(), pods=seen))
                self._wanted.add(seen.uids)
                if op.measured:
                    self.measured.add(seen.uids)
        self._number += op.count

    async def barrier(self) -> bool:
        """Wait until every wanted pod is bound; return False on a timeout."""
        clock = asyncio.get_running_loop().time
        end = clock() + LIMIT_S
        while clock() < end:
            if self._serving.done():
                self._serving.result()
            history = self._cluster.history
            for line in history[self._seen :]:
                if line.kind == "bind":
                    self._bound.add(line.uid)
            self._seen = len(history)
            if self._wanted <= self._bound:
                self._tasks += [asyncio.create_task(self._deleting(*one)) for one in self._leaving]
                self._leaving.clear()
                return True
            await asyncio.sleep(LOOK_S)
        return False

    def churn(self, op: Churn) -> None:
        """Start the churn; it runs until the end."""
        self._tasks.append(asyncio.create_task(self._churning(op)))

    async def _deleting(self, uids: list[str], per_s: int) -> None:
        for uid in uids:
            self._cluster.delete([uid])
            await asyncio.sleep(1 / per_s)

    async def _churning(self, op: Churn) -> None:
        cluster, (node,), service = self._cluster, op.nodes.nodes(), op.services.service()
        for number in count():
            uid = f"uid-churn-{number}"
            node = replace(node, uid=f"uid-{node.name}-{number}")
            pods = PodsSeen(spec=op.spec, uids=uid, names=uid, revisions=b"")
            cluster.create(Arrival(at_ms=cluster.now_ms(), pods=pods))
            cluster.set_node(node)
            cluster.remove_object(service.uid)
            await asyncio.sleep(op.interval_s)
            cluster.delete([uid])
            cluster.remove_node(node.uid)
            cluster.set_object(service)
            await asyncio.sleep(op.interval_s)

    def stop(self) -> None:
        """Stop the churn and the deletions."""
        for task in self._tasks:
            task.cancel()


async def play(workload: Workload, folder: Path) -> Played:
    """Play a workload on fresh journals in `folder`."""
    ops = workload.ops()
    nodes: list[Node] = [node for op in ops if isinstance(op, CreateNodes) for node in op.nodes()]
    world = World(name="workload", nodes=tuple(nodes), arrivals=(), objects=objects_of(ops))
    has_volumes = any(isinstance(op, CreateClaimedPods) for op in ops)
    log = SqliteLog(str(folder / "journals.db"), exclusive=True)
    cluster = SimCluster(world, SimConfig(seed=1, speed=0))
    mesh = Mesh(
        bus_of=lambda _journal: SqliteBus(log),
        store=DirectorySnapshots(folder / "snapshots"),
        cluster=cluster,
        placements=1,
        config={"ingest": {"default_spread": True, "volumes": has_volumes}},
        policy=SnapshotPolicy(every_ms=5_000),
    )
    journals = all_journals(1)
    serving = asyncio.create_task(mesh.serve(journals))
    player = _Player(cluster, serving)
    try:
        while len(mesh.owners()) < len(journals) or not nodes_known(mesh):
            if serving.done():
                serving.result()
            await asyncio.sleep(LOOK_S)
        cluster.start()
        for op in ops:
            if isinstance(op, CreatePods):
                player.create(op)
            elif isinstance(op, CreateClaimedPods):
                player.create_claimed(op)
            elif isinstance(op, Churn):
                player.churn(op)
            elif isinstance(op, Barrier) and not await player.barrier():
                break
        await asyncio.sleep(0.3)
    finally:
        player.stop()
        cluster.stop()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    bound, span_s = await told(SqliteBus(log), player.measured)
    log.close()
    return Played(len(player.measured), bound, span_s)


def measure(workload: Workload) -> Played:
    """Measure one run in a temporary folder, on uvloop."""
    import uvloop

    with tempfile.TemporaryDirectory(prefix="muster-workload-") as folder:
        return uvloop.run(play(workload, Path(folder)))
