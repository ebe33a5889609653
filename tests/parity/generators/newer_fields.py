"""Cases with fields that only newer releases read: features that nodes declare and pods need, CSI
drivers that must be there, resources that a pod has as a whole, a node that a pod names next to
affinity, and tolerations that compare numbers. `case(seed)` is a case of the seed of another kind,
changed.
"""

from random import Random

from tests.parity.generators import cases, resized_pods, rules, volumes
from tests.parity.generators.case_builder import Object
from tests.parity.generators.configs import configured

RESTARTS = "RestartAllContainersOnContainerExits"
FEATURES = (RESTARTS, "InPlacePodLevelResourcesVerticalScaling", "ExtendWebSocketsToKubelet")
LEVEL = "example.com/level"
LEVELS = ("", "0", "1", "5", "9", "10", "010", "1e1", str((1 << 63) - 1), str(1 << 63))
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


def case(seed: int) -> Object:
    """One case, the same on every machine."""
    draw = Random(f"newer {seed}")
    found = draw.choice((cases.case, configured, resized_pods.case, volumes.case))(seed)
    nodes = [one for one in found["objects"] if one["kind"] == "Node"]
    for node in nodes:
        if draw.random() < 0.8:
            declared = draw.sample(FEATURES, draw.randint(0, len(FEATURES)))
            node["status"]["declaredFeatures"] = sorted(declared)
    for pod in found["pods"]:
        if draw.random() < 0.5:
            container = draw.choice(pod["spec"]["containers"])
            container |= {"restartPolicy": "Never", "restartPolicyRules": [RULE]}
        if draw.random() < 0.2:
            _name_node(draw, pod["spec"], [node["metadata"]["name"] for node in nodes])
    _compare_taints(Random(f"levels {seed}"), nodes, found["pods"])
    # Of one driver only: kube-scheduler names any of several that are missing.
    drivers = [one for one in found["objects"] if one["kind"] == "CSIDriver"]
    if drivers and draw.random() < 0.8:
        needed = draw.random() < 0.8
        draw.choice(drivers)["spec"]["preventPodSchedulingIfMissing"] = needed
    for one in found["objects"]:
        if one["kind"] == "Pod" and "nodeName" in one["spec"] and draw.random() < 0.5:
            _resize_whole(draw, one)
    return found


def _name_node(draw: Random, spec: Object, names: list[str]) -> None:
    """Name a node, and perhaps some others in the required affinity."""
    spec["nodeName"] = draw.choice(names)
    if draw.random() < 0.7:
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in draw.sample(names, draw.randint(1, min(2, len(names))))
        ]
        required = {"nodeSelectorTerms": terms}
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required


def _compare_taints(draw: Random, nodes: list[Object], pods: list[Object]) -> None:
    """Taints with numbers and what is none, and tolerations of those above or below a number."""
    if draw.random() < 0.6:
        return
    effects = (rules.HARD, rules.SOFT, rules.PREFER)
    for node in rules.some(draw, nodes):
        taints = node.setdefault("spec", {}).setdefault("taints", [])
        for effect in draw.sample(effects, draw.choice((1, 1, 2))):
            taints.append({"key": LEVEL, "effect": effect, "value": draw.choice(LEVELS)})
    for pod in pods:
        for _ in range(draw.choice((0, 1, 1, 2))):
            rule = {"key": LEVEL, "operator": draw.choice(("Gt", "Lt"))}
            rule["value"] = draw.choice(("-9", "0", "1", "8", "9", str((1 << 63) - 1)))
            rule["effect"] = draw.choice(("", *effects))
            pod["spec"].setdefault("tolerations", []).append(rule)


def _resize_whole(draw: Random, pod: Object) -> None:
    """Give an assigned pod the status that kubelets of 1.36 and later write."""
    spec, status = pod["spec"], pod["status"]

    def amounts() -> Object:
        made: Object = {}
        if draw.random() < 0.8:
            made["cpu"] = draw.choice(("0", "50m", "333m", "1", "2500m"))
        if draw.random() < 0.7:
            made["memory"] = draw.choice(("0", "64Mi", "300M", "1Gi", "3Gi"))
        return made

    if "resources" not in spec and draw.random() < 0.5:
        spec["resources"] = {"requests": amounts()}
    if draw.random() < 0.9:
        status["resources"] = {"requests": amounts()}
    if draw.random() < 0.8:
        status["allocatedResources"] = amounts()
