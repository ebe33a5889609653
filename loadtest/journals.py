"""The speed of a run from its journals: span and latencies. Times are the records' own."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from shared.events.base import Event
from shared.events.binding import Bound
from shared.events.ingest import PodsPending
from shared.events.permit import GangCommitted
from shared.events.preemption import EvictAsked
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.model.columns import I64, unpack
from shared.model.ids import BINDING, INGEST, PERMIT, PREEMPTION, JournalName
from shared.ports.bus import Bus


@dataclass
class Timing:
    """`span_s` from the first append with pods to the last `bound` outcome; `world_span_s` from the
    first append with anything, nodes as a rule; `latencies_ms` from each pod's intended arrival to
    the record of its outcome, sorted.
    """

    bound: int
    span_s: float
    world_span_s: float
    latencies_ms: I64

    def percentile_ms(self, part: float) -> int:
        """Return the latency that `part` (0..1) of the pods stay within; -1 without pods."""
        if not len(self.latencies_ms):
            return -1
        return int(
            self.latencies_ms[min(len(self.latencies_ms) - 1, int(len(self.latencies_ms) * part))]
        )


async def timing(bus: Bus, started_ms: int) -> Timing:
    """Read the world journal and binding's. `started_ms` is the wall time of the world's zero."""
    ordered: dict[int, int] = {}
    world_ms = first_ms = last_ms = -1
    async for time_ms, event in _events(bus, INGEST):
        world_ms = time_ms if world_ms < 0 else world_ms
        if isinstance(event, PodsPending):
            first_ms = time_ms if first_ms < 0 else first_ms
            ordered.update(dict.fromkeys(unpack(event.ids).tolist(), event.ordered_ms))
    bound: dict[int, int] = {}
    async for time_ms, event in _events(bus, BINDING):
        if isinstance(event, Bound):
            last_ms = time_ms
            for pod in unpack(event.ids).tolist():
                bound.setdefault(pod, time_ms)
    waits = [
        time_ms - started_ms - ordered[pod] for pod, time_ms in bound.items() if pod in ordered
    ]
    spans_s = ((last_ms - first_ms) / 1000, (last_ms - world_ms) / 1000)
    return Timing(len(bound), *spans_s, np.sort(np.array(waits, np.int64)))


async def gang_decisions(bus: Bus, started_ms: int) -> tuple[dict[int, int], dict[int, int]]:
    """Return the times from the intended arrival of gangs to the record that commits the last one,
    and to the one that asks for the last eviction for one, ms; by the time of their arrival.
    """
    ordered: dict[int, int] = {}
    async for _time_ms, event in _events(bus, INGEST):
        if isinstance(event, PodsPending):
            ordered.update(dict.fromkeys(unpack(event.ids).tolist(), event.ordered_ms))
    committed: dict[int, int] = {}
    async for time_ms, event in _events(bus, PERMIT):
        if isinstance(event, GangCommitted):
            at_ms = ordered[int(unpack(event.ids)[0])]
            committed[at_ms] = time_ms - started_ms - at_ms
    evicting: dict[int, int] = {}
    async for time_ms, event in _events(bus, PREEMPTION):
        if isinstance(event, EvictAsked):
            at_ms = ordered[event.pod]
            evicting[at_ms] = time_ms - started_ms - at_ms
    return committed, evicting


async def _events(bus: Bus, journal: JournalName) -> AsyncIterator[tuple[int, Event]]:
    """Yield (record's time, event) of every valid record."""
    async for position, record in Reader(journal, Cursor()).records(bus):
        for event in own_events(record, journal, position):
            yield record.time_ms, event
