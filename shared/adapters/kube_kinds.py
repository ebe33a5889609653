"""The kinds of other objects that are watched: where they are served, and what of them is read.

Fields that are not named here are never decoded: the status of a ReplicaSet changes with each of
its pods, and says nothing to anybody who decides where pods go.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from shared.adapters.worlds import affinity, quantities
from shared.adapters.worlds.fields import Fields
from shared.model import cluster_objects as model
from shared.model.cluster_objects import ClusterObject, LabelSelector, Pairs
from shared.model.objects import Requirement, SelectorTerm

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
INT32_MAX = (1 << 31) - 1
IDENTITY = [(name, str, "") for name in ("name", "namespace", "uid", "resourceVersion")]


class Kind(NamedTuple):
    """A kind. `read` raises WorldError."""

    name: str
    group: str
    resource: str
    item: Any
    read: Callable[[Fields], ClusterObject]

    @property
    def path(self) -> str:
        """All namespaces' objects."""
        return (
            f"/apis/{self.group}/v1/{self.resource}" if self.group else f"/api/v1/{self.resource}"
        )

    def value(self, item: msgspec.Struct) -> ClusterObject:
        """What an object says. Raises WorldError."""
        document = msgspec.to_builtins(item)
        meta = document["metadata"]
        name = f"{meta['namespace']}/{meta['name']}".lstrip("/")
        return self.read(Fields(f"{self.name} {name}", "", document))


def _kind(
    name: str, group: str, resource: str, read: Callable[[Fields], ClusterObject], *paths: str
) -> Kind:
    """`paths` are the fields that are read besides the object's identity."""
    inner: dict[str, list[Any]] = {"metadata": list(IDENTITY)}
    fields: list[Any] = []
    for path in paths:
        outer, _, field = path.rpartition(".")
        (inner.setdefault(outer, []) if outer else fields).append((field, Any, None))
    for outer, own in inner.items():
        part: Any = msgspec.defstruct(f"{name}_{outer}", own)
        fields.append((outer, part) if outer == "metadata" else (outer, part | None, None))
    fields.sort(key=len)  # a struct's fields without a default come first
    return Kind(name, group, resource, msgspec.defstruct(name, fields), read)


def _identity(document: Fields) -> dict[str, Any]:
    meta = document.child("metadata")
    uid, name = meta.required_text("uid"), meta.required_text("name")
    return {"uid": uid, "name": name, "namespace": meta.text("namespace")}


def _pairs(fields: Fields, key: str) -> Pairs:
    return tuple(sorted(fields.mapping(key).items()))


def _selector(fields: Fields, key: str = "selector") -> LabelSelector:
    return LabelSelector(*affinity.label_selector(fields.child(key)))


def _bytes(fields: Fields, key: str) -> int | None:
    return fields.quantity(key, quantities.units) if fields.has(key) else None


def _priority_class(document: Fields) -> ClusterObject:
    return model.PriorityClass(
        **_identity(document),
        value=document.integer("value", 0, -INT32_MAX - 1, INT32_MAX),
        is_default=document.flag("globalDefault"),
        never_preempts=document.text("preemptionPolicy") == "Never",
    )


def _namespace(document: Fields) -> ClusterObject:
    labels = _pairs(document.child("metadata"), "labels")
    return model.Namespace(**_identity(document), labels=labels)


def _service(document: Fields) -> ClusterObject:
    selector = _pairs(document.child("spec"), "selector")
    return model.Service(**_identity(document), selector=selector)


def _replication_controller(document: Fields) -> ClusterObject:
    selector = _pairs(document.child("spec"), "selector")
    return model.ReplicationController(**_identity(document), selector=selector)


def _replica_set(document: Fields) -> ClusterObject:
    return model.ReplicaSet(**_identity(document), selector=_selector(document.child("spec")))


def _stateful_set(document: Fields) -> ClusterObject:
    return model.StatefulSet(**_identity(document), selector=_selector(document.child("spec")))


def _volume(document: Fields) -> ClusterObject:
    meta, spec = document.child("metadata"), document.child("spec")
    csi, claim = spec.child("csi"), None
    if spec.has("claimRef"):
        ref = spec.child("claimRef")
        claim = model.ClaimRef(ref.text("namespace"), ref.text("name"), ref.text("uid"))
    required = spec.child("nodeAffinity").child("required")
    return model.PersistentVolume(
        **_identity(document),
        capacity_bytes=_bytes(spec.child("capacity"), "storage") or 0,
        access_modes=spec.texts("accessModes"),
        is_block=spec.text("volumeMode") == "Block",
        storage_class=meta.child("annotations").text(BETA_CLASS) or spec.text("storageClassName"),
        attributes_class=spec.text("volumeAttributesClassName"),
        claim=claim,
        node_affinity=tuple(map(affinity.selector_term, required.children("nodeSelectorTerms"))),
        driver=csi.text("driver"),
        handle=csi.text("volumeHandle"),
        labels=_pairs(meta, "labels"),
        phase=document.child("status").text("phase"),
        is_leaving=meta.has("deletionTimestamp"),
    )


