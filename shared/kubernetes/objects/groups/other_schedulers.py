"""Pod groups of other schedulers: how pods name them, and what is read of their objects.

The keys of their gangs end in `@` and the scheduler's name, which is in no object's name: groups of
two kinds may have one name.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.cluster_objects import COUNT_MAX
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.pod_groups import Group, PartRule, annotated, make_group
from shared.kubernetes.objects.pod_templates import SECONDS_MAX, WorkloadRef
from shared.model.groups.topology import NetworkTopology
from shared.model.objects import PartMinimum

COSCHEDULING, VOLCANO, KUEUE = "coscheduling", "volcano", "kueue"
COSCHEDULING_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io")

VOLCANO_ANNOTATIONS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
KUEUE_NAME, KUEUE_COUNT = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
KUEUE_ONE_BY_ONE = (
    "kueue.x-k8s.io/pod-group-fast-admission",
    "kueue.x-k8s.io/pod-group-serving",
)
"""With one of these Kueue admits a group before all of its pods exist: its controller may make a
pod when the one before is ready.
"""
LABELS = (*COSCHEDULING_LABELS, KUEUE_NAME)
IN_ANNOTATIONS = b"group-name"
"""Is part of each annotation that names a group."""
VOLCANO_TASK = "volcano.sh/task-spec"
VOLCANO_READ = ("minMember", "minTaskMember", "subGroupPolicy", "networkTopology")
VOLCANO_PASSED_OVER = ("queue", "priorityClassName", "minResources")
VOLCANO_PART_READ = ("name", "labelSelector", "matchLabelKeys", "subGroupSize", "minSubGroups")


class GroupKind(NamedTuple):
    """A kind of pod groups; `read` returns the group of its object and raises WorldError."""

    name: str
    version: str
    read: Callable[[Fields, Fields], Group]
    resource: str = "podgroups"

    @property
    def api_group(self) -> str:
        """Return the API group, such as scheduling.x-k8s.io."""
        return self.version.partition("/")[0]

    @property
    def source(self) -> str:
        """Return the full name of its resource, such as podgroups.scheduling.x-k8s.io."""
        return f"{self.resource}.{self.api_group}"


def _coscheduling_group(metadata: Fields, spec: Fields) -> Group:
    spec.only(("minMember", "minResources", "scheduleTimeoutSeconds"))
    rules = annotated(metadata.child("annotations"))
    if spec.has("scheduleTimeoutSeconds"):
        timeout_ms = spec.integer("scheduleTimeoutSeconds", 0, 1, SECONDS_MAX) * 1000
        rules = replace(rules, timeout_ms=timeout_ms)
    min_count = spec.integer("minMember", 1, 1, COUNT_MAX)
    return make_group(min_count, replace(rules, keeps_minimum=min_count > 1))


def _volcano_group(metadata: Fields, spec: Fields) -> Group:
    spec.only((*VOLCANO_READ, *VOLCANO_PASSED_OVER))
    rules = annotated(metadata.child("annotations"))
    min_count = spec.integer("minMember", 0, 0, COUNT_MAX)
    tasks = spec.child("minTaskMember")
    counts = {task: tasks.integer(task, 0, 0, COUNT_MAX) for task in sorted(tasks.values)}
    minimums = tuple(PartMinimum(task, count) for task, count in counts.items() if count)
    divided = list(map(_part_rule, spec.children("subGroupPolicy")))
    # Volcano checks those of tasks only where minMember is not less than their sum. Other parts
    # than tasks have no place beside tasks.
    if min_count < sum(counts.values()) or any(rule.name not in counts for rule, _least in divided):
        minimums = ()
    minimums += tuple(least for _rule, least in divided if least.parts)
    network = _network(spec) if spec.has("networkTopology") else None
    rules = replace(rules, minimums=minimums, network=network, keeps_minimum=min_count > 1)
    return make_group(min_count, rules, tuple(rule for rule, _least in divided))


def _network(spec: Fields) -> NetworkTopology:
    topology = spec.child("networkTopology")
    topology.only(("mode", "highestTierAllowed", "highestTierName"))
    is_hard = topology.one_of("mode", ("hard", "soft"), "hard") == "hard"
    tier = None
    if topology.has("highestTierAllowed"):
        tier = topology.integer("highestTierAllowed", 0, 0, COUNT_MAX)
    name = topology.text("highestTierName")
    if tier is not None and name:
        raise topology.error("highestTierName", "excludes highestTierAllowed")
    return NetworkTopology(is_hard, tier, name)


def _part_rule(policy: Fields) -> tuple[PartRule, PartMinimum]:
    policy.only((*VOLCANO_PART_READ, "networkTopology"))
    name = policy.text("name")
    selector = affinity.label_selector(policy.child("labelSelector"))
    size = policy.integer("subGroupSize", 1, 1, COUNT_MAX)
    least = PartMinimum(name, size, policy.integer("minSubGroups", 0, 0, COUNT_MAX))
    return PartRule(name, *selector, policy.texts("matchLabelKeys")), least


OTHER_KINDS = (
    GroupKind(COSCHEDULING, "scheduling.x-k8s.io/v1alpha1", _coscheduling_group),
    GroupKind(VOLCANO, "scheduling.volcano.sh/v1beta1", _volcano_group),
)
"""In the order in which they count for a pod that names groups of several kinds."""
BY_VERSION = {kind.version: kind for kind in OTHER_KINDS}


def name_with_kind(name: str, kind: str) -> str:
    """Return a group's name as it is in keys of gangs."""
    return f"{name}@{kind}"


def groups_named(
    labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Iterator[WorkloadRef]:
    """Yield the groups of other kinds that a pod names, in the order in which they count."""
    for name in filter(None, map(labels.get, COSCHEDULING_LABELS)):
        yield WorkloadRef("", name_with_kind(name, COSCHEDULING))
    task = annotations.get(VOLCANO_TASK) or labels.get(VOLCANO_TASK, "")
    for name in filter(None, map(annotations.get, VOLCANO_ANNOTATIONS)):
        yield WorkloadRef("", name_with_kind(name, VOLCANO), part=task)
    yield from _of_kueue(labels, annotations)


def _of_kueue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> Iterator[WorkloadRef]:
    """Yield the group of Kueue, which has no object: each pod says how many there are."""
    name = annotations.get(KUEUE_NAME) or labels.get(KUEUE_NAME)
    count = annotations.get(KUEUE_COUNT, "")
    is_whole = all(annotations.get(one) != "true" for one in KUEUE_ONE_BY_ONE)
    if name and is_whole and count.isdecimal() and 0 < int(count[:9]) <= COUNT_MAX:
        yield WorkloadRef("", name_with_kind(name, KUEUE), min_count=int(count[:9]))
