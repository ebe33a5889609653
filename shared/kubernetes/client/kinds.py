"""The other kinds that are watched: where they are served, and which fields are read.

Fields that are not named here are never decoded: the status of a ReplicaSet changes with each of
its pods and does not matter for scheduling.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from shared.kubernetes.objects import volume_objects
from shared.kubernetes.objects.claims import watched
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.groups import provisioning
from shared.kubernetes.objects.groups.hyper_nodes import HYPER_NODES_VERSION, hyper_node
from shared.kubernetes.objects.queues import QUEUES_VERSION, queue
from shared.kubernetes.objects.volume_objects import INT32_MAX, identity, pairs, selector
from shared.model import cluster_objects as model
from shared.model.cluster_objects import ClusterObject

IDENTITY = [(name, str, "") for name in ("name", "namespace", "uid", "resourceVersion")]


class Kind(NamedTuple):
    """A kind. `read` raises WorldError."""

    name: str
    group: str
    resource: str
    item: Any
    read: Callable[[Fields], ClusterObject]
    query: str = ""  # which of the objects are watched
    version: str = "v1"

    @property
    def root(self) -> str:
        """Return the path of its API version."""
        return f"/apis/{self.group}/{self.version}" if self.group else "/api/v1"

    @property
    def path(self) -> str:
        """Return the path of the objects of all namespaces."""
        return f"{self.root}/{self.resource}"

    def value(self, item: msgspec.Struct) -> ClusterObject:
        """Return the value of an object. Raises WorldError."""
        document = msgspec.to_builtins(item)
        meta = document["metadata"]
        name = f"{meta['namespace']}/{meta['name']}".lstrip("/")
        return self.read(Fields(f"{self.name} {name}", "", document))


def _kind(
    name: str,
    group: str,
    resource: str,
    read: Callable[[Fields], ClusterObject],
    *paths: str,
    query: str = "",
    version: str = "v1",
) -> Kind:
    """Make a kind; `paths` are the fields that are read besides the object's identity."""
    inner: dict[str, list[Any]] = {"metadata": list(IDENTITY)}
    fields: list[Any] = []
    for path in paths:
        outer, _, field = path.rpartition(".")
        (inner.setdefault(outer, []) if outer else fields).append((field, Any, None))
    for outer, value in inner.items():
        part: Any = msgspec.defstruct(f"{name}_{outer}", value)
        fields.append((outer, part) if outer == "metadata" else (outer, part | None, None))
    fields.sort(key=len)  # a struct's fields without a default come first
    return Kind(name, group, resource, msgspec.defstruct(name, fields), read, query, version)


def _priority_class(document: Fields) -> ClusterObject:
    return model.PriorityClass(
        **identity(document),
        value=document.integer("value", 0, -INT32_MAX - 1, INT32_MAX),
        is_default=document.flag("globalDefault"),
        never_preempts=document.text("preemptionPolicy") == "Never",
    )


def _namespace(document: Fields) -> ClusterObject:
    labels = pairs(document.child("metadata"), "labels")
    return model.Namespace(**identity(document), labels=labels)


def _service(document: Fields) -> ClusterObject:
    selector = pairs(document.child("spec"), "selector")
    return model.Service(**identity(document), selector=selector)


def _replication_controller(document: Fields) -> ClusterObject:
    selector = pairs(document.child("spec"), "selector")
    return model.ReplicationController(**identity(document), selector=selector)


def _replica_set(document: Fields) -> ClusterObject:
    return model.ReplicaSet(**identity(document), selector=selector(document.child("spec")))


def _stateful_set(document: Fields) -> ClusterObject:
    return model.StatefulSet(**identity(document), selector=selector(document.child("spec")))


