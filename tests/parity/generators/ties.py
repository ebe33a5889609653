"""Cases of preemption for rare paths: `case(seed)` is that of the seed of preemption.py, changed.
Either all nodes have pods of the same priorities and start times, so that the last rule of the
choice decides, or some nodes lack the zone by which pending pods are spread.
"""

from random import Random

from tests.parity.generators import preemption
from tests.parity.generators.case_builder import Object


def case(seed: int) -> Object:
    """One case, with "preempt" set."""
    draw, found = Random(f"ties {seed}"), preemption.case(seed)
    if draw.random() < 0.5:
        _same_starts(found)
    else:
        _without_zones(draw, found)
    return found


def _same_starts(found: Object) -> None:
    """Of the first pods of all nodes, of the second ones, and so on; no two of one node."""
    numbers: dict[str, int] = {}
    for one in found["objects"]:
        node = one["spec"].get("nodeName") if one["kind"] == "Pod" else None
        if node:
            second = numbers[node] = numbers.get(node, 0) + 1
            one["spec"]["priorityClassName"] = ("low", "usual", "high")[second % 3]
            one["status"]["startTime"] = f"2026-01-02T03:00:{second:02d}Z"


def _without_zones(draw: Random, found: Object) -> None:
    for one in found["objects"]:
        if one["kind"] == "Node":
            if draw.random() < 0.4:
                del one["metadata"]["labels"]["zone"]
            if draw.random() < 0.3:
                one["spec"]["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}]
    for one in found["pods"]:
        if draw.random() < 0.6:
            rule = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            rule["labelSelector"] = {"matchLabels": {"app": draw.choice(preemption.APPS)}}
            rule["nodeTaintsPolicy"] = draw.choice(("Honor", "Ignore"))
            one["spec"]["topologySpreadConstraints"] = [rule]
