"""What is read of CompositePodGroups (Kubernetes 1.37, gate CompositePodGroup).

The keys of their gangs end in `@composite`, since a PodGroup may have the same name.
"""

from collections.abc import Mapping

from shared.kubernetes.objects.cluster_objects import COUNT_MAX
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups.other_schedulers import GroupKind
from shared.kubernetes.objects.groups.pod_groups import (
    GANG_TIMEOUT,
    GANG_TIMEOUT_MS,
    Group,
    is_unit,
    make_group,
    topology_of,
)
from shared.kubernetes.objects.pod_templates import (
    BUILT_IN_CLASSES,
    PriorityClass,
    duration_ms,
    priority_of,
)
from shared.model.objects import Gang

COMPOSITE_VERSION = "scheduling.k8s.io/v1alpha3"
_READ = (
    *("schedulingPolicy", "schedulingConstraints", "workloadRef", "parentCompositePodGroupName"),
    *("priority", "priorityClassName", "disruptionMode"),
)
_UNSUPPORTED = ("preemptionPolicy",)


def composite_of(
    metadata: Fields,
    spec: Fields,
    classes: Mapping[str, PriorityClass] = BUILT_IN_CLASSES,
    default: PriorityClass | None = None,
) -> Group:
    """Return the group of a CompositePodGroup; without a default class admission has run already.
    Raises WorldError.
    """
    spec.only((*_READ, *_UNSUPPORTED))
    rules = Gang(
        key="",
        min_count=1,
        timeout_ms=duration_ms(metadata.child("annotations"), GANG_TIMEOUT, GANG_TIMEOUT_MS),
        topology=topology_of(spec),
        priority=priority_of(spec, classes, default).value,
        is_unit=is_unit(spec),
        parent=spec.text("parentCompositePodGroupName"),
        min_groups=_min_groups(spec.child("schedulingPolicy")),
        created=metadata.text("creationTimestamp"),
    )
    return make_group(1, rules)


def _min_groups(policy: Fields) -> int:
    policy.only(("basic", "gang"))
    if policy.has("basic") == policy.has("gang"):
        raise policy.error("", "must be exactly one of basic, gang")
    if policy.has("basic"):
        policy.child("basic").only(())
        return 1
    gang = policy.child("gang")
    gang.only(("minGroupCount",))
    if not gang.has("minGroupCount"):
        raise gang.error("minGroupCount", "is required")
    return gang.integer("minGroupCount", 0, 1, COUNT_MAX)


COMPOSITES = GroupKind("composite", COMPOSITE_VERSION, composite_of, "compositepodgroups")
