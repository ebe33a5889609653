"""Cases with pods that are resized in place: `case(seed)` is that of the seed of cases.py or
preemption.py with container statuses that differ from the specs.
"""

from random import Random

from tests.parity.generators import cases, preemption
from tests.parity.generators.case_builder import Object

WAYS = ("not told", "not granted yet", "not done yet", "done", "less")


def case(seed: int) -> Object:
    """One case."""
    draw = Random(f"resized {seed}")
    found = preemption.case(seed) if draw.random() < 0.3 else cases.case(seed)
    for one in found["objects"]:
        if one["kind"] == "Pod" and "nodeName" in one["spec"] and draw.random() < 0.6:
            _resize(draw, one)
    return found


def _resize(draw: Random, pod: Object) -> None:
    spec, status = pod["spec"], pod["status"]
    for key, told in (
        ("containers", "containerStatuses"),
        ("initContainers", "initContainerStatuses"),
    ):
        found = [_told(draw, one) for one in spec.get(key, ()) if draw.random() < 0.8]
        if found:
            status[told] = found
    if draw.random() < 0.4:
        reason = draw.choice(("Infeasible", "Infeasible", "Deferred"))
        pending = {"type": "PodResizePending", "status": "True", "reason": reason}
        more = draw.choice(([], [pending | {"reason": "Deferred"}]))
        status["conditions"] = [*status.get("conditions", ()), pending, *more]


def _told(draw: Random, container: Object) -> Object:
    """Return a container's status; its cpu and memory may differ from the spec's."""
    asked = container.get("resources", {}).get("requests", {})
    other = {key: value for key, value in asked.items() if key not in ("cpu", "memory")}
    if draw.random() < 0.9:
        other["cpu"] = draw.choice(("0", "50m", "333m", "1", "2500m"))
    if draw.random() < 0.7:
        other["memory"] = draw.choice(("0", "64Mi", "300M", "1Gi", "3Gi"))
    found: Object = {"name": container["name"], "image": "i", "imageID": "", "ready": True}
    match draw.choice(WAYS):
        case "not granted yet":
            found |= {"resources": {"requests": asked}, "allocatedResources": asked}
        case "not done yet":
            found |= {"resources": {"requests": asked}, "allocatedResources": other}
        case "done":
            found |= {"resources": {"requests": other}, "allocatedResources": other}
        case "less":
            found |= {"resources": {"requests": other}, "allocatedResources": asked}
        case _:
            found |= {"allocatedResources": other}
    return found | {"restartCount": 0}
