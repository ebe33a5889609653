"""A shard to test: events in, decided events out, every invariant checked on the way."""

from typing import Any

import msgspec
import numpy as np

from services.placement.core.core import PlacementCore, PlacementState
from shared.events.base import Event
from shared.events.ingest import NodesGone, NodesSet, PodsAssigned, PodsGone, SignatureDefined
from shared.events.placement import Refused, Reserved, ShardDigest
from shared.events.queueing import Dispatched
from shared.machine.core import step
from shared.model.columns import pack, unpack
from shared.model.objects import CPU, MEMORY, PODS, GpuRequest, Node, PodSpec

GIB = 1 << 30


def node(uid: str, cpu: int = 4_000, memory: int = 16 * GIB, pods: int = 110, **more: Any) -> Node:
    allocatable = ((CPU, cpu), (MEMORY, memory), (PODS, pods))
    return Node(uid=uid, name=uid, allocatable=allocatable, **more)


def spec(cpu: int = 1_000, memory: int = GIB, gpu: tuple[int, int] | None = None, **more: Any):
    requests = tuple((name, value) for name, value in ((CPU, cpu), (MEMORY, memory)) if value)
    wanted = GpuRequest(milli=gpu[0], count=gpu[1]) if gpu else None
    return PodSpec(
        requests=requests, nonzero_cpu_milli=cpu, nonzero_memory_bytes=memory, gpu=wanted, **more
    )


class Shard:
    """One shard and what it decided; `now_ms` moves by hand."""

    def __init__(self, shard: int = 0, placements: int = 1, **config: Any) -> None:
        self.core = PlacementCore(shard, placements)
        self.state: PlacementState = self.core.new()
        if config:
            from shared.events.base import Configured

            self.give(Configured({"placement": config}))
        self.attempts = 0

    def give(self, *events: Event) -> "Shard":
        for event in events:
            self.core.evolve(self.state, event)
        return self

    def nodes(self, *ids_and_nodes: Any) -> "Shard":
        ids = [n for n in ids_and_nodes if isinstance(n, int)]
        nodes = tuple(n for n in ids_and_nodes if isinstance(n, Node))
        return self.give(NodesSet(self.core.shard, pack(ids), nodes))

    def sig(self, number: int, spec: PodSpec) -> "Shard":
        return self.give(SignatureDefined(number, spec))

    def dispatch(self, sig: int, *pods: int, attempt: int = 0, urgent: bool = False) -> "Shard":
        self.attempts = attempt or self.attempts + 1
        return self.give(Dispatched(self.attempts, self.core.shard, sig, pack(pods), urgent))

    def assigned(self, *triples: tuple[int, int, int]) -> "Shard":
        ids, sigs, nodes = (pack(column) for column in zip(*triples, strict=True))
        return self.give(PodsAssigned(self.core.shard, ids, sigs, nodes))

    def gone(self, *pods: int) -> "Shard":
        return self.give(PodsGone(pack(pods)))

    def nodes_gone(self, *nodes: int) -> "Shard":
        return self.give(NodesGone(self.core.shard, pack(nodes)))

    def run(self) -> list[Event]:
        """Decide until nothing is left; digests are left out, invariants are checked."""
        found: list[Event] = []
        for _ in range(1_000):
            found += step(self.core, self.state)
            self.core.check(self.state)
            due_ms = self.core.due_ms(self.state)
            if due_ms is None or due_ms > self.state.now_ms:
                return [event for event in found if not isinstance(event, ShardDigest)]
        raise AssertionError("the shard never comes to rest")

    def reload(self) -> "Shard":
        """Go on from what a snapshot would hold."""
        body = wire(self.core.dump(self.state))
        twin = self.core.load(msgspec.msgpack.decode(body))
        twin.now_ms, twin.cursors = self.state.now_ms, self.state.cursors
        assert wire(self.core.dump(twin)) == body
        self.state = twin
        return self


_encoder = msgspec.msgpack.Encoder(order="deterministic")


def wire(value: Any) -> bytes:
    return _encoder.encode(value)


def placed(events: list[Event]) -> list[tuple[int, int]]:
    """(pod, node) of every reservation."""
    return [
        (int(pod), int(node))
        for event in events
        if isinstance(event, Reserved)
        for pod, node in zip(unpack(event.ids), unpack(event.nodes), strict=True)
    ]


def refused(events: list[Event]) -> list[int]:
    """Pods refused, in order."""
    ids = [unpack(event.ids) for event in events if isinstance(event, Refused)]
    return np.concatenate(ids).tolist() if ids else []
