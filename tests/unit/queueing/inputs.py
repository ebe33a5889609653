"""Inputs of the queueing tests: a core with signatures, answers of shards, readable logs."""

from typing import Any

from services.queueing.core.core import QueueingCore
from services.queueing.core.state import QueueingState
from shared.events.base import Configured, Event
from shared.events.binding import Bound
from shared.events.ingest import PodsPending, SignatureDefined
from shared.events.placement import Improved, Refused, Reserved, ShardDigest
from shared.events.queueing import Dispatched, GangDispatched
from shared.model.columns import pack, unpack
from shared.model.objects import PodSpec
from tests.support.steps import Steps

CPU = "Insufficient cpu"


def ids(event: Any) -> list[int]:
    found: list[int] = unpack(event.ids).tolist()
    return found


def queue(shards: int = 1, priorities: tuple[int, ...] = (0,), **options: Any) -> Any:
    """Return steps of a core in which signature k has the k-th priority and requests k
    milli cpu.
    """
    steps: Steps[QueueingState] = Steps(QueueingCore(shards))
    steps.at(1_000).given(Configured({"queueing": options}))
    for sig, priority in enumerate(priorities, start=1):
        spec = PodSpec(priority=priority, requests=(("cpu", sig),))
        steps.given(SignatureDefined(sig, spec))
    return steps


def pending(sig: int, *pods: int, gang: int = 0, gated: bool = False, key: str = "") -> PodsPending:
    return PodsPending(sig, pack(pods), gang, gated=gated, key=key)


def reserved(tried: Dispatched, *pods: int) -> Reserved:
    """Return the shard's answer for these pods (all if none is named)."""
    column = pack(pods) if pods else tried.ids
    return Reserved(tried.shard, tried.attempt, tried.sig, column, column, b"", 1, 0)


def refused(tried: Dispatched, *pods: int, nodes: int = 3, preemptible: bool = False) -> Refused:
    column = pack(pods) if pods else tried.ids
    reasons = ((CPU, nodes),) if nodes else ()
    return Refused(
        *(tried.shard, tried.attempt, tried.sig, column, reasons, nodes, 0),
        resolvable=nodes,
        preemptible=preemptible,
    )


def improved(shard: int, *sigs: int) -> Improved:
    return Improved(shard, pack(sigs), 0)


def digest(shard: int, cpu: int, nodes: int = 3) -> ShardDigest:
    return ShardDigest(shard, nodes, cpu, 1 << 40, 0)


def bound(*pods: int) -> Bound:
    return Bound(pack(pods), pack(pods))


def of_type(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def tried(events: list[Event]) -> list[Dispatched]:
    return of_type(events, Dispatched)


def tries(events: list[Event]) -> list[tuple[int, int, list[int]]]:
    """Return (shard, signature, pods) of every dispatch."""
    return [(event.shard, event.sig, ids(event)) for event in tried(events)]


def gang_tries(events: list[Event]) -> list[GangDispatched]:
    return of_type(events, GangDispatched)
