"""A simulated cluster as the target of a flood."""

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import structs

from muster.flood.book import Seen
from muster.flood.plan import Action, AddNodes, AddPods, FailNodes, RemovePods
from muster.flood.read import pod_spec
from muster.flood.workload import COLUMN_PODS_MAX
from shared.events.observed import PodsSeen
from shared.model.columns import join
from shared.model.objects import MEMORY, PodSpec
from shared.model.world import Arrival
from shared.ports.bus import Bus
from shared.simulated.cluster import SimCluster
from shared.simulated.history import Kind

UID = "flood."
BINDS: tuple[Kind, ...] = ("bind", "late-bind")
WRITES: tuple[Kind, ...] = (*BINDS, "touch", "evict")
SETTLE_S = 0.3


class Simulated:
    """A simulated cluster and what schedules its pods; `reader` reads the journals."""

    def __init__(
        self,
        cluster: SimCluster,
        reader: Bus,
        check: Callable[[], None],
        used_s: Callable[[], float] = time.process_time,
    ) -> None:
        """Nothing comes before `start`. `check` raises the error that ended the scheduler, `used_s`
        returns the processor time used so far; the simulated cluster's is part of it.
        """
        self._cluster, self.reader, self._check, self._used_s = cluster, reader, check, used_s
        self._read = len(cluster.history)
        self._writes = 0
        self._nodes = {node.name: node.uid for node in cluster.nodes.values()}
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
        """See the port."""
        return self._used_s()

    def api_writes(self) -> int:
        """See the port."""
        return self._writes

    def seen(self) -> Seen:
        """See the port."""
        self._check()
        history = self._cluster.history
        bound: list[int] = []
        bound_ms: list[float] = []
        nodes: list[str] = []
        gone: list[int] = []
        for line in history[self._read :]:
            kind = line.kind
            if kind in BINDS:
                bound.append(int(line.uid[len(UID) :]))
                bound_ms.append(line.time_ms)
                nodes.append(line.node)
            elif kind == "delete":
                gone.append(int(line.uid[len(UID) :]))
            self._writes += kind in WRITES
        self._read = len(history)
        return Seen(bound, bound_ms, gone, nodes)

    async def settle(self) -> None:
        """See the port."""
        await asyncio.sleep(SETTLE_S)

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
                self._nodes[node.name] = node.uid
                cluster.set_node(node)
        else:
            assert isinstance(action, FailNodes)
            for name in action.names:
                if name in self._nodes:  # else it is still to come
                    cluster.remove_node(self._nodes.pop(name))


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
