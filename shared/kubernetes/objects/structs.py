"""The scheduling-relevant fields of Kubernetes objects as structs; all other fields are never
decoded.

`Raw` fields are decoded later, once for each distinct value (see watching/templates.py).
"""

from typing import Any, Generic, TypeVar

from msgspec import Raw, Struct

NOTHING = Raw(b"")


class Meta(Struct):
    """An object's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""
    creationTimestamp: str | None = None
    deletionTimestamp: str | None = None
    labels: Raw = NOTHING


class ListMeta(Struct, rename={"continue_": "continue"}):
    """A list's metadata."""

    resourceVersion: str = ""
    continue_: str = ""


Item = TypeVar("Item")


class Listed(Struct, Generic[Item]):
    """A page of a list."""

    metadata: ListMeta
    items: list[Item] | None = None


class Change(Struct, Generic[Item]):
    """One line of a watch."""

    type: str
    object: Item


class RawContainer(Struct, omit_defaults=True):
    """The fields of a container that decide where its pod fits."""

    name: str = ""
    resources: Raw = NOTHING
    ports: Raw = NOTHING
    restartPolicy: str | None = None
    restartPolicyRules: Raw = NOTHING
    image: str | None = None


class RawVolume(Struct, omit_defaults=True):
    """A volume that matters for scheduling; the name of an ephemeral one names its claim."""

    name: str = ""
    persistentVolumeClaim: Raw = NOTHING
    ephemeral: Raw = NOTHING
    image: Raw = NOTHING
    awsElasticBlockStore: Raw = NOTHING
    azureDisk: Raw = NOTHING
    cinder: Raw = NOTHING
    gcePersistentDisk: Raw = NOTHING
    iscsi: Raw = NOTHING
    portworxVolume: Raw = NOTHING
    rbd: Raw = NOTHING


class RawPodSpec(Struct, omit_defaults=True):
    """A pod's spec without the fields in which equal pods differ."""

    containers: list[RawContainer] = []
    initContainers: list[RawContainer] | None = None
    overhead: Raw = NOTHING
    resources: Raw = NOTHING
    nodeSelector: Raw = NOTHING
    affinity: Raw = NOTHING
    tolerations: Raw = NOTHING
    schedulingGates: Raw = NOTHING
    topologySpreadConstraints: Raw = NOTHING
    resourceClaims: Raw = NOTHING
    volumes: list[RawVolume] | None = None
    priority: int | None = None
    preemptionPolicy: str | None = None
    schedulerName: str = ""
    hostNetwork: bool | None = None
    hostUsers: bool | None = None
    workloadRef: Raw = NOTHING
    schedulingGroup: Raw = NOTHING
    nodeName: str | None = None


class RawContainerStatus(Struct, omit_defaults=True):
    """A container's actual and allocated resources (resized in place)."""

    name: str = ""
    resources: Raw = NOTHING
    allocatedResources: Raw = NOTHING


class RawCondition(Struct, omit_defaults=True):
    """A pod's condition."""

    type: str = ""
    reason: str = ""


class PodStatus(Struct, frozen=True):
    """A pod's phase, start time, container statuses, and what it has as a whole."""

    phase: str = ""
    startTime: str | None = None
    containerStatuses: Raw = NOTHING
    initContainerStatuses: Raw = NOTHING
    conditions: Raw = NOTHING
    resourceClaimStatuses: Raw = NOTHING
    resources: Raw = NOTHING
    allocatedResources: Raw = NOTHING


NO_STATUS = PodStatus()


class PodMeta(Meta):
    """Metadata with owners, and with annotations, which only users' plugins read."""

    annotations: Raw = NOTHING
    ownerReferences: Raw = NOTHING


class RawPod(Struct):
    """A pod."""

    metadata: PodMeta
    spec: RawPodSpec
    status: PodStatus = NO_STATUS


class RawNodeSpec(Struct, frozen=True, omit_defaults=True):
    """A node's spec."""

    taints: Raw = NOTHING
    unschedulable: bool | None = None


class RawImage(Struct, frozen=True):
    """An image on a node, with all its names."""

    names: list[str] | None = None
    sizeBytes: int = 0


class RawNodeStatus(Struct, frozen=True, omit_defaults=True):
    """A node's amounts, images and features."""

    allocatable: Raw = NOTHING
    capacity: Raw = NOTHING
    declaredFeatures: Raw = NOTHING
    images: list[RawImage] | None = None


NO_NODE_SPEC, NO_NODE_STATUS = RawNodeSpec(), RawNodeStatus()


class RawNode(Struct):
    """A node."""

    metadata: Meta
    spec: RawNodeSpec = NO_NODE_SPEC
    status: RawNodeStatus = NO_NODE_STATUS


class BudgetSpec(Struct, frozen=True):
    """A disruption budget's selector; its numbers are summed up in the status."""

    selector: dict[str, Any] | None = None


class BudgetStatus(Struct, frozen=True):
    """What the disruption controller allows, and the evictions it has not yet observed."""

    disruptionsAllowed: int = 0
    disruptedPods: dict[str, Any] | None = None


NO_BUDGET_SPEC, NO_BUDGET_STATUS = BudgetSpec(), BudgetStatus()


class RawBudget(Struct):
    """A PodDisruptionBudget."""

    metadata: Meta
    spec: BudgetSpec = NO_BUDGET_SPEC
    status: BudgetStatus = NO_BUDGET_STATUS


class GroupMeta(Meta):
    """Metadata with annotations."""

    annotations: dict[str, str] | None = None


class RawGroup(Struct):
    """A Workload, or a PodGroup."""

    metadata: GroupMeta
    spec: dict[str, Any] = {}


class Owner(Struct):
    """An ownerReference."""

    apiVersion: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class OwnedMeta(GroupMeta):
    """Metadata with owners, too."""

    ownerReferences: list[Owner] | None = None


class GroupStatus(Struct, frozen=True):
    """A group's phase."""

    phase: str = ""


NO_GROUP_STATUS = GroupStatus()


class RawGroupOfJob(RawGroup):
    """A PodGroup of Volcano, which a Job may own."""

    metadata: OwnedMeta
    status: GroupStatus = NO_GROUP_STATUS
