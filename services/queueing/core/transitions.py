"""The legal life of a pending pod, as data: the core runs on it and the docs draw it.

An event that is not listed for a state is a defect: the core stops with the pod's story. Late and
duplicated facts are sorted out before they get here.
"""

from enum import IntEnum


class Pod(IntEnum):
    """Where a pod stands in the queue."""

    UNKNOWN = 0  # never seen pending
    GATED = 1  # has scheduling gates, or a plugin of a user holds it back
    READY = 2  # in its signature's queue
    IN_FLIGHT = 3  # in an open attempt at a shard
    LEFT = 4  # refused by a shard, to be tried at another
    PARKED = 5  # refused by every shard
    ASKING = 6  # parked, preemption looks for victims
    PREEMPTING = 7  # parked, victims are leaving: nobody asks for it, but it may go elsewhere
    NOMINATED = 8  # the victims are gone, to be tried at the nominating shard
    BACKOFF = 9  # waits for its backoff to end, or refused by a permit plugin of a user
    WAITING = 10  # member of a gang that is not being tried
    TRYING = 11  # member of a gang that permit is trying
    RESERVED = 12  # has a node, not known to be bound
    BOUND = 13  # has its node for good (ours or foreign)
    GONE = 14  # does not exist any more


_RULES: tuple[tuple[str, Pod, tuple[Pod, ...]], ...] = (
    (
        "gated",
        Pod.GATED,
        (
            *(Pod.UNKNOWN, Pod.READY, Pod.IN_FLIGHT, Pod.LEFT, Pod.PARKED, Pod.ASKING),
            *(Pod.PREEMPTING, Pod.BACKOFF, Pod.WAITING, Pod.TRYING),
        ),
    ),
    (
        "queued",
        Pod.READY,
        (
            *(Pod.UNKNOWN, Pod.GATED, Pod.READY, Pod.IN_FLIGHT, Pod.LEFT, Pod.PARKED),
            *(Pod.ASKING, Pod.PREEMPTING, Pod.BACKOFF, Pod.WAITING, Pod.TRYING),
        ),
    ),
    (
        "waits",
        Pod.WAITING,
        (
            *(Pod.UNKNOWN, Pod.GATED, Pod.READY, Pod.IN_FLIGHT, Pod.LEFT, Pod.PARKED),
            *(Pod.ASKING, Pod.PREEMPTING, Pod.BACKOFF, Pod.WAITING, Pod.TRYING),
        ),
    ),
    ("dispatched", Pod.IN_FLIGHT, (Pod.READY, Pod.LEFT, Pod.NOMINATED)),
    ("reserved", Pod.RESERVED, (Pod.IN_FLIGHT,)),
    ("refused", Pod.LEFT, (Pod.IN_FLIGHT,)),
    ("parked", Pod.PARKED, (Pod.READY, Pod.LEFT)),
    ("woken", Pod.READY, (Pod.PARKED, Pod.PREEMPTING, Pod.BACKOFF)),
    (
        "delayed",
        Pod.BACKOFF,
        (
            *(Pod.PARKED, Pod.PREEMPTING, Pod.ASKING, Pod.IN_FLIGHT, Pod.TRYING, Pod.RESERVED),
            Pod.BACKOFF,
        ),
    ),
    ("activated", Pod.READY, (Pod.BACKOFF,)),
    ("preempt_asked", Pod.ASKING, (Pod.PARKED,)),
    ("preemption_opened", Pod.PREEMPTING, (Pod.ASKING,)),
    ("victims_leaving", Pod.PREEMPTING, (Pod.READY, Pod.LEFT)),
    ("preemption_closed", Pod.PARKED, (Pod.ASKING,)),
    (
        "nomination_ready",
        Pod.NOMINATED,
        (Pod.ASKING, Pod.PREEMPTING, Pod.PARKED, Pod.BACKOFF, Pod.READY, Pod.LEFT),
    ),
    ("gang_dispatched", Pod.TRYING, (Pod.WAITING,)),
    ("gang_committed", Pod.RESERVED, (Pod.TRYING,)),
    ("bound", Pod.BOUND, tuple(state for state in Pod if state is not Pod.GONE)),
    ("gone", Pod.GONE, tuple(Pod)),
)

TRANSITIONS: dict[tuple[Pod, str], Pod] = {
    (source, event): target for event, target, sources in _RULES for source in sources
}
"""(state, event) -> next state; everything else is illegal."""
