"""Reads nodes, priority classes, disruption budgets and workloads of manifests; no pods."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from msgspec import Struct

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.provisioning import provisioning_class
from shared.kubernetes.objects.labels import HOSTNAME_LABEL
from shared.kubernetes.objects.pod_templates import (
    BUILT_IN_CLASSES,
    PRIORITY_MAX,
    PriorityClass,
    duration_ms,
    priority_of,
)
from shared.kubernetes.objects.requests import GPU_MILLI
from shared.model.groups.below_minimum import EVICT, GRACE_MS, RULES, SHRINK, WAIT, BelowMinimum
from shared.model.groups.topology import NetworkTopology, Topology
from shared.model.groups.trees import COMPOSITE
from shared.model.images import packed
from shared.model.objects import GPU, PODS, Budget, Gang, Node, PartMinimum, Requirement

GPU_MODEL_LABEL = "nvidia.com/gpu.product"
GANG_TIMEOUT = "muster.io/gang-timeout"
BELOW_MINIMUM = "muster.io/below-minimum"
BELOW_MINIMUM_GRACE = "muster.io/below-minimum-grace"
MINIMUM_RUN_TIME = "muster.io/minimum-run-time"
GANG_TIMEOUT_MS = 300_000
COUNT_MAX = 1_000_000
PODS_PER_NODE = 110
INT64_MAX = (1 << 63) - 1
POD_GROUPS_MAX = 8
NODE_SPEC_FIELDS = {
    *("taints", "unschedulable"),
    *("podCIDR", "podCIDRs", "providerID", "externalID", "configSource"),
}
STATUS_FIELDS = {
    *("allocatable", "capacity"),
    *("addresses", "conditions", "config", "daemonEndpoints", "declaredFeatures", "features"),
    *("images", "nodeInfo", "phase", "runtimeHandlers", "volumesAttached", "volumesInUse"),
}
WORKLOAD_VERSION = "scheduling.k8s.io/v1alpha1"
"""Of the Workloads that hold groups; later ones hold templates of PodGroups."""
POD_GROUP_VERSIONS = tuple(
    f"scheduling.k8s.io/{version}" for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""Newest first. PodGroups have the same shape in all, as far as it is read."""


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


class PartRule(Struct, frozen=True):
    """Divides selected pods into parts `name/VALUE...` by the values of their labels `keys`."""

    name: str
    match_labels: tuple[tuple[str, str], ...]
    match_expressions: tuple[Requirement, ...]
    keys: tuple[str, ...]

    def part(self, labels: dict[str, str]) -> str:
        """Return the part of a pod with these labels; empty if the pod has none."""
        selector = self.match_labels, self.match_expressions
        if any(selector) and not affinity.selects(labels, *selector):
            return ""
        values = [labels.get(key, "") for key in self.keys]
        return "/".join((self.name, *values)) if values and all(values) else ""


class Group(Struct, frozen=True):
    """A pod group. `min_count` 0 = basic policy, which gates nothing; with a topology, as a unit,
    with a minimum run time or in a CompositePodGroup, its pods are a gang of at least one.
    `parent`: the name of its CompositePodGroup. The other fields are as in Gang.
    """

    min_count: int
    timeout_ms: int
    topology: Topology | None = None
    minimums: tuple[PartMinimum, ...] = ()
    priority: int | None = None
    parts: tuple[PartRule, ...] = ()
    is_unit: bool = False
    provisioning: str = ""
    network: NetworkTopology | None = None
    keeps_minimum: bool = False
    parent: str = ""
    min_groups: int = 0
    created: str = ""
    below_minimum: BelowMinimum | None = None
    minimum_run_ms: int = 0

    def part(self, labels: dict[str, str]) -> str:
        """Return the part that the first rule gives a pod; empty if none does."""
        return next(filter(None, (rule.part(labels) for rule in self.parts)), "")

    def gang(self, key: str) -> Gang:
        """Return the gang of the pods that name `key`; that of a basic group starts with its first
        pod.
        """
        parent = f"{key.partition('/')[0]}/{self.parent}{COMPOSITE}" if self.parent else ""
        return Gang(
            key=key,
            min_count=max(1, self.min_count),
            timeout_ms=self.timeout_ms,
            topology=self.topology,
            minimums=self.minimums,
            priority=self.priority,
            is_unit=self.is_unit,
            provisioning=self.provisioning,
            network=self.network,
            keeps_minimum=self.keeps_minimum,
            parent=parent,
            min_groups=self.min_groups,
            created=self.created,
            below_minimum=self.below_minimum,
            minimum_run_ms=self.minimum_run_ms,
        )


