"""Reads nodes, priority classes, disruption budgets and workloads of manifests; no pods."""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.labels import HOSTNAME_LABEL
from shared.kubernetes.objects.pod_templates import (
    BUILT_IN_CLASSES,
    PRIORITY_MAX,
    PriorityClass,
)
from shared.kubernetes.objects.requests import GPU_MILLI
from shared.model.images import packed
from shared.model.objects import GPU, PODS, Budget, Node, Requirement

GPU_MODEL_LABEL = "nvidia.com/gpu.product"
COUNT_MAX = 1_000_000
PODS_PER_NODE = 110
INT64_MAX = (1 << 63) - 1
NODE_SPEC_FIELDS = {
    *("taints", "unschedulable"),
    *("podCIDR", "podCIDRs", "providerID", "externalID", "configSource"),
}
STATUS_FIELDS = {
    *("allocatable", "capacity"),
    *("addresses", "conditions", "config", "daemonEndpoints", "declaredFeatures", "features"),
    *("images", "nodeInfo", "phase", "runtimeHandlers", "volumesAttached", "volumesInUse"),
}


def node_of(metadata: Fields, document: Fields) -> Node:
    """Return a Node as written: allocatable (else capacity), labels, taints, whole GPUs."""
    document.only(("apiVersion", "kind", "metadata", "spec", "status"))
    spec, status = document.child("spec"), document.child("status")
    spec.only(NODE_SPEC_FIELDS)
    status.only(STATUS_FIELDS)
    source = "allocatable" if status.has("allocatable") else "capacity"
    amounts = status.amounts(source)
    gpus = amounts.pop(GPU, 0)
    if GPU_MILLI in amounts:
        raise status.child(source).error(GPU_MILLI, f"nodes state whole devices as {GPU}")
    if gpus > COUNT_MAX:
        raise status.child(source).error(GPU, f"{gpus} is more than {COUNT_MAX}")
    name = metadata.required_text("name")
    labels = metadata.mapping("labels")
    return Node(
        uid=metadata.text("uid") or f"node.{name}",
        name=name,
        allocatable=tuple(sorted(amounts.items())),
        labels=dict(sorted(labels.items())),
        taints=affinity.taints(spec),
        unschedulable=spec.flag("unschedulable"),
        gpu_count=gpus,
        gpu_model=labels.get(GPU_MODEL_LABEL, "") if gpus else "",
        images=packed(_images(status)),
        features=tuple(sorted(set(status.texts("declaredFeatures")))),
    )


def _images(status: Fields) -> Iterator[tuple[str, int]]:
    """Yield the images of a node by each of their names, with sizes."""
    for image in status.children("images"):
        image.only(("names", "sizeBytes"))
        size_bytes = image.integer("sizeBytes", 0, 0, INT64_MAX)
        for name in image.texts("names"):
            yield name, size_bytes


def node_as_registered(node: Node) -> Node:
    """Return the node with what a kubelet adds: the label with its name, and its limit of pods."""
    return msgspec.structs.replace(
        node,
        allocatable=tuple(sorted(({PODS: PODS_PER_NODE} | dict(node.allocatable)).items())),
        labels=dict(sorted(({HOSTNAME_LABEL: node.name} | node.labels).items())),
    )


def priority_class_of(document: Fields) -> tuple[PriorityClass, bool]:
    """Return a PriorityClass, and whether it is the default for pods that name none."""
    known = ("apiVersion", "kind", "metadata", "value", "globalDefault", "description")
    document.only((*known, "preemptionPolicy"))
    if not document.has("value"):
        raise document.error("value", "is required")
    built_in = BUILT_IN_CLASSES.get(document.child("metadata").text("name"))
    highest = PRIORITY_MAX if built_in is None else built_in.value
    value = document.integer("value", 0, -(1 << 31), highest)
    policies = ("PreemptLowerPriority", "Never")
    policy = document.one_of("preemptionPolicy", policies, policies[0])
    return PriorityClass(value, policy == "Never"), document.flag("globalDefault")


class BudgetRule(Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget before its pods are known. Shares are (amount, is a percentage)."""

    uid: str
    namespace: str
    name: str
    match_labels: tuple[tuple[str, str], ...]
    match_expressions: tuple[Requirement, ...]
    min_available: tuple[int, bool] | None = None
    max_unavailable: tuple[int, bool] | None = None
    allowed: int | None = None


def budget_rule_of(metadata: Fields, document: Fields, namespace: str) -> BudgetRule:
    """Read a PodDisruptionBudget."""
    document.only(("apiVersion", "kind", "metadata", "spec", "status"))
    spec, status = document.child("spec"), document.child("status")
    spec.only(("selector", "minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy"))
    labels, expressions = affinity.label_selector(spec.child("selector"))
    least, most = _share(spec, "minAvailable"), _share(spec, "maxUnavailable")
    if least is not None and most is not None:
        raise spec.error("maxUnavailable", "minAvailable and maxUnavailable exclude each other")
    allowed = None
    if status.has("disruptionsAllowed"):
        allowed = status.integer("disruptionsAllowed", 0, 0, COUNT_MAX)
    disrupted = status.child("disruptedPods")
    for pod in disrupted.values:
        disrupted.time_ms(pod)
    name = metadata.required_text("name")
    return BudgetRule(
        uid=metadata.text("uid") or f"budget.{namespace}.{name}",
        namespace=namespace,
        name=name,
        match_labels=labels,
        match_expressions=expressions,
        min_available=least,
        max_unavailable=most,
        allowed=allowed,
    )


def _share(spec: Fields, key: str) -> tuple[int, bool] | None:
    value = spec.values.get(key)
    if value is None:
        return None
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        percent = int(value[:-1][:9])
        if percent <= 100:
            return percent, True
    elif isinstance(value, int) and not isinstance(value, bool):
        return spec.integer(key, 0, 0, COUNT_MAX), False
    raise spec.error(key, f"{shown(value)} is neither a count nor a percentage up to 100%")


def budget_of(rule: BudgetRule, pods: int) -> Budget:
    """Return the budget at the start, when all `pods` that it covers count as healthy."""
    allowed = rule.allowed
    if allowed is None and rule.max_unavailable is not None:
        allowed = min(pods, _of(rule.max_unavailable, pods))
    if allowed is None:
        # Neither is given: one pod must stay, the default of minAvailable.
        allowed = max(0, pods - _of(rule.min_available or (1, False), pods))
    return Budget(
        uid=rule.uid,
        namespace=rule.namespace,
        name=rule.name,
        match_labels=rule.match_labels,
        match_expressions=rule.match_expressions,
        allowed=allowed,
    )


def _of(share: tuple[int, bool], pods: int) -> int:
    amount, is_percent = share
    return -(-pods * amount // 100) if is_percent else amount
