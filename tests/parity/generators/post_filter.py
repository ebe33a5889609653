"""Cases for PostFilter's own rules: terminating pods and their reasons, nominated pods, evictions
that budgets have counted, profiles without preemption. `case(seed)` is the case of that seed of
preemption.py, changed.
"""

from random import Random

from tests.parity.generators import preemption
from tests.parity.generators.case_builder import Object

TARGET, PREEMPTED = "DisruptionTarget", "PreemptionByScheduler"
READY = {"type": "Ready", "status": "True"}
CONDITIONS: tuple[list[Object], ...] = (
    [{"type": TARGET, "status": "True", "reason": PREEMPTED}],
    [READY, {"type": TARGET, "status": "True", "reason": PREEMPTED}],
    [{"type": TARGET, "status": "False", "reason": PREEMPTED}],
    [{"type": TARGET, "status": "True", "reason": "EvictionByEvictionAPI"}],
    [READY],
    [],
)


def case(seed: int) -> Object:
    """One case, with "preempt" set."""
    draw = Random(f"postfilter {seed}")
    found = preemption.case(seed)
    nodes = [one["metadata"]["name"] for one in found["objects"] if one["kind"] == "Node"]
    placed = [one for one in found["objects"] if "nodeName" in one.get("spec", {})]
    often = draw.choice((0.1, 0.5))
    for one in placed:
        if draw.random() < often:
            one["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z"
        if draw.random() < 2 * often:  # not everybody who is told to go has gone
            one["status"]["conditions"] = draw.choice(CONDITIONS)
    if draw.random() < 0.3:
        draw.choice(placed)["status"].pop("startTime")
    _not_started(Random(f"starts {seed}"), placed)
    for one in found["objects"]:
        if one["kind"] == "PodDisruptionBudget" and draw.random() < 0.5:
            known = draw.sample(placed, min(2, len(placed)))
            names = [pod["metadata"]["name"] for pod in known]
            one["status"]["disruptedPods"] = dict.fromkeys(names, "2026-01-02T05:00:00Z")
    for one in found["pods"]:
        if draw.random() < 0.6:
            one["status"]["nominatedNodeName"] = draw.choice([*nodes, *nodes, "gone"])
        if draw.random() < 0.1:
            one["spec"].setdefault("affinity", {})["nodeAffinity"] = _named(draw, nodes)
    if draw.random() < 0.1:
        found["config"] = _without_preemption()
    if any("topologySpreadConstraints" in one["spec"] for one in found["pods"]):
        # kube-scheduler takes pods off that it had not counted (docs/reference/differences.md).
        for one in placed:
            one["metadata"].pop("deletionTimestamp", None)
    return found


def _not_started(draw: Random, placed: list[Object]) -> None:
    """One pod of some nodes: of two on one node it is chance which counts as older."""
    seen: set[str] = set()
    for one in placed:
        node = one["spec"]["nodeName"]
        is_first = node not in seen and all(
            "startTime" in other["status"] for other in placed if other["spec"]["nodeName"] == node
        )
        seen.add(node)
        if is_first and draw.random() < 0.3:
            del one["status"]["startTime"]


def _named(draw: Random, nodes: list[str]) -> Object:
    chosen = draw.sample(nodes, draw.randint(1, len(nodes)))
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [one]}]}
        for one in chosen
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _without_preemption() -> Object:
    """Return a configuration without DefaultPreemption."""
    off = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": off}],
    }
