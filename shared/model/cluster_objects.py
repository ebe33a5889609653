"""Objects that rules beyond a node's own read: what pods belong to, and their volumes.

Of each only the fields that kube-scheduler reads. A uid stands for one object for ever, and a name
for one object after another.
"""

from msgspec import Struct

from shared.model.claims import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from shared.model.objects import Requirement, SelectorTerm

Pairs = tuple[tuple[str, str], ...]


class LabelSelector(Struct, frozen=True, omit_defaults=True, gc=False):
    """Required labels and expressions; an empty selector selects everything."""

    match_labels: Pairs = ()
    match_expressions: tuple[Requirement, ...] = ()


class Known(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag=True):
    """The identity of an object; written with its kind."""

    uid: str
    name: str
    namespace: str = ""


class PriorityClass(Known, frozen=True, kw_only=True):
    """A priority class. Pods carry their own priority; a changed class does not change them."""

    value: int = 0
    is_default: bool = False
    never_preempts: bool = False


class Namespace(Known, frozen=True, kw_only=True):
    """A namespace with the labels that a `namespaceSelector` reads."""

    labels: Pairs = ()


class Service(Known, frozen=True, kw_only=True):
    """An object whose selector selects pods; without one it selects nothing."""

    selector: Pairs = ()


class ReplicationController(Known, frozen=True, kw_only=True):
    """An object whose selector selects pods; without one it selects nothing."""

    selector: Pairs = ()


class ReplicaSet(Known, frozen=True, kw_only=True):
    """A controller; its pods are siblings."""

    selector: LabelSelector


class StatefulSet(Known, frozen=True, kw_only=True):
    """A controller; its pods are siblings."""

    selector: LabelSelector


class ClaimRef(Struct, frozen=True, omit_defaults=True, gc=False):
    """The claim that a volume is bound to, or reserved for while `uid` is empty."""

    namespace: str
    name: str
    uid: str = ""


class PersistentVolume(Known, frozen=True, kw_only=True):
    """A volume of a CSI `driver`, which knows it by `handle`. For an in-tree plugin `in_tree` is
    its field, and `handle` the plugin's name of the volume; for all others both are empty.
    `node_affinity` empty: reachable from every node.
    """

    capacity_bytes: int = 0
    access_modes: tuple[str, ...] = ()
    is_block: bool = False
    storage_class: str = ""
    attributes_class: str = ""
    claim: ClaimRef | None = None
    node_affinity: tuple[SelectorTerm, ...] = ()
    driver: str = ""
    handle: str = ""
    in_tree: str = ""
    labels: Pairs = ()
    phase: str = ""
    is_leaving: bool = False


class PersistentVolumeClaim(Known, frozen=True, kw_only=True):
    """A claim. `selector` None: any volume. `selected_node` None: not set; an empty one is no
    node's. `controller`: the uid of its owner (for an ephemeral volume the pod).
    """

    volume: str = ""
    storage_class: str = ""
    attributes_class: str = ""
    access_modes: tuple[str, ...] = ()
    is_block: bool = False
    request_bytes: int = 0
    selector: LabelSelector | None = None
    phase: str = ""
    selected_node: str | None = None
    is_bind_completed: bool = False
    is_leaving: bool = False
    controller: str = ""


class StorageClass(Known, frozen=True, kw_only=True):
    """How volumes are provisioned. `topologies` empty: anywhere."""

    provisioner: str = ""
    waits_for_consumer: bool = False
    topologies: tuple[SelectorTerm, ...] = ()


class NodeDriver(Struct, frozen=True, omit_defaults=True, gc=False):
    """A CSI driver on a node, and its limit of volumes (None: any number)."""

    name: str
    count: int | None = None
    topology_keys: tuple[str, ...] = ()


class CSINode(Known, frozen=True, kw_only=True):
    """The CSI drivers of the node of this name; `migrated`: the in-tree plugins that
    they replace.
    """

    drivers: tuple[NodeDriver, ...] = ()
    migrated: tuple[str, ...] = ()


class CSIDriver(Known, frozen=True, kw_only=True):
    """Whether a driver reports its storage capacity, and whether pods with its volumes must stay
    off nodes without it.
    """

    storage_capacity: bool = False
    is_needed: bool = False


class CSIStorageCapacity(Known, frozen=True, kw_only=True):
    """Capacity for volumes of a class where `topology` selects the node (None: nowhere)."""

    storage_class: str = ""
    topology: LabelSelector | None = None
    capacity_bytes: int | None = None
    volume_bytes_max: int | None = None


class VolumeAttachment(Known, frozen=True, kw_only=True):
    """A volume that is attached, or will be, to a node."""

    attacher: str = ""
    node: str = ""
    volume: str = ""


class ProvisioningRequest(Known, frozen=True, kw_only=True):
    """A request to the cluster autoscaler for nodes, made by us for the gang `gang` (its key) with
    the class `class_name`. `phase` is the condition that counts (empty: none yet), `message` its
    text.
    """

    gang: str
    class_name: str = ""
    phase: str = ""
    message: str = ""


class HyperNodeMember(Struct, frozen=True, omit_defaults=True, gc=False):
    """What one entry of a HyperNode's members selects: the HyperNode or the node of a name, or the
    nodes whose name contains a pattern, or whose labels match.
    """

    hyper_node: str = ""
    node: str = ""
    pattern: str = ""
    selector: LabelSelector | None = None


class HyperNode(Known, frozen=True, kw_only=True):
    """A HyperNode of Volcano: nodes that are near to each other in the network, the nearer the
    lower its tier. `tier_name`: another name of the tier.
    """

    tier: int
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class Queue(Known, frozen=True, kw_only=True):
    """A queue of pods below `parent` (empty: below none). Its pods and those of the queues below it
    use at most `max` of each resource in it, and go before others up to `guaranteed`; both are in
    the units of `shared.model.queues.amounts`.
    """

    parent: str = ""
    max: tuple[tuple[str, int], ...] = ()
    guaranteed: tuple[tuple[str, int], ...] = ()


class ClassObject(Known, frozen=True, kw_only=True, tag="DeviceClass"):
    """A class of devices."""

    value: DeviceClass


class SliceObject(Known, frozen=True, kw_only=True, tag="ResourceSlice"):
    """Devices that a driver publishes."""

    value: ResourceSlice


class ClaimObject(Known, frozen=True, kw_only=True, tag="ResourceClaim"):
    """A claim to devices, at a resourceVersion; `reserved_for`: the uids of the pods that use it.
    `problem`: FIELD: RULE for which only its devices are known, and no pod may use it.
    """

    value: ResourceClaim
    revision: int = 0
    reserved_for: tuple[str, ...] = ()
    problem: str = ""


class TaintRuleObject(Known, frozen=True, kw_only=True, tag="DeviceTaintRule"):
    """A taint of devices, besides those that drivers publish."""

    value: DeviceTaintRule


DeviceObject = ClassObject | SliceObject | ClaimObject | TaintRuleObject
"""The objects of dynamic resource allocation that shards read to place pods with claims."""
StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
"""The storage objects that shards read to place pods with volumes."""
ClusterObject = (
    PriorityClass
    | Namespace
    | Service
    | ReplicationController
    | ReplicaSet
    | StatefulSet
    | ProvisioningRequest
    | HyperNode
    | Queue
    | StorageObject
    | DeviceObject
)
