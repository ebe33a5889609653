"""Bugs in what preemptors take from other queues: found by the checker in worlds that reclaim."""

from tests.simulation.planted import Bug

KEPT, WITHIN = ("guarantee-kept",), ("claim-within-guarantee",)
LIMITS = "shared.model.preemption.queue_limits"
IN_RECLAIMS = (
    Bug(
        "taken-from-a-queue-below-its-guarantee",
        LIMITS,
        ("            if any(used.get", "            if False and any(used.get"),
        by=KEPT,
        first=(1,),
    ),
    Bug(
        "claims-more-than-its-guarantee",
        "services.queueing.core.preemption.asks",
        ("quota.claims(sig.queue, sig.amounts, also)", "quota.may_claim(sig.queue)"),
        by=WITHIN,
        first=(0,),
    ),
    Bug(
        "leaving-victims-counted-as-used",
        "services.preemption.core.queue_use",
        ("for pod in state.taken():", "for pod in ():"),
        by=KEPT,
        first=(4,),
    ),
    Bug(
        "only-the-lowest-queue-keeps-its-guarantee",
        LIMITS,
        ("for name in self._below(queue):", "for name in self._below(queue)[:1]:"),
        by=KEPT,
        first=(4,),
    ),
    Bug(
        "equal-pods-claim-the-same-guarantee",
        "services.queueing.core.preemption.asks",
        ("            quota.add(also, sig.queue, sig.amounts, 1)\n", ""),
        by=WITHIN,
        first=(0,),
    ),
    Bug(
        "ready-pods-with-victims-do-not-claim",
        "services.queueing.core.preemption.asks",
        ("quota.add(also, other.queue, other.amounts, 1)", "pass"),
        by=WITHIN,
        first=(10,),
    ),
    Bug(
        "place-not-kept-from-other-queues",
        "services.placement.core.preemption.nominations",
        ("spec.priority >= priority or keeps", "spec.priority >= priority"),
        by=("nominated-space",),
        first=(1,),
    ),
)