def _claim(document: Fields) -> ClusterObject:
    meta, spec = document.child("metadata"), document.child("spec")
    notes = meta.child("annotations")
    owners = meta.children("ownerReferences")
    return model.PersistentVolumeClaim(
        **_identity(document),
        volume=spec.text("volumeName"),
        storage_class=notes.text(BETA_CLASS) or spec.text("storageClassName"),
        attributes_class=spec.text("volumeAttributesClassName"),
        access_modes=spec.texts("accessModes"),
        is_block=spec.text("volumeMode") == "Block",
        request_bytes=_bytes(spec.child("resources").child("requests"), "storage") or 0,
        selector=_selector(spec) if spec.has("selector") else None,
        phase=document.child("status").text("phase"),
        selected_node=notes.text(SELECTED_NODE),
        is_bind_completed=notes.has(BIND_COMPLETED),
        is_leaving=meta.has("deletionTimestamp"),
        controller=next((own.text("uid") for own in owners if own.flag("controller")), ""),
    )


def _storage_class(document: Fields) -> ClusterObject:
    return model.StorageClass(
        **_identity(document),
        provisioner=document.text("provisioner"),
        waits_for_consumer=document.text("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=tuple(map(_topology, document.children("allowedTopologies"))),
    )


def _topology(fields: Fields) -> SelectorTerm:
    found = [
        Requirement(one.required_text("key"), "In", tuple(sorted(set(one.texts("values")))))
        for one in fields.children("matchLabelExpressions")
    ]
    return SelectorTerm(tuple(found))


def _csi_node(document: Fields) -> ClusterObject:
    drivers = [
        model.NodeDriver(
            one.required_text("name"), _count(one.child("allocatable")), one.texts("topologyKeys")
        )
        for one in document.child("spec").children("drivers")
    ]
    return model.CSINode(**_identity(document), drivers=tuple(drivers))


def _count(allocatable: Fields) -> int | None:
    return allocatable.integer("count", 0, 0, INT32_MAX) if allocatable.has("count") else None


def _csi_driver(document: Fields) -> ClusterObject:
    tells = document.child("spec").flag("storageCapacity")
    return model.CSIDriver(**_identity(document), storage_capacity=tells)


def _csi_capacity(document: Fields) -> ClusterObject:
    key = "nodeTopology"
    return model.CSIStorageCapacity(
        **_identity(document),
        storage_class=document.text("storageClassName"),
        topology=_selector(document, key) if document.has(key) else None,
        capacity_bytes=_bytes(document, "capacity"),
        volume_bytes_max=_bytes(document, "maximumVolumeSize"),
    )


def _attachment(document: Fields) -> ClusterObject:
    spec = document.child("spec")
    return model.VolumeAttachment(
        **_identity(document),
        attacher=spec.text("attacher"),
        node=spec.text("nodeName"),
        volume=spec.child("source").text("persistentVolumeName"),
    )


APPS, STORAGE = "apps", "storage.k8s.io"
VOLUME_SPEC = (
    *("spec.capacity", "spec.accessModes", "spec.volumeMode", "spec.storageClassName"),
    *("spec.volumeAttributesClassName", "spec.claimRef", "spec.nodeAffinity", "spec.csi"),
)
CLAIM_SPEC = (
    *("spec.volumeName", "spec.storageClassName", "spec.volumeAttributesClassName"),
    *("spec.accessModes", "spec.volumeMode", "spec.resources", "spec.selector"),
)
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
        *("PersistentVolume", "", "persistentvolumes", _volume, *VOLUME_SPEC, "status.phase"),
        *("metadata.labels", "metadata.annotations", "metadata.deletionTimestamp"),
    ),
    _kind(
        *("PersistentVolumeClaim", "", "persistentvolumeclaims", _claim, *CLAIM_SPEC),
        *("status.phase", "metadata.annotations", "metadata.deletionTimestamp"),
        "metadata.ownerReferences",
    ),
    _kind(
        *("StorageClass", STORAGE, "storageclasses", _storage_class),
        *("provisioner", "volumeBindingMode", "allowedTopologies"),
    ),
    _kind("CSINode", STORAGE, "csinodes", _csi_node, "spec.drivers"),
    _kind("CSIDriver", STORAGE, "csidrivers", _csi_driver, "spec.storageCapacity"),
    _kind(
        *("CSIStorageCapacity", STORAGE, "csistoragecapacities", _csi_capacity),
        *("storageClassName", "nodeTopology", "capacity", "maximumVolumeSize"),
    ),
    _kind(
        *("VolumeAttachment", STORAGE, "volumeattachments", _attachment),
        *("spec.attacher", "spec.nodeName", "spec.source"),
    ),
)
