"""Reads volume-related objects, from a live API and from files alike."""

from collections.abc import Callable
from typing import Any

from shared.kubernetes.objects import affinity, quantities
from shared.kubernetes.objects.fields import Fields
from shared.model import cluster_objects as model
from shared.model.cluster_objects import LabelSelector, Pairs, StorageObject
from shared.model.objects import Requirement, SelectorTerm
from shared.model.volumes import AWS, AZURE, CINDER, GCE, PORTWORX

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
DISKS = {
    AWS: "volumeID",
    AZURE: "diskURI",
    CINDER: "volumeID",
    GCE: "pdName",
    PORTWORX: "volumeID",
}
"""In-tree volume types that CSI drivers have taken over, and the field that names the disk."""
MANAGED = "managed"
"""The kind of Azure disks that the CSI driver has."""
TIMES = ("creationTimestamp", "deletionTimestamp")
INT32_MAX = (1 << 31) - 1


def identity(document: Fields) -> dict[str, Any]:
    """Return an object's identity."""
    meta = document.child("metadata")
    uid, name = meta.required_text("uid"), meta.required_text("name")
    return {"uid": uid, "name": name, "namespace": meta.text("namespace")}


def pairs(fields: Fields, key: str) -> Pairs:
    """Return labels, or a selector that compares them."""
    return tuple(sorted(fields.mapping(key).items()))


def selector(fields: Fields, key: str = "selector") -> LabelSelector:
    """Return a LabelSelector."""
    return LabelSelector(*affinity.label_selector(fields.child(key)))


def _bytes(fields: Fields, key: str) -> int | None:
    return fields.quantity(key, quantities.units) if fields.has(key) else None


def _class(meta: Fields, spec: Fields) -> str:
    """Return the storage class; the annotation wins where it is present, even if it is empty."""
    notes = meta.child("annotations")
    return notes.text(BETA_CLASS) if notes.has(BETA_CLASS) else spec.text("storageClassName")


def volume(document: Fields) -> StorageObject:
    """Return a PersistentVolume."""
    meta, spec = document.child("metadata"), document.child("spec")
    csi, claim_ref = spec.child("csi"), None
    if spec.has("claimRef"):
        ref = spec.child("claimRef")
        claim_ref = model.ClaimRef(ref.text("namespace"), ref.text("name"), ref.text("uid"))
    in_tree = next((kind for kind in DISKS if spec.has(kind)), "")
    if in_tree == AZURE and spec.child(AZURE).text("kind").lower() != MANAGED:
        in_tree = ""
    required = spec.child("nodeAffinity").child("required")
    return model.PersistentVolume(
        **identity(document),
        capacity_bytes=_bytes(spec.child("capacity"), "storage") or 0,
        access_modes=spec.texts("accessModes"),
        is_block=spec.text("volumeMode") == "Block",
        storage_class=_class(meta, spec),
        attributes_class=spec.text("volumeAttributesClassName"),
        claim=claim_ref,
        node_affinity=tuple(map(affinity.selector_term, required.children("nodeSelectorTerms"))),
        driver=csi.text("driver"),
        handle=spec.child(in_tree).text(DISKS[in_tree]) if in_tree else csi.text("volumeHandle"),
        in_tree=in_tree,
        labels=pairs(meta, "labels"),
        phase=document.child("status").text("phase"),
        is_leaving=meta.has("deletionTimestamp"),
    )


def claim(document: Fields) -> StorageObject:
    """Return a PersistentVolumeClaim."""
    meta, spec = document.child("metadata"), document.child("spec")
    notes = meta.child("annotations")
    owners = meta.children("ownerReferences")
    return model.PersistentVolumeClaim(
        **identity(document),
        volume=spec.text("volumeName"),
        storage_class=_class(meta, spec),
        attributes_class=spec.text("volumeAttributesClassName"),
        access_modes=spec.texts("accessModes"),
        is_block=spec.text("volumeMode") == "Block",
        request_bytes=_bytes(spec.child("resources").child("requests"), "storage") or 0,
        selector=selector(spec) if spec.has("selector") else None,
        phase=document.child("status").text("phase"),
        selected_node=notes.text(SELECTED_NODE) if notes.has(SELECTED_NODE) else None,
        is_bind_completed=notes.has(BIND_COMPLETED),
        is_leaving=meta.has("deletionTimestamp"),
        controller=next((owner.text("uid") for owner in owners if owner.flag("controller")), ""),
    )


def storage_class(document: Fields) -> StorageObject:
    """Return a StorageClass."""
    return model.StorageClass(
        **identity(document),
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


def csi_node(document: Fields) -> StorageObject:
    """Return a CSINode."""
    drivers = [
        model.NodeDriver(
            one.required_text("name"), _count(one.child("allocatable")), one.texts("topologyKeys")
        )
        for one in document.child("spec").children("drivers")
    ]
    notes = document.child("metadata").child("annotations")
    migrated = sorted({one for one in notes.text(MIGRATED).split(",") if one})
    return model.CSINode(**identity(document), drivers=tuple(drivers), migrated=tuple(migrated))


def _count(allocatable: Fields) -> int | None:
    return allocatable.integer("count", 0, 0, INT32_MAX) if allocatable.has("count") else None


def csi_driver(document: Fields) -> StorageObject:
    """Return a CSIDriver."""
    spec = document.child("spec")
    return model.CSIDriver(
        **identity(document),
        storage_capacity=spec.flag("storageCapacity"),
        is_needed=spec.flag("preventPodSchedulingIfMissing"),
    )


def csi_capacity(document: Fields) -> StorageObject:
    """Return a CSIStorageCapacity."""
    key = "nodeTopology"
    return model.CSIStorageCapacity(
        **identity(document),
        storage_class=document.text("storageClassName"),
        topology=selector(document, key) if document.has(key) else None,
        capacity_bytes=_bytes(document, "capacity"),
        volume_bytes_max=_bytes(document, "maximumVolumeSize"),
    )


def attachment(document: Fields) -> StorageObject:
    """Return a VolumeAttachment."""
    spec = document.child("spec")
    return model.VolumeAttachment(
        **identity(document),
        attacher=spec.text("attacher"),
        node=spec.text("nodeName"),
        volume=spec.child("source").text("persistentVolumeName"),
    )


READERS: dict[str, tuple[Callable[[Fields], StorageObject], bool]] = {
    "PersistentVolume": (volume, False),
    "PersistentVolumeClaim": (claim, True),
    "StorageClass": (storage_class, False),
    "CSINode": (csi_node, False),
    "CSIDriver": (csi_driver, False),
    "CSIStorageCapacity": (csi_capacity, True),
    "VolumeAttachment": (attachment, False),
}
"""How volume-related objects are read, and whether they are namespaced."""


def storage_object(document: Fields) -> StorageObject:
    """Return an object of one of these kinds from a file."""
    read, is_namespaced = READERS[document.text("kind")]
    return read(identified(document, is_namespaced))


def identified(document: Fields, is_namespaced: bool) -> Fields:
    """Return an object from a file with its whole identity; without a uid its name is that."""
    kind, metadata = document.text("kind"), document.child("metadata")
    name = metadata.required_text("name")
    for key in TIMES:
        metadata.time_ms(key)
    namespace = (metadata.text("namespace") or "default") if is_namespaced else ""
    meta = {"uid": f"{kind}.{namespace}.{name}"}
    given = {key: value for key, value in metadata.values.items() if value}
    metadata_of = meta | given | {"namespace": namespace}
    return Fields(document.what, "", {**document.values, "metadata": metadata_of})
