"""Cases that combine the features of several kinds. `case(seed)` is that of the seed of cases.py,
volumes.py or preemption.py with inter-pod rules, taints, nominated pods, huge pages of whole pods
and empty annotations added.
"""

import copy
from collections.abc import Callable
from random import Random

from tests.parity.generators import cases, inter_pod_rules, preemption, rules, volumes
from tests.parity.generators.case_builder import (
    ENDS_AT,
    HUGE_PAGE_BYTES,
    HUGE_PAGES,
    Draft,
    Node,
    Object,
    Pod,
)

NOTES = ("volume.kubernetes.io/selected-node", "volume.beta.kubernetes.io/storage-class")
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
FEATURES: tuple[Callable[[Random, Draft], None], ...] = (
    *(
        inter_pod_rules.hard_spread,
        inter_pod_rules.soft_spread,
        inter_pod_rules.pod_affinity,
        inter_pod_rules.pod_anti_affinity,
    ),
    *(inter_pod_rules.existing_anti_affinity, inter_pod_rules.pods_preferred),
    *(rules.hard_taints, rules.soft_taints, rules.tolerations),
)


def case(seed: int) -> Object:
    """One case, with "preempt" set in some."""
    draw = Random(f"together {seed}")
    found = draw.choice((cases.case, volumes.case, volumes.case, _preempting, preemption.case))(
        seed
    )
    view = _view(draw, found)
    _namespaces(draw, found)
    _nameless(Random(f"nameless {seed}"), found)
    _promise(draw, found, view)
    inter_pod_rules.labelled(draw, view)
    for feature in FEATURES:
        if draw.random() < 0.3:
            feature(draw, view)
    inter_pod_rules.selected_namespaces(draw, view)
    _everybody(draw, view)
    _write(found, view)
    if draw.random() < 0.4:
        _huge_pages(draw, found)
    if draw.random() < 0.4:
        _empty_notes(draw, found)
    _end(draw, found)
    if draw.random() < 0.03:
        _no_nodes(found)
    return found


def _preempting(seed: int) -> Object:
    return volumes.case(seed, preempt=True)


def _of(found: Object, kind: str) -> list[Object]:
    return [one for one in found["objects"] if one["kind"] == kind]


def _view(draw: Random, found: Object) -> Draft:
    """The case's nodes and pods as features take them: labels and specs are the case's own."""
    view = Draft()
    for node in _of(found, "Node"):
        name, labels = node["metadata"]["name"], node["metadata"].setdefault("labels", {})
        labels.setdefault(rules.ZONE, f"zone-{draw.choice('ab')}")
        labels.setdefault(rules.DISK, draw.choice(("ssd", "hdd")))
        view.nodes.append(Node(name, {}, labels, node["spec"].get("taints", [])))
    view.assigned += [_pod(one) for one in _of(found, "Pod") if "nodeName" in one["spec"]]
    view.pending += [_pod(one) for one in found["pods"]]
    return view


def _pod(one: Object) -> Pod:
    labels, spec = one["metadata"].setdefault("labels", {}), one["spec"]
    return Pod(one["metadata"]["name"], one["metadata"]["namespace"], spec=spec, labels=labels)


def _write(found: Object, view: Draft) -> None:
    for node, seen in zip(_of(found, "Node"), view.nodes, strict=True):
        if seen.taints:
            node["spec"]["taints"] = seen.taints


def _namespaces(draw: Random, found: Object) -> None:
    """With labels that selectors ask for and without; a few have no object at all."""
    known = {one["metadata"]["name"]: one for one in _of(found, "Namespace")}
    for name in ("default", "team", "team-a", "team-b"):
        labels = {"kubernetes.io/metadata.name": name}
        if draw.random() < 0.6:
            labels["team"] = draw.choice(("red", "blue", "green"))
        if name in known:
            known[name]["metadata"]["labels"] = labels
        elif draw.random() < 0.9:
            metadata = {"name": name, "labels": labels}
            found["objects"].append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def _nameless(draw: Random, found: Object) -> None:
    """Zones with an empty name, and budgets that select pods without a label."""
    if draw.random() < 0.3:
        for node in _of(found, "Node"):
            if draw.random() < 0.4:
                node["metadata"]["labels"][rules.ZONE] = ""
            elif draw.random() < 0.3:
                node["metadata"]["labels"].pop(rules.ZONE, None)
    for budget in _of(found, "PodDisruptionBudget"):
        if draw.random() < 0.3:
            rule = draw.choice(
                ({"operator": "DoesNotExist"}, {"operator": "NotIn", "values": ["web"]})
            )
            budget["spec"]["selector"] = {"matchExpressions": [{"key": "app", **rule}]}
    for pod in _of(found, "Pod"):
        if draw.random() < 0.1:
            pod["metadata"]["labels"] = {}