def groups_of(metadata: Fields, document: Fields) -> dict[str, Group]:
    """Return the pod groups of a Workload by name."""
    document.only(("apiVersion", "kind", "metadata", "spec", "status"))
    if document.text("apiVersion") != WORKLOAD_VERSION:
        raise document.error("apiVersion", f"must be {WORKLOAD_VERSION}")
    annotations = metadata.child("annotations")
    timeout_ms = duration_ms(annotations, GANG_TIMEOUT, GANG_TIMEOUT_MS)
    spec = document.child("spec")
    provisioning, below = provisioning_class(annotations), below_minimum(annotations)
    run_ms = duration_ms(annotations, MINIMUM_RUN_TIME, 0)
    spec.only(("controllerRef", "podGroups"))
    found: dict[str, Group] = {}
    for group in spec.children("podGroups"):
        group.only(("name", "policy"))
        name = group.required_text("name")
        if name in found:
            raise group.error("name", f"{shown(name)} is a duplicate")
        min_count = _min_count(group.child("policy"))
        found[name] = Group(
            *(max(min_count, run_ms > 0), timeout_ms),
            provisioning=provisioning,
            below_minimum=below,
            minimum_run_ms=run_ms,
        )
    if not 0 < len(found) <= POD_GROUPS_MAX:
        raise spec.error("podGroups", f"must hold 1..{POD_GROUPS_MAX} groups")
    return found


POD_GROUP_READ = (
    *("schedulingPolicy", "schedulingConstraints", "podGroupTemplateRef", "workloadRef"),
    *("priority", "priorityClassName", "disruptionMode", "parentCompositePodGroupName"),
)
POD_GROUP_UNSUPPORTED = ("preemptionPolicy",)
"""Fields that do not affect where and when members start."""


def group_of(
    metadata: Fields,
    spec: Fields,
    classes: Mapping[str, PriorityClass] = BUILT_IN_CLASSES,
    default: PriorityClass | None = None,
    composites: bool = False,
) -> Group:
    """Return the group of a PodGroup object; without a default class admission has run already.
    `composites`: it may be in a CompositePodGroup. Raises WorldError for rules that are not
    supported.
    """
    spec.only((*POD_GROUP_READ, *POD_GROUP_UNSUPPORTED))
    annotations = metadata.child("annotations")
    timeout_ms = duration_ms(annotations, GANG_TIMEOUT, GANG_TIMEOUT_MS)
    min_count, topology = _min_count(spec.child("schedulingPolicy")), topology_of(spec)
    is_whole = is_unit(spec)
    parent = spec.text("parentCompositePodGroupName") if composites else ""
    run_ms = duration_ms(annotations, MINIMUM_RUN_TIME, 0)
    is_gang = topology is not None or is_whole or parent or run_ms
    least = max(1, min_count) if is_gang else min_count
    priority = priority_of(spec, classes, default).value
    return Group(
        *(least, timeout_ms, topology),
        priority=priority,
        is_unit=is_whole,
        provisioning=provisioning_class(annotations),
        parent=parent,
        created=metadata.text("creationTimestamp") if parent else "",
        below_minimum=below_minimum(annotations),
        minimum_run_ms=run_ms,
    )


def below_minimum(annotations: Fields) -> BelowMinimum | None:
    """Return what becomes of the group's gang when fewer than its minimum run; None: its waiting
    members start together. Raises WorldError.
    """
    rule = annotations.one_of(BELOW_MINIMUM, RULES, WAIT)
    if rule == WAIT and annotations.text(BELOW_MINIMUM_GRACE):
        raise annotations.error(BELOW_MINIMUM_GRACE, f"needs {BELOW_MINIMUM}: {EVICT} or {SHRINK}")
    grace_ms = duration_ms(annotations, BELOW_MINIMUM_GRACE, GRACE_MS)
    return None if rule == WAIT else BelowMinimum(rule, grace_ms)


def is_unit(spec: Fields) -> bool:
    """Return whether preemption evicts all pods of the group or none: disruptionMode is Pod or
    PodGroup in 1.36, {single: {}} or {all: {}} since 1.37.
    """
    mode = spec.values.get("disruptionMode")
    if isinstance(mode, str):
        if mode not in ("Pod", "PodGroup"):
            raise spec.error("disruptionMode", "must be Pod or PodGroup")
        return mode == "PodGroup"
    if not spec.has("disruptionMode"):
        return False
    choice = spec.child("disruptionMode")
    choice.only(("single", "all"))
    if choice.has("single") == choice.has("all"):
        raise choice.error("", "must be exactly one of single, all")
    choice.child("all" if choice.has("all") else "single").only(())
    return choice.has("all")


def topology_of(spec: Fields) -> Topology | None:
    """Return the schedulingConstraints: all pods in one domain of a label."""
    constraints = spec.child("schedulingConstraints")
    constraints.only(("topology",))
    keys = []
    for one in constraints.children("topology"):
        one.only(("key",))
        keys.append(one.required_text("key"))
    if len(keys) > 1:
        raise constraints.error("topology", "must hold at most one key")
    return Topology((keys[0],)) if keys else None


def _min_count(policy: Fields) -> int:
    policy.only(("basic", "gang"))
    if policy.has("basic") == policy.has("gang"):
        raise policy.error("", "must be exactly one of basic, gang")
    if policy.has("basic"):
        policy.child("basic").only(())
        return 0
    gang = policy.child("gang")
    gang.only(("minCount",))
    if not gang.has("minCount"):
        raise gang.error("minCount", "is required")
    return gang.integer("minCount", 0, 1, COUNT_MAX)


def gangs_of(keys: Iterable[tuple[str, Group]]) -> Iterator[Gang]:
    """Yield one gang for each key that pods name, in the order they were first named."""
    seen: set[str] = set()
    for key, group in keys:
        if key not in seen and group.min_count:
            seen.add(key)
            yield group.gang(key)
