"""Pod groups of scheduling.k8s.io: what is read of PodGroups, and of Workloads that hold groups."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.cluster_objects import COUNT_MAX
from shared.kubernetes.objects.errors import shown
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.provisioning import provisioning_class
from shared.kubernetes.objects.pod_templates import (
    BUILT_IN_CLASSES,
    PriorityClass,
    duration_ms,
    priority_of,
)
from shared.model.groups.below_minimum import EVICT, GRACE_MS, RULES, SHRINK, WAIT, BelowMinimum
from shared.model.groups.topology import Topology
from shared.model.groups.trees import COMPOSITE
from shared.model.objects import Gang, Requirement

GANG_TIMEOUT = "muster.io/gang-timeout"
BELOW_MINIMUM = "muster.io/below-minimum"
BELOW_MINIMUM_GRACE = "muster.io/below-minimum-grace"
MINIMUM_RUN_TIME = "muster.io/minimum-run-time"
REPLACEMENT_HOLD = "muster.io/replacement-hold"
GANG_TIMEOUT_MS = 300_000
POD_GROUPS_MAX = 8
WORKLOAD_VERSION = "scheduling.k8s.io/v1alpha1"
"""Of the Workloads that hold groups; later ones hold templates of PodGroups."""
POD_GROUP_VERSIONS = tuple(
    f"scheduling.k8s.io/{version}" for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
"""Newest first. PodGroups have the same shape in all, as far as it is read."""
POD_GROUP_READ = (
    *("schedulingPolicy", "schedulingConstraints", "podGroupTemplateRef", "workloadRef"),
    *("priority", "priorityClassName", "disruptionMode", "parentCompositePodGroupName"),
)
POD_GROUP_UNSUPPORTED = ("preemptionPolicy",)
"""Fields that do not affect where and when members start."""


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
    """A pod group. `rules`: its gang but for the key, with the name of its CompositePodGroup as
    `parent`. `is_gang`: without it the group is basic, and gates nothing. `parts`: rules that
    divide its pods.
    """

    rules: Gang
    is_gang: bool
    parts: tuple[PartRule, ...] = ()

    def part(self, labels: dict[str, str]) -> str:
        """Return the part that the first rule gives a pod; empty if none does."""
        return next(filter(None, (rule.part(labels) for rule in self.parts)), "")

    def gang(self, key: str) -> Gang:
        """Return the gang of the pods that name `key`; that of a basic group starts with its first
        pod.
        """
        parent = self.rules.parent
        if parent:
            parent = f"{key.partition('/')[0]}/{parent}{COMPOSITE}"
        return replace(self.rules, key=key, parent=parent)


def make_group(min_count: int, rules: Gang, parts: tuple[PartRule, ...] = ()) -> Group:
    """Return a group. `min_count` 0: basic, unless its rules are for gangs only: then its pods are
    a gang of at least one.
    """
    is_gang = (
        *(min_count, rules.topology, rules.network),
        *(rules.is_unit, rules.parent, rules.minimum_run_ms, rules.replacement_hold_ms),
    )
    return Group(replace(rules, min_count=max(1, min_count)), any(is_gang), parts)


def annotated(annotations: Fields) -> Gang:
    """Return the rules that a group's annotations give its gang. Raises WorldError."""
    return Gang(
        key="",
        min_count=1,
        timeout_ms=duration_ms(annotations, GANG_TIMEOUT, GANG_TIMEOUT_MS),
        provisioning=provisioning_class(annotations),
        below_minimum=below_minimum(annotations),
        minimum_run_ms=duration_ms(annotations, MINIMUM_RUN_TIME, 0),
        replacement_hold_ms=duration_ms(annotations, REPLACEMENT_HOLD, 0),
    )


def groups_of(metadata: Fields, document: Fields) -> dict[str, Group]:
    """Return the pod groups of a Workload by name."""
    document.only(("apiVersion", "kind", "metadata", "spec", "status"))
    if document.text("apiVersion") != WORKLOAD_VERSION:
        raise document.error("apiVersion", f"must be {WORKLOAD_VERSION}")
    rules, spec = annotated(metadata.child("annotations")), document.child("spec")
    spec.only(("controllerRef", "podGroups"))
    found: dict[str, Group] = {}
    for group in spec.children("podGroups"):
        group.only(("name", "policy"))
        name = group.required_text("name")
        if name in found:
            raise group.error("name", f"{shown(name)} is a duplicate")
        found[name] = make_group(_min_count(group.child("policy")), rules)
    if not 0 < len(found) <= POD_GROUPS_MAX:
        raise spec.error("podGroups", f"must hold 1..{POD_GROUPS_MAX} groups")
    return found


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
    parent = spec.text("parentCompositePodGroupName") if composites else ""
    rules = replace(
        annotated(metadata.child("annotations")),
        topology=topology_of(spec),
        priority=priority_of(spec, classes, default).value,
        is_unit=is_unit(spec),
        parent=parent,
        created=metadata.text("creationTimestamp") if parent else "",
    )
    return make_group(_min_count(spec.child("schedulingPolicy")), rules)


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
        if key not in seen and group.is_gang:
            seen.add(key)
            yield group.gang(key)
