"""The target in this process: the whole mesh with durable journals, and a simulated cluster."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import structs

from muster.app.embedded_bus import embedded_bus
from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.app.runner import check_mesh
from muster.flood.book import Seen
from muster.flood.plan import Action, AddNodes, AddPods, FailNodes, Plan, RemovePods
from muster.flood.read import pod_spec
from muster.flood.workload import COLUMN_PODS_MAX
from shared.events.observed import PodsSeen
from shared.machine.snapshots import SnapshotPolicy
from shared.model.columns import join
from shared.model.objects import MEMORY, PodSpec
from shared.model.world import Arrival, World
from shared.ports.bus import Bus
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.simulated.history import Kind
from shared.snapshots.directory import DirectorySnapshots

LOOK_S = 0.005
SNAPSHOT_MS = 5_000
UID = "flood."
BINDS: tuple[Kind, ...] = ("bind", "late-bind")
WRITES: tuple[Kind, ...] = (*BINDS, "touch", "evict")


class InProcess:
    """A mesh and a simulated cluster; `reader` reads the journals."""

    def __init__(self, cluster: SimCluster, serving: asyncio.Task[None], reader: Bus) -> None:
        """Nothing comes before `start`."""
        self._cluster, self._serving, self.reader = cluster, serving, reader
        self._read = len(cluster.history)
        self._writes = 0
        self.started_ms = 0
        """When the flood began, in ms since the epoch."""

    def start(self) -> None:
        """See the port."""
        self.started_ms = time.time_ns() // 1_000_000
        self._cluster.start()

    def now_ms(self) -> float:
        """See the port."""
        return self._cluster.now_ms()

    def processor_s(self) -> float:
        """Return the processor time of this process; the simulated cluster is part of it."""
        return time.process_time()

    def api_writes(self) -> int:
        """See the port."""
        return self._writes

    def seen(self) -> Seen:
        """See the port."""
        check_mesh(self._serving)
        history = self._cluster.history
        bound: list[int] = []
        bound_ms: list[float] = []
        gone: list[int] = []
        for line in history[self._read :]:
            kind = line.kind
            if kind in BINDS:
                bound.append(int(line.uid[len(UID) :]))
                bound_ms.append(line.time_ms)
            elif kind == "delete":
                gone.append(int(line.uid[len(UID) :]))
            self._writes += kind in WRITES
        self._read = len(history)
        return Seen(bound, bound_ms, gone)

    def act(self, action: Action) -> None:
        """See the port."""
        cluster = self._cluster
        if isinstance(action, AddPods):
            cluster.set_gangs(action.gangs)
            for arrival in _arrivals(action, cluster.now_ms()):
                cluster.create(arrival)
        elif isinstance(action, RemovePods):
            cluster.delete([f"{UID}{number}" for number in action.numbers])
        elif isinstance(action, AddNodes):
            for node in action.nodes:
                cluster.set_node(node)
        else:
            assert isinstance(action, FailNodes)
            for name in action.names:
                cluster.remove_node(f"node.{name}")


def _arrivals(action: AddPods, now_ms: int) -> list[Arrival]:
    template, numbers = action.template, action.numbers
    if action.step.is_distinct or template.is_numbered:
        return [_arrival(action, [number], _own_spec(action, number), now_ms) for number in numbers]
    return [
        _arrival(action, numbers[start : start + COLUMN_PODS_MAX], template.spec, now_ms)
        for start in range(0, len(numbers), COLUMN_PODS_MAX)
    ]


def _own_spec(action: AddPods, number: int) -> PodSpec:
    """Return the spec of a pod that is not like the others."""
    template = action.template
    spec = pod_spec(template, number) if template.is_numbered else template.spec
    if not action.step.is_distinct:
        return spec
    memory_bytes = spec.request(MEMORY) + number + 1
    requests = dict(spec.requests) | {MEMORY: memory_bytes}
    return structs.replace(
        spec, requests=tuple(sorted(requests.items())), nonzero_memory_bytes=memory_bytes
    )


def _arrival(action: AddPods, numbers: Sequence[int], spec: PodSpec, now_ms: int) -> Arrival:
    pods = PodsSeen(
        spec=spec,
        uids=join([f"{UID}{number}" for number in numbers]),
        names=join([f"pod-{number}" for number in numbers]),
        revisions=b"",
        namespace=action.step.namespace,
        labels=action.template.labels,
        gang=action.gang,
        ordered_ms=now_ms,
        gated=action.template.is_gated,
    )
    return Arrival(at_ms=now_ms, pods=pods, lifetime_ms=action.step.runs_for_ms)


@asynccontextmanager
async def in_process(
    plan: Plan, folder: Path, placements: int, config: dict[str, Any], sim: SimConfig
) -> AsyncIterator[InProcess]:
    """Yield a target on fresh journals in `folder`, when every service knows the nodes."""
    world = World(name=plan.name, nodes=plan.nodes, arrivals=(), objects=plan.objects)
    cluster = SimCluster(world, sim)
    with embedded_bus("sqlite", folder / "journals.db") as client:
        mesh = Mesh(
            client,
            DirectorySnapshots(folder / "snapshots"),
            cluster,
            placements=placements,
            config=config,
            policy=SnapshotPolicy(every_ms=SNAPSHOT_MS),
        )
        journals = all_journals(placements)
        serving = asyncio.create_task(mesh.serve(journals))
        try:
            while len(mesh.owners()) < len(journals) or not nodes_known(mesh):
                check_mesh(serving)
                await asyncio.sleep(LOOK_S)
            gc.freeze()
            yield InProcess(cluster, serving, client(""))
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