def _promise(draw: Random, found: Object, view: Draft) -> None:
    """Nominated pods like those that are asked about; they have claims, or none yet."""
    for number in range(draw.choice((0, 1, 2, 4))):
        made = copy.deepcopy(draw.choice(found["pods"]))
        made["metadata"] |= {"name": f"promised-{number}", "uid": f"uid-promised-{number}"}
        spec = made["spec"]
        spec["volumes"] = [one for one in spec.get("volumes", ()) if "ephemeral" not in one]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            # Nobody can know which devices they hold, or whose ports
            # (docs/reference/differences.md).
            container.pop("ports", None)
            for given in container.get("resources", {}).values():
                given.pop("nvidia.com/gpu", None)
        made["status"] = {"nominatedNodeName": draw.choice(view.nodes).name}
        found["objects"].append(made)
        view.pending.append(_pod(made))


def _everybody(draw: Random, view: Draft) -> None:
    """Some constraints select all pods, and count none at first. None occurs twice."""
    for pod in view.pending:
        rules_by: dict[tuple[str, str], Object] = {}
        for rule in pod.spec.get("topologySpreadConstraints", ()):
            rules_by.setdefault((rule["topologyKey"], rule["whenUnsatisfiable"]), rule)
        if rules_by:
            pod.spec["topologySpreadConstraints"] = [*rules_by.values()]
        for rule in rules_by.values():
            if draw.random() < 0.3:
                rule["labelSelector"] = {}


def _huge_pages(draw: Random, found: Object) -> None:
    """Pods, and some containers, that ask for huge pages, and scores that look at them."""
    for node in _of(found, "Node"):
        if draw.random() < 0.8:
            amount = str(draw.choice((0, 4, 16, 64)) * HUGE_PAGE_BYTES)
            for key in node["status"]:
                if key in ("allocatable", "capacity"):
                    node["status"][key][HUGE_PAGES] = amount
    for pod in [*_of(found, "Pod"), *found["pods"]]:
        spec = pod["spec"]
        if "resources" in spec or draw.random() < 0.3:
            continue
        inner = draw.choice((0, 0, 1, 2))
        if inner:
            pages = {HUGE_PAGES: str(inner * HUGE_PAGE_BYTES)}
            resources = spec["containers"][0].setdefault("resources", {})
            resources["requests"] = resources.get("requests", {}) | {"memory": "1Mi"} | pages
            resources["limits"] = resources.get("limits", {}) | {"memory": "1Gi"} | pages
        if draw.random() < 0.7:
            pages = {HUGE_PAGES: str((inner + draw.choice((1, 1, 3))) * HUGE_PAGE_BYTES)}
            spec["resources"] = {"limits": dict(pages)}
            if draw.random() < 0.5:
                spec["resources"]["requests"] = pages
    if not found.get("preempt") and "config" not in found:
        found["config"] = _scoring_pages(draw)


def _scoring_pages(draw: Random) -> Object:
    names = draw.choice(((HUGE_PAGES,), (HUGE_PAGES, "cpu"), ("memory", HUGE_PAGES, "cpu")))
    resources = [{"name": name, "weight": draw.choice((1, 3))} for name in names]
    kind = draw.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    strategy: Object = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        shape = [
            {"utilization": 0, "score": draw.choice((0, 10))},
            {"utilization": 100, "score": 5},
        ]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    balanced = [{"name": name, "weight": 1} for name in names]
    arguments = {
        "NodeResourcesFit": {"scoringStrategy": strategy},
        "NodeResourcesBalancedAllocation": {"resources": balanced},
    }
    profile = {"pluginConfig": [{"name": name, "args": one} for name, one in arguments.items()]}
    version = "kubescheduler.config.k8s.io/v1"
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def _empty_notes(draw: Random, found: Object) -> None:
    """Empty annotations."""
    for claim in found["objects"]:
        if claim["kind"] == "PersistentVolumeClaim" and draw.random() < 0.3:
            notes = claim["metadata"]["annotations"]
            if "pv.kubernetes.io/bind-completed" in notes and draw.random() < 0.5:
                notes["pv.kubernetes.io/bind-completed"] = ""
            else:
                notes[draw.choice(NOTES)] = ""
        elif claim["kind"] == "CSINode" and draw.random() < 0.2:
            claim["metadata"].setdefault("annotations", {})[MIGRATED] = ""


def _end(draw: Random, found: Object) -> None:
    """Some pods on nodes are ending; not where somebody would preempt them by a rule of spread,
    which counts them otherwise than kube-scheduler (docs/reference/differences.md).
    """
    is_spread = any("topologySpreadConstraints" in pod["spec"] for pod in found["pods"])
    for pod in _of(found, "Pod"):
        is_placed = "nodeName" in pod["spec"] and not (found.get("preempt") and is_spread)
        if is_placed and draw.random() < 0.1:
            pod["metadata"] |= {"deletionTimestamp": ENDS_AT, "deletionGracePeriodSeconds": 30}


def _no_nodes(found: Object) -> None:
    found["objects"] = [
        one
        for one in found["objects"]
        if one["kind"] != "Node" and "nodeName" not in one.get("spec", {})
        if "nominatedNodeName" not in one.get("status", {})
    ]
