"""A small cluster and the whole mesh in virtual time: changes of the cluster, and the
pods' fates.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.app.virtual_time import SimClock, VirtualLoop, inline
from muster.cli.recorded_run import Recorded
from muster.metrics.collector import registry_with
from muster.metrics.follow import Followed
from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.base import Event
from shared.events.ingest import PodsNamed
from shared.events.observed import PodsSeen
from shared.events.placement import GangRefused, Refused
from shared.events.queueing import Confirmed, Parked, QuotaReached
from shared.extenders.port import Binders, ExtenderCalls
from shared.extenders.values import Extender
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.machine.runtime import Host
from shared.model.cluster_objects import ClusterObject
from shared.model.columns import join, split, unpack
from shared.model.ids import INGEST, QUEUEING, JournalName, placement
from shared.model.objects import CPU, Budget, Gang, Node, PodSpec
from shared.model.profile import Profile
from shared.model.world import Arrival, World
from shared.simulated.cluster import SimCluster
from shared.simulated.config import SimConfig
from shared.snapshots.memory import MemorySnapshots
from tests.support.builders import model_node

SETTLE_S = 30.0
GI = 1 << 30


def node(name: str, cpu_milli: int, **more: Any) -> Node:
    """Return a node with enough memory and pods."""
    builder = model_node(name, f"uid-{name}").capacity(cpu=cpu_milli, memory=64 * GI)
    return builder.fields(**more).obj()


class Scene:
    """Names are uids without their first letters. `mesh` is followed by `followed`."""

    def __init__(self, cluster: SimCluster, log: MemoryLog, mesh: Mesh, followed: Followed) -> None:
        self.cluster, self._log, self._placements = cluster, log, mesh.placements
        self._mesh, self._followed = mesh, followed
        self._specs: dict[str, PodSpec] = {}

    def pods(
        self,
        *names: str,
        cpu_milli: int,
        gang: str = "",
        gated: bool = False,
        of: tuple[tuple[str, str], ...] = (),
        **spec: Any,
    ):
        """Create identical pods with these labels."""
        made = PodSpec(requests=((CPU, cpu_milli),), nonzero_cpu_milli=cpu_milli, **spec)
        self._specs.update(dict.fromkeys(names, made))
        seen = PodsSeen(
            spec=made,
            uids=join(f"uid-{name}" for name in names),
            names=join(names),
            revisions=b"",
            gang=gang,
            gated=gated,
            labels=of,
        )
        self.cluster.create(Arrival(at_ms=self.cluster.now_ms(), pods=seen))

    def gang(self, key: str, min_count: int, timeout_ms: int = 300_000, **more: Any) -> None:
        """Add or change a pod group."""
        self.cluster.set_gangs([Gang(key=key, min_count=min_count, timeout_ms=timeout_ms, **more)])

    def budget(self, name: str, labels: tuple[tuple[str, str], ...], allowed: int) -> None:
        """Add a disruption budget."""
        found = Budget(
            uid=name, namespace="default", name=name, match_labels=labels, allowed=allowed
        )
        self.cluster._set_budget(found)

    def delete(self, *names: str) -> None:
        """Delete pods."""
        self.cluster.delete([f"uid-{name}" for name in names])

    def finish(self, *names: str) -> None:
        """Let pods finish."""
        self.cluster.delete([f"uid-{name}" for name in names], "finished")

    def ungate(self, *names: str) -> None:
        """Remove the pods' last gate."""
        self.cluster.ungate([f"uid-{name}" for name in names])

    def change(self, name: str, **spec: Any) -> None:
        """Change these fields of a pod's spec."""
        self.cluster.change(f"uid-{name}", replace(self._specs[name], **spec))

    async def settle(self, seconds: float = SETTLE_S) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def where(self, *names: str) -> list[str]:
        """Return the pods' nodes, empty for waiting ones."""
        return [self.cluster.pods[f"uid-{name}"].node for name in names]

    def running(self, *names: str) -> int:
        """Return how many of the pods have nodes."""
        return sum(map(bool, self.where(*names)))

    async def refusals(self) -> dict[str, int]:
        """Return how often a shard refused each pod or its gang."""
        known: dict[int, str] = {}
        found: dict[str, int] = {}
        async for event in self._events(INGEST):
            if isinstance(event, PodsNamed):
                known.update(zip(unpack(event.ids).tolist(), split(event.names), strict=True))
        for shard in range(self._placements):
            async for event in self._events(placement(shard)):
                if isinstance(event, Refused):
                    for pod in unpack(event.ids).tolist():
                        found[known[pod]] = found.get(known[pod], 0) + 1
                elif isinstance(event, GangRefused):
                    found["gangs"] = found.get("gangs", 0) + 1
        return found

    async def said(self, name: str) -> str:
        """Return the pod's last message."""
        number, message = 0, ""
        async for event in self._events(INGEST):
            if isinstance(event, PodsNamed) and name in split(event.names):
                number = int(unpack(event.ids)[split(event.names).index(name)])
        async for event in self._events(QUEUEING):
            if isinstance(event, Parked | Confirmed | QuotaReached) and number in unpack(event.ids):
                message = event.message
        return message

    def metric(self, name: str, **labels: str) -> float | None:
        """Return a metric's present value."""
        registry = registry_with(self._followed, self._mesh.owners)
        return registry.get_sample_value(name, labels)

    def lengths(self) -> dict[str, int]:
        """Return how many records each journal has."""
        names = all_journals(self._placements)
        return {name: len(self._log._journal(name).records) for name in names}

    def recorded(self, lengths: Mapping[str, int] = MappingProxyType({})) -> Recorded:
        """Return the journals up to now, or up to these lengths, as `muster why` reads them."""
        log = MemoryLog()
        for name in all_journals(self._placements):
            log._journal(name).records.extend(self._log._journal(name).records[: lengths.get(name)])
        return Recorded(MemoryBus(log), MemorySnapshots(), self._placements, "scene")

    async def count(self, journal: JournalName, kind: type[Event]) -> int:
        """Return how many events of a kind a journal has."""
        found = [isinstance(event, kind) async for event in self._events(journal)]
        return sum(found)

    async def _events(self, journal: JournalName):
        bus, reader = MemoryBus(self._log), Reader(journal, Cursor())
        async for position, record in reader.records(bus):
            for event in own_events(record, journal, position):
                yield event


