"""When services take their turns and when the garbage collector runs: the tuning of latency.

The numbers change no decision, only its time.
"""

from dataclasses import dataclass, replace
from typing import Any

from shared.machine.core import Core
from shared.machine.runtime import HEARTBEAT_MS, Rhythm
from shared.model.ids import service_of

SOON, LATER = 5, 20
LINGER_MS: dict[str, dict[str, int]] = {
    "queueing": {"binding": LATER},
    "placement": {"ingest": SOON, "binding": LATER},
    "permit": {"ingest": LATER, "queueing": 8, "placement": 8, "binding": LATER},
    "preemption": {"ingest": LATER, "queueing": 11, "placement": 11, "binding": LATER},
    "binding": {"ingest": SOON, "queueing": SOON},
}
"""(service, source) -> milliseconds that new records may wait so that more are read in one turn.

Records that move a pod never wait. Records that a service only follows do: a turn per fact costs
more than the fact. Permit and preemption differ so that they do not catch up in the same round.
"""

ALERT = ("permit", "preemption")
"""Services that answer at once while a permit wait or an eviction is open: others wait for them."""

PACED = "ingest"
"""Pace (the time between two turns) applies where pods enter; the other services follow and add no
delay of their own. A pod that comes after a rest does not wait.
"""

ASKS = "binding"
"""The only service that sends requests to the cluster and waits for their outcomes."""


@dataclass(frozen=True)
class Pace:
    """Milliseconds between ingest's turns, milliseconds that outcomes of requests are gathered, and
    the longest time an owner rests, ms.
    """

    turns_ms: int = 0
    outcomes_ms: int = 0
    rest_ms: int = HEARTBEAT_MS


AT_ONCE = Pace()
"""No turn waits for more input."""

ONE_PROCESS = Pace(turns_ms=2, outcomes_ms=4)
"""A round of turns takes about 1.2 ms. Back to back, rounds of two or three pods would keep the
processor busy, and every stall of the loop would leave a queue. Outcomes of binds go with the next
round and its commit; no pod waits for them.
"""

LIVE = replace(ONE_PROCESS, outcomes_ms=10)
"""On an API server a bind takes several milliseconds, so its outcome seldom comes with the round
that decided it: it goes with the round of the next pod.
"""

VIRTUAL = replace(ONE_PROCESS, rest_ms=3_600_000)
"""On virtual time a mesh may rest for hours between two pods of a trace; waking every second for
months would take longer than all decisions.
"""

OVER_KAFKA = Pace(turns_ms=20)
"""Over Kafka each record costs each of its readers a fetch: the processor is the limit before the
network.
"""

KAFKA_GATHER_MS = {"permit": 40, "preemption": 40}
"""Milliseconds between fetches of services that follow every pod but decide about few. The other
services use the settings.
"""

KAFKA_REST_MS: dict[str, dict[str, int]] = {
    "queueing": {"binding": 40},
    "placement": {"binding": 40},
    "binding": {"queueing": 40},
}
"""(service, source) -> milliseconds before a journal is read again after it had records. Only pods
whose bind failed wait for these (outcomes of binds, messages).
"""

BEHIND = {"queueing": 3, "placement": 6, "permit": 9, "preemption": 9, "binding": 9}
"""Turns of the event loop before a commit. An append is read two turns later, so a pod passes all
services of a process in one round, before their common commit.
"""

GC_THRESHOLDS = (1_000, 5, 4_000)
"""Garbage collection thresholds. A full collection walks the whole state and stalls the loop for
tens of milliseconds, and garbage in cycles (failed requests, mostly) dies young, so full
collections are rare. Young collections are frequent because the length of one pause, not the sum,
delays pods.
"""


ALONE_MS = 30_000
"""No heartbeats. They show a standby that the owner is alive; where no other process can write,
there is no standby, and an idle run would write nothing else.
"""


def rhythm(core: Core[Any], pace: Pace = AT_ONCE, is_alone: bool = False) -> Rhythm:
    """Return when the owner of a core takes its turns. `is_alone`: no other process can own a
    journal.
    """
    service = service_of(core.journal)
    by_service = LINGER_MS.get(service, {})
    return Rhythm(
        pace_ms=pace.turns_ms if service == PACED else 0,
        linger_ms={name: by_service.get(service_of(name), 0) for name in core.sources},
        submissions_ms=pace.outcomes_ms if service == ASKS else 0,
        is_alert=service in ALERT,
        behind=BEHIND.get(service, 0),
        heartbeat_ms=max(pace.rest_ms, ALONE_MS if is_alone else HEARTBEAT_MS),
        rest_ms=pace.rest_ms,
    )
