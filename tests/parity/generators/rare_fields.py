"""Cases with rare fields of a pending pod: `spec.nodeName` and scheduling gates. `case(seed)` is a
case of the seed of another kind, changed.
"""

from random import Random

from tests.parity.generators import cases, preemption
from tests.parity.generators.case_builder import Object
from tests.parity.generators.configs import configured

GATES = ("example.com/quota", "example.com/audit", "wait")


def case(seed: int) -> Object:
    """One case, the same on every machine."""
    draw = Random(f"rare {seed}")
    found = draw.choice((cases.case, configured, preemption.case))(seed)
    nodes = [one["metadata"]["name"] for one in found["objects"] if one["kind"] == "Node"]
    for pod in found["pods"]:
        if draw.random() < 0.7:
            pod["spec"]["nodeName"] = draw.choice((*nodes, "gone"))
        if draw.random() < 0.4:
            gates = draw.sample(GATES, draw.randint(1, len(GATES)))
            pod["spec"]["schedulingGates"] = [{"name": name} for name in gates]
    return found
