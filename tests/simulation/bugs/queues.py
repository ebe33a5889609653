"""Bugs in queues: found by the checker in worlds with queues."""

from tests.simulation.planted import Bug

MAX = ("queue-max",)
IN_QUEUES = (
    Bug(
        "batch-larger-than-the-room-of-its-queue",
        "services.queueing.core.scheduling_queue",
        ("limit = min(limit, state.quota.room(", "limit = max(limit, state.quota.room("),
        by=MAX,
        first=(0,),
    ),
    Bug(
        "max-exceeded-by-a-gang",
        "services.queueing.core.queues.gang_members",
        ("fit = min(count, quota.room(", "fit = max(count, quota.room("),
        by=MAX,
        first=(0,),
    ),
    Bug(
        "reserved-pods-not-charged",
        "services.queueing.core.queues.charges",
        ("if code in USED:", "if code in USED and code != Pod.RESERVED:"),
        by=MAX,
        first=(0,),
    ),
    Bug(
        "queues-above-not-charged",
        "services.queueing.core.queues.quota",
        ("for one in chain)", "for one in chain[:1])"),
        by=MAX,
        first=(0,),
    ),
    Bug(
        "charge-kept-when-a-pod-is-gone",
        "services.queueing.core.queues.charges",
        ("number = charged.pop(pod, None)\n        if", "number = None\n        if"),
        by=("its charge",),
        first=(0,),
    ),
    Bug(
        "what-waits-not-looked-at-when-a-queue-is-freed",
        "services.queueing.core.queues.looks",
        ("for number in quota.held.pop(name, ()):", "for number in ():"),
        by=("queue-max", "no-pod-lost"),
        first=(1,),
    ),
)