def play(
    story: Callable[[Scene], Awaitable[None]],
    *nodes: Node,
    placements: int = 1,
    batch: bool = True,
    grace_ms: int = 0,
    profiles: Sequence[Profile] = (),
    ingest: Mapping[str, Any] | None = None,
    binding: Mapping[str, Any] | None = None,
    queueing: Mapping[str, Any] | None = None,
    extenders: Sequence[Extender] = (),
    binders: Binders | None = None,
    extender_calls: ExtenderCalls | None = None,
    objects: Sequence[ClusterObject] = (),
) -> None:
    """Play the scenario to the mesh; nothing is random, and an hour passes at once."""

    async def told() -> None:
        world = World(name="scene", nodes=nodes, arrivals=(), objects=tuple(objects))
        cluster, log = SimCluster(world, SimConfig(seed=1, grace_ms=grace_ms)), MemoryLog()
        loop = asyncio.get_running_loop()
        numbers = iter(range(1_000))
        followed = Followed()
        mesh = Mesh(
            bus_of=lambda _journal: MemoryBus(log),
            store=MemorySnapshots(),
            cluster=cluster,
            placements=placements,
            config={
                "placement": {
                    "batch": batch,
                    "profiles": to_builtins(profiles),
                    "extenders": to_builtins(extenders),
                },
                "ingest": to_builtins(ingest or {}),
                "binding": to_builtins(binding or {}),
                "queueing": to_builtins(queueing or {}),
            },
            binders=binders,
            extender_calls=extender_calls,
            host=Host(SimClock(loop), "scene", lambda: str(next(numbers)), inline),
            follow=followed.attach,
        )
        serving = asyncio.create_task(mesh.serve(all_journals(placements)))
        scene = Scene(cluster, log, mesh, followed)
        cluster.start()
        try:
            await scene.settle()
            await story(scene)
            if serving.done():
                serving.result()
        finally:
            cluster.stop()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    _run(told())


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(coroutine)
