"""When services take their turns, and the collector its: what latency and idle work depend on.

It decides nothing about pods; a mesh with other numbers decides the same, sooner or later.
"""

from dataclasses import dataclass
from typing import Any

from shared.machine.core import Core
from shared.machine.runtime import HEARTBEAT_MS, Rhythm
from shared.model.ids import service_of

SOON, LATER = 5, 20
LINGER_MS: dict[str, dict[str, int]] = {
    "queueing": {"binding": SOON},
    "placement": {"ingest": SOON, "binding": SOON},
    "permit": {"ingest": LATER, "queueing": 8, "placement": 8, "binding": LATER},
    "preemption": {"ingest": LATER, "queueing": 11, "placement": 11, "binding": LATER},
    "binding": {"ingest": SOON, "queueing": SOON},
}
"""By service and source: milliseconds that news may wait for company. What moves a pod on its way
never waits; what a service only follows does, for a turn per fact costs more than the fact. Permit
and preemption differ, or both would catch up in one round, and the pods of that round wait for it.
"""

ALERT = ("permit", "preemption")
"""They answer at once while a gate or an eviction is under way: others wait for the outcome."""

PACED = "ingest"
"""Pace (how far apart turns begin) is set where pods come in: the others follow it, and hold
nothing up at every hop. Who comes after a rest waits for nobody.
"""

ASKS = "binding"
"""It alone asks the cluster for something and waits for outcomes."""


@dataclass(frozen=True)
class Pace:
    """How far apart ingest's turns begin, and how long outcomes of requests wait for company."""

    turns_ms: int = 0
    outcomes_ms: int = 0


AT_ONCE = Pace()
"""Nobody waits for company."""

ONE_PROCESS = Pace(turns_ms=2, outcomes_ms=4)
"""A round of turns takes some 1.2 ms: begun back to back, rounds of two or three pods keep the
processor busy, and whatever holds the loop up leaves a queue behind it. Outcomes of binds go with
the next round and its commit; no pod waits for them.
"""

OVER_KAFKA = Pace(turns_ms=20)
"""Over Kafka a record costs each of its readers a fetch: the processor is the limit long before the
network is.
"""

KAFKA_GATHER_MS = {"permit": 40, "preemption": 40}
"""The pause between fetches of services that follow every pod and decide about few; the others'
is as the settings say.
"""

KAFKA_REST_MS: dict[str, dict[str, int]] = {
    "queueing": {"binding": 40},
    "placement": {"binding": 40},
    "binding": {"queueing": 40},
}
"""By service and source: how long a journal is left alone after it brought something. Only a pod
whose bind failed waits for what these say (what became of a bind, what a pod is to be told).
"""

BEHIND = {"queueing": 3, "placement": 6, "permit": 9, "preemption": 9, "binding": 9}
"""Turns of the loop: an append is read two turns later, so a pod goes through all services of a
process in one round, before the commit that they share.
"""

GC_THRESHOLDS = (1_000, 5, 4_000)
"""Full collections go through the whole state and hold the loop up for tens of milliseconds; what
the services leave behind in cycles (failed requests, mostly) is young when it dies. Young
collections are frequent because their pauses, not their sum, are what a pod waits for.
"""


ALONE_MS = 30_000
"""Heartbeats tell a standby that somebody lives. Where no other process can write there is none,
and a record every second of each journal would be all that an idle run writes.
"""


def rhythm(core: Core[Any], pace: Pace = AT_ONCE, is_alone: bool = False) -> Rhythm:
    """When the owner of a core takes its turns; `is_alone`: no other process can own anything."""
    service = service_of(core.journal)
    by_service = LINGER_MS.get(service, {})
    return Rhythm(
        pace_ms=pace.turns_ms if service == PACED else 0,
        linger_ms={name: by_service.get(service_of(name), 0) for name in core.sources},
        offers_ms=pace.outcomes_ms if service == ASKS else 0,
        is_alert=service in ALERT,
        behind=BEHIND.get(service, 0),
        heartbeat_ms=ALONE_MS if is_alone else HEARTBEAT_MS,
    )
