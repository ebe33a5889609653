"""A shard to test: events in, decided events out, every invariant checked on the way."""

from typing import Any, Self

import numpy as np

from services.placement.core.core import PlacementCore
from services.placement.core.state import PlacementState
from shared.events.base import Configured, Event
from shared.events.ingest import NodesGone, NodesSet, PodsAssigned, PodsGone, SignatureDefined
from shared.events.placement import Refused, Reserved, ShardDigest
from shared.events.queueing import Dispatched
from shared.model.columns import pack, unpack
from shared.model.objects import CPU, MEMORY, GpuRequest, Node, PodSpec
from tests.support.builders import model_node
from tests.support.steps import Steps

GIB = 1 << 30


def node(uid: str, cpu: int = 4_000, memory: int = 16 * GIB, pods: int = 110, **more: Any) -> Node:
    return model_node(uid).capacity(cpu=cpu, memory=memory, pods=pods).fields(**more).obj()


def spec(cpu: int = 1_000, memory: int = GIB, gpu: tuple[int, int] | None = None, **more: Any):
    requests = tuple((name, value) for name, value in ((CPU, cpu), (MEMORY, memory)) if value)
    wanted = GpuRequest(milli=gpu[0], count=gpu[1]) if gpu else None
    return PodSpec(
        requests=requests, nonzero_cpu_milli=cpu, nonzero_memory_bytes=memory, gpu=wanted, **more
    )


class Shard(Steps[PlacementState]):
    """Drives one shard. `sig`, `nodes`, `assigned` and the like give it a common input each."""

    def __init__(self, shard: int = 0, placements: int = 1, **config: Any) -> None:
        """Start a shard; `config` are options of placement."""
        super().__init__(PlacementCore(shard, placements))
        self.shard, self.attempts = shard, 0
        if config:
            self.given(Configured({"placement": config}))

    def nodes(self, *ids_and_nodes: Any) -> Self:
        ids = [n for n in ids_and_nodes if isinstance(n, int)]
        nodes = tuple(n for n in ids_and_nodes if isinstance(n, Node))
        return self.given(NodesSet(self.shard, pack(ids), nodes))

    def sig(self, number: int, spec: PodSpec) -> Self:
        return self.given(SignatureDefined(number, spec))

    def dispatch(
        self, sig: int, *pods: int, attempt: int = 0, urgent: bool = False, **more: bool
    ) -> Self:
        self.attempts = attempt or self.attempts + 1
        return self.given(Dispatched(self.attempts, self.shard, sig, pack(pods), urgent, **more))

    def assigned(self, *triples: tuple[int, int, int]) -> Self:
        ids, sigs, nodes = (pack(column) for column in zip(*triples, strict=True))
        return self.given(PodsAssigned(self.shard, ids, sigs, nodes))

    def gone(self, *pods: int) -> Self:
        return self.given(PodsGone(pack(pods)))

    def nodes_gone(self, *nodes: int) -> Self:
        return self.given(NodesGone(self.shard, pack(nodes)))

    def run(self) -> list[Event]:
        """Step until no work is due; return what was decided, without digests."""
        found: list[Event] = []
        for _ in range(1_000):
            found += self.when()
            due_ms = self.core.due_ms(self.state)
            if due_ms is None or due_ms > self.state.now_ms:
                return [event for event in found if not isinstance(event, ShardDigest)]
        raise AssertionError("the shard never comes to rest")


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