APPS, STORAGE, DEVICES = "apps", "storage.k8s.io", "resource.k8s.io"
VOLUME_SPEC = (
    *("spec.capacity", "spec.accessModes", "spec.volumeMode", "spec.storageClassName"),
    *("spec.volumeAttributesClassName", "spec.claimRef", "spec.nodeAffinity", "spec.csi"),
    *(f"spec.{kind}" for kind in volume_objects.DISKS),
)
CLAIM_SPEC = (
    *("spec.volumeName", "spec.storageClassName", "spec.volumeAttributesClassName"),
    *("spec.accessModes", "spec.volumeMode", "spec.resources", "spec.selector"),
)
TAINT_RULES = _kind(
    *(watched.TAINT_RULE, DEVICES, "devicetaintrules", watched.watched_taint_rule, "spec"),
)
"""Servers have this version of them since 1.37."""
OTHER_KINDS = (
    _kind(
        *("PriorityClass", "scheduling.k8s.io", "priorityclasses", _priority_class),
        *("value", "globalDefault", "preemptionPolicy"),
    ),
    _kind("Namespace", "", "namespaces", _namespace, "metadata.labels"),
    _kind("Service", "", "services", _service, "spec.selector"),
    _kind(
        *("ReplicationController", "", "replicationcontrollers", _replication_controller),
        "spec.selector",
    ),
    _kind("ReplicaSet", APPS, "replicasets", _replica_set, "spec.selector"),
    _kind("StatefulSet", APPS, "statefulsets", _stateful_set, "spec.selector"),
    _kind(
        *("PersistentVolume", "", "persistentvolumes", volume_objects.volume),
        *(*VOLUME_SPEC, "status.phase"),
        *("metadata.labels", "metadata.annotations", "metadata.deletionTimestamp"),
    ),
    _kind(
        *("PersistentVolumeClaim", "", "persistentvolumeclaims", volume_objects.claim),
        *(*CLAIM_SPEC, "status.phase"),
        *("metadata.annotations", "metadata.deletionTimestamp"),
        "metadata.ownerReferences",
    ),
    _kind(
        *("StorageClass", STORAGE, "storageclasses", volume_objects.storage_class),
        *("provisioner", "volumeBindingMode", "allowedTopologies"),
    ),
    _kind(
        *("CSINode", STORAGE, "csinodes", volume_objects.csi_node),
        *("spec.drivers", "metadata.annotations"),
    ),
    _kind(
        *("CSIDriver", STORAGE, "csidrivers", volume_objects.csi_driver),
        *("spec.storageCapacity", "spec.preventPodSchedulingIfMissing"),
    ),
    _kind(
        *("CSIStorageCapacity", STORAGE, "csistoragecapacities", volume_objects.csi_capacity),
        *("storageClassName", "nodeTopology", "capacity", "maximumVolumeSize"),
    ),
    _kind(
        *("VolumeAttachment", STORAGE, "volumeattachments", volume_objects.attachment),
        *("spec.attacher", "spec.nodeName", "spec.source"),
    ),
    _kind(
        *(watched.CLASS, DEVICES, "deviceclasses", watched.watched_class),
        *("spec.selectors", "spec.config", "spec.extendedResourceName"),
    ),
    _kind(watched.SLICE, DEVICES, "resourceslices", watched.watched_slice, "spec"),
    _kind(
        *(watched.CLAIM, DEVICES, "resourceclaims", watched.watched_claim, "spec"),
        *("metadata.deletionTimestamp", "metadata.ownerReferences"),
        *("status.allocation", "status.reservedFor"),
    ),
    TAINT_RULES,
)
REQUESTS = _kind(
    *("ProvisioningRequest", provisioning.API_GROUP, provisioning.RESOURCE),
    *(provisioning.provisioning_request, "metadata.annotations"),
    *("spec.provisioningClassName", "status.conditions"),
    query=f"labelSelector={provisioning.MANAGED_BY.replace('/', '%2F')}%3D{provisioning.OWN}",
)
"""Our requests to the cluster autoscaler, where it is installed and we may read them."""
HYPER_NODES = _kind(
    *("HyperNode", HYPER_NODES_VERSION.partition("/")[0], "hypernodes", hyper_node),
    *("spec.tier", "spec.tierName", "spec.members"),
    version=HYPER_NODES_VERSION.partition("/")[2],
)
"""A custom resource, which most servers lack."""
QUEUES = _kind(
    *("Queue", QUEUES_VERSION.partition("/")[0], "queues", queue),
    *("spec.parent", "spec.max", "spec.guaranteed"),
    version=QUEUES_VERSION.partition("/")[2],
)
"""A custom resource of Muster. Clusters that are shared by queues have it installed."""
