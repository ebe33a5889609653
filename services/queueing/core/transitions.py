"""The legal transitions of a pending pod, as data: the core runs on them, the docs draw them.

An event that is not listed for a state is a defect: the core stops with the pod's story. Late and
duplicate facts are filtered out before.
"""

from enum import IntEnum


class Pod(IntEnum):
    """The state of a pod in the queue."""

    UNKNOWN = 0  # never seen pending
    GATED = 1  # has scheduling gates, or a PreEnqueue plugin gates it
    READY = 2  # in its signature's queue
    IN_FLIGHT = 3  # in an open attempt at a shard
    LEFTOVER = 4  # refused by a shard, to be tried at another
    PARKED = 5  # refused by every shard
    ASKING = 6  # parked, preemption searches for victims
    PREEMPTING = 7  # parked, victims are leaving: it does not ask again, but may fit elsewhere
    NOMINATED = 8  # the victims have left, to be tried at that shard
    BACKOFF = 9  # waits for the end of its backoff, or for a Permit plugin's event
    GANG_PENDING = 10  # member of a gang that is not being tried
    GANG_IN_FLIGHT = 11  # member of a gang that permit is trying
    RESERVED = 12  # has a node, not known to be bound
    BOUND = 13  # has its node permanently (by us or others)
    GONE = 14  # deleted


_RULES: tuple[tuple[str, Pod, tuple[Pod, ...]], ...] = (
    (
        "gated",
        Pod.GATED,
        (
            *(Pod.UNKNOWN, Pod.READY, Pod.IN_FLIGHT, Pod.LEFTOVER, Pod.PARKED, Pod.ASKING),
            *(Pod.PREEMPTING, Pod.BACKOFF, Pod.GANG_PENDING, Pod.GANG_IN_FLIGHT),
        ),
    ),
    (
        "queued",
        Pod.READY,
        (
            *(Pod.UNKNOWN, Pod.GATED, Pod.READY, Pod.IN_FLIGHT, Pod.LEFTOVER, Pod.PARKED),
            *(Pod.ASKING, Pod.PREEMPTING, Pod.BACKOFF, Pod.GANG_PENDING, Pod.GANG_IN_FLIGHT),
        ),
    ),
    (
        "waits",
        Pod.GANG_PENDING,
        (
            *(Pod.UNKNOWN, Pod.GATED, Pod.READY, Pod.IN_FLIGHT, Pod.LEFTOVER, Pod.PARKED),
            *(Pod.ASKING, Pod.PREEMPTING, Pod.BACKOFF, Pod.GANG_PENDING, Pod.GANG_IN_FLIGHT),
            *(Pod.NOMINATED, Pod.RESERVED),
        ),
    ),
    ("dispatched", Pod.IN_FLIGHT, (Pod.READY, Pod.LEFTOVER, Pod.NOMINATED)),
    ("reserved", Pod.RESERVED, (Pod.IN_FLIGHT,)),
    ("refused", Pod.LEFTOVER, (Pod.IN_FLIGHT,)),
    ("parked", Pod.PARKED, (Pod.READY, Pod.LEFTOVER)),
    ("woken", Pod.READY, (Pod.PARKED, Pod.PREEMPTING, Pod.BACKOFF)),
    (
        "delayed",
        Pod.BACKOFF,
        (
            *(
                Pod.PARKED,
                Pod.PREEMPTING,
                Pod.ASKING,
                Pod.IN_FLIGHT,
                Pod.GANG_IN_FLIGHT,
                Pod.RESERVED,
            ),
            Pod.BACKOFF,
        ),
    ),
    ("activated", Pod.READY, (Pod.BACKOFF,)),
    ("preempt_asked", Pod.ASKING, (Pod.PARKED,)),
    ("preemption_opened", Pod.PREEMPTING, (Pod.ASKING,)),
    ("victims_leaving", Pod.PREEMPTING, (Pod.READY, Pod.LEFTOVER)),
    ("preemption_closed", Pod.PARKED, (Pod.ASKING,)),
    (
        "nomination_ready",
        Pod.NOMINATED,
        (Pod.ASKING, Pod.PREEMPTING, Pod.PARKED, Pod.BACKOFF, Pod.READY, Pod.LEFTOVER),
    ),
    ("gang_dispatched", Pod.GANG_IN_FLIGHT, (Pod.GANG_PENDING,)),
    ("gang_committed", Pod.RESERVED, (Pod.GANG_IN_FLIGHT,)),
    ("bound", Pod.BOUND, tuple(state for state in Pod if state is not Pod.GONE)),
    ("gone", Pod.GONE, tuple(Pod)),
)

TRANSITIONS: dict[tuple[Pod, str], Pod] = {
    (source, event): target for event, target, sources in _RULES for source in sources
}
"""(state, event) -> next state; everything else is illegal."""


DIAGRAMS = {"A pending pod in the queue": TRANSITIONS}
"""Title -> table, for docs/reference/transitions.md."""
