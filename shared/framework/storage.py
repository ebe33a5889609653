"""Claims, volumes and what makes them, by the names under which they are looked up.

Which volume stands behind a claim is asked anew each time: claims get bound while pods use them.
"""

from collections.abc import Iterable

from shared.framework.migration import (
    DRIVERS,
    PROVISIONERS,
    handle_of,
    volume_handle,
)
from shared.model.cluster_objects import (
    ClusterObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from shared.model.volumes import ClaimUse, PodVolume

Name = tuple[str, str]
"""Namespace and name."""
Attached = tuple[str, str]
"""A driver, and what it knows the volume by."""


class Storage:
    """Everything about volumes that is not a pod's own; `version` rises with changes."""

    def __init__(self, objects: Iterable[ClusterObject] = ()) -> None:
        """Holds `objects`, those about volumes."""
        self.version = 0
        self.claims: dict[Name, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, list[CSIStorageCapacity]] = {}
        self.attachments: dict[str, list[VolumeAttachment]] = {}
        self._by_class: dict[str, list[PersistentVolume]] = {}
        for one in objects:
            self._put(one)

    def _put(self, one: ClusterObject) -> None:
        self.version += 1
        match one:
            case PersistentVolumeClaim():
                self.claims[one.namespace, one.name] = one
            case PersistentVolume():
                self.volumes[one.name] = one
                self._by_class.setdefault(one.storage_class, []).append(one)
            case StorageClass():
                self.classes[one.name] = one
            case CSINode():
                self.csi_nodes[one.name] = one
            case CSIDriver():
                self.drivers[one.name] = one
            case CSIStorageCapacity():
                self.capacities.setdefault(one.storage_class, []).append(one)
            case VolumeAttachment():
                self.attachments.setdefault(one.node, []).append(one)

    def volumes_of_class(self, storage_class: str) -> list[PersistentVolume]:
        """Volumes of a class, the smallest first, equal ones by name."""
        found = self._by_class.get(storage_class, [])
        return sorted(found, key=lambda one: (one.capacity_bytes, one.name))

    def claim_of(self, namespace: str, use: ClaimUse) -> PersistentVolumeClaim | None:
        """The claim that a pod means; None when there is none."""
        return self.claims.get((namespace, use.name))

    def attached(self, namespace: str, use: PodVolume) -> Attached | None:
        """As what a pod's volume counts on its node; None = nobody counts it."""
        if not isinstance(use, ClaimUse):
            return _known(DRIVERS.get(use.kind, ""), handle_of(use.kind, use.name))
        claim = self.claim_of(namespace, use)
        if claim is None or not is_owned(use, claim):
            return None
        volume = self.volumes.get(claim.volume)
        if volume is None:
            return self._to_come(claim)
        if volume.in_tree:
            return _known(DRIVERS.get(volume.in_tree, ""), volume_handle(volume))
        return _known(volume.driver, volume.handle)

    def _to_come(self, claim: PersistentVolumeClaim) -> Attached | None:
        """A volume that is not there yet counts as one of its class's driver."""
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None:
            return None
        provisioner = storage_class.provisioner
        driver = PROVISIONERS.get(provisioner, provisioner)
        # No driver's handle begins like this.
        return _known(driver, f"\0{claim.namespace}/{claim.name}")

    def attachments_at(self, node: str) -> set[Attached]:
        """What is, or is to be, attached to a node whichever pods there are."""
        found = set()
        for one in self.attachments.get(node, ()):
            volume = self.volumes.get(one.volume)
            if one.attacher and volume is not None and volume.driver:
                found.add((one.attacher, volume.handle))
        return found


def _known(driver: str, handle: str) -> Attached | None:
    return (driver, handle) if driver and handle else None


def is_owned(use: ClaimUse, claim: PersistentVolumeClaim) -> bool:
    """Whether the claim is the one meant: that of an ephemeral volume belongs to its pod."""
    return not use.pod or (claim.controller != "" and claim.controller == use.owner)
