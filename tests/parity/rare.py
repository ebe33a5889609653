"""Cases with what a pending pod seldom has: a node that it names itself (`spec.nodeName`), and
scheduling gates. `case(seed)` is a case of the seed of another kind, changed.
"""

from random import Random

from tests.parity import cases, preempting
from tests.parity.configs import configured
from tests.parity.draft import Object

GATES = ("example.com/quota", "example.com/audit", "wait")


def case(seed: int) -> Object:
    """One case, the same on every machine."""
    draw = Random(f"rare {seed}")
    found = draw.choice((cases.case, configured, preempting.case))(seed)
    nodes = [one["metadata"]["name"] for one in found["objects"] if one["kind"] == "Node"]
    for pod in found["pods"]:
        if draw.random() < 0.7:
            pod["spec"]["nodeName"] = draw.choice((*nodes, "gone"))
        if draw.random() < 0.4:
            gates = draw.sample(GATES, draw.randint(1, len(GATES)))
            pod["spec"]["schedulingGates"] = [{"name": name} for name in gates]
    return found
