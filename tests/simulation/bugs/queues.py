"""Bugs in queues: found by the checker in worlds with queues."""

from tests.simulation.planted import Bug

MAX = ("queue-max",)
FIRST = ("guarantee-first",)
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
        first=(3,),
    ),
    Bug(
        "borrowers-go-by-priority",
        "services.queueing.core.scheduling_queue",
        ("not claiming_queue(state, free)", "True"),
        by=FIRST,
        first=(1,),
    ),
    Bug(
        "batch-larger-than-the-guarantee-of-its-queue",
        "services.queueing.core.scheduling_queue",
        ("claimed or limit", "limit"),
        by=FIRST,
        first=(4,),
    ),
    Bug(
        "what-used-up-its-guarantee-still-claims",
        "services.queueing.core.pods.priority_index",
        ("if lane != mask:", "if lane != mask and lane >> len(state.shards) == CLAIMS:"),
        by=FIRST,
        first=(4,),
    ),
    Bug(
        "guarantee-of-the-queue-above-counts-first",
        "services.queueing.core.queues.quota",
        ("for one in reversed(chain) for resource", "for one in chain for resource"),
        by=FIRST,
        first=(4,),
    ),
    Bug(
        "what-is-kept-for-guarantees-is-borrowed",
        "services.queueing.core.queues.quota",
        ("if resource in self._kept_below.get(name, {}) and not but_nominated:", "if False:"),
        by=("guarantee-kept",),
        first=(2,),
    ),
)
