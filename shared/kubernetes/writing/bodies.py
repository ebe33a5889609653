"""Request bodies for a live API. Each names the pod's uid, so that another pod with the same name
is never changed.
"""

import time

import msgspec

from shared.ports.cluster import BindRequest, PodRef

NO_CANDIDATE = "preemption: 0/"

_encode = msgspec.json.Encoder().encode


def binding(request: BindRequest) -> bytes:
    """Return the body of a binding. Names and uids contain nothing that JSON escapes."""
    return (
        f'{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{request.name}",'
        f'"uid":"{request.uid}","resourceVersion":"{request.revision}"}},'
        f'"target":{{"apiVersion":"v1","kind":"Node","name":"{request.node}"}}}}'
    ).encode()


def _condition(ref: PodRef, condition: dict[str, object], **more: object) -> bytes:
    """Return a patch of one condition of the pod with this uid."""
    status = {"conditions": [condition], **more}
    return _encode({"metadata": {"uid": ref.uid}, "status": status})


def unscheduled(
    ref: PodRef, reason: str, message: str, later_s: int, is_first: bool = True
) -> bytes:
    """Return a patch that says why a pod waits (`is_first`: since now). A pod that preemption
    cannot help loses its nomination.
    """
    now_s = time.time()
    condition: dict[str, object] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": stamp(now_s + later_s),
    }
    if is_first:
        condition["lastTransitionTime"] = stamp(now_s)
    if NO_CANDIDATE in message:
        return _condition(ref, condition, nominatedNodeName=None)
    return _condition(ref, condition)


def scheduled(ref: PodRef) -> bytes:
    """Return a patch that says that the pod is scheduled."""
    now = stamp(time.time())
    condition: dict[str, object] = {"type": "PodScheduled", "status": "True"}
    return _condition(
        ref, {**condition, "reason": None, "message": None, "lastTransitionTime": now}
    )


def nomination(ref: PodRef, node: str) -> bytes:
    """Return a patch with the node on which the pod is nominated."""
    return _encode({"metadata": {"uid": ref.uid}, "status": {"nominatedNodeName": node}})


def deletion(ref: PodRef) -> bytes:
    """Return the options that delete the pod with this uid, with its own grace period."""
    return _encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": ref.uid}})


def disruption(ref: PodRef, scheduler: str) -> bytes:
    """Return a patch that says why a victim is evicted."""
    why = "preempting to accommodate a higher priority pod"
    if ref.claimed_for:
        why = f"preempting to give queue {ref.claimed_for} its guarantee"
    if ref.is_below_minimum:
        why = "fewer pods of its group run than its minimum"
    return _condition(
        ref,
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: {why}",
            "lastTransitionTime": stamp(time.time()),
        },
    )


def stamp(time_s: float) -> str:
    """Return a time in seconds as an API server writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_s))
