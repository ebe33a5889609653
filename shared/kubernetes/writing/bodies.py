"""The bodies of what is written to a live API. Each names the pod's uid, so that no other pod of
the name is ever changed.
"""

import time

import msgspec

from shared.ports.cluster import BindRequest, PodRef

NO_CANDIDATE = "preemption: 0/"

_encode = msgspec.json.Encoder().encode


def binding(request: BindRequest) -> bytes:
    """Names and uids need no escaping in JSON: their alphabets have nothing to escape."""
    return (
        f'{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{request.name}",'
        f'"uid":"{request.uid}","resourceVersion":"{request.revision}"}},'
        f'"target":{{"apiVersion":"v1","kind":"Node","name":"{request.node}"}}}}'
    ).encode()


def _condition(ref: PodRef, condition: dict[str, object], **more: object) -> bytes:
    """A patch of one condition, for this very pod."""
    status = {"conditions": [condition], **more}
    return _encode({"metadata": {"uid": ref.uid}, "status": status})


def unscheduled(
    ref: PodRef, reason: str, message: str, later_s: int, is_first: bool = True
) -> bytes:
    """Why a pod waits (`is_first`: since now); where no victims would help it is nominated nowhere
    any more.
    """
    now_s = time.time()
    condition: dict[str, object] = {
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": _stamp(now_s + later_s),
    }
    if is_first:
        condition["lastTransitionTime"] = _stamp(now_s)
    if NO_CANDIDATE in message:
        return _condition(ref, condition, nominatedNodeName=None)
    return _condition(ref, condition)


def scheduled(ref: PodRef) -> bytes:
    """It has a node after all."""
    now = _stamp(time.time())
    condition: dict[str, object] = {"type": "PodScheduled", "status": "True"}
    return _condition(
        ref, {**condition, "reason": None, "message": None, "lastTransitionTime": now}
    )


def nomination(ref: PodRef, node: str) -> bytes:
    """Where the pod will go once its victims have left."""
    return _encode({"metadata": {"uid": ref.uid}, "status": {"nominatedNodeName": node}})


def deletion(ref: PodRef) -> bytes:
    """Delete this very pod, with its own grace period."""
    return _encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": ref.uid}})


def disruption(ref: PodRef, scheduler: str) -> bytes:
    """Why a victim goes."""
    return _condition(
        ref,
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            "lastTransitionTime": _stamp(time.time()),
        },
    )


def _stamp(time_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_s))
