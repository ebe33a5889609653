"""Claims, volumes, classes and other storage objects, by name.

The volume of a claim is looked up each time: claims get bound while pods use them.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, assert_never

from msgspec import convert
from msgspec.structs import replace

from shared.model.cluster_objects import (
    ClaimRef,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from shared.model.objects import Node
from shared.model.volumes import PORTWORX, Choice, ClaimUse, PodVolume
from shared.scheduling.table.layout import Mask
from shared.scheduling.volumes.csi_columns import CsiColumns
from shared.scheduling.volumes.migration import (
    DRIVERS,
    DRIVERS_BY_NODE,
    PROVISIONERS,
    handle_of,
    volume_handle,
)
from shared.scheduling.volumes.storage_changes import StorageChanges

K = TypeVar("K")
V = TypeVar("V")

Name = tuple[str, str]
"""Namespace and name."""
Attached = tuple[str, str]
"""A driver, and its handle of the volume."""


class Storage:
    """All storage objects; `version` rises with changes. Of several objects of a kind and name the
    one that arrived last counts.
    """

    def __init__(self, objects: Iterable[StorageObject] = ()) -> None:
        """Start with `objects`."""
        self.version = 0
        # Since 1.36 Portworx' driver has taken over wherever there is a CSINode; before where it
        # says so.
        self.has_portworx_everywhere = False
        self._names: dict[str, tuple[str, str, str]] = {}  # by uid: kind, namespace, name
        self._held: dict[tuple[str, str, str], StorageObject] = {}
        self.claims: dict[Name, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, dict[Name, CSIStorageCapacity]] = {}  # by class
        self.attachments: dict[str, dict[str, VolumeAttachment]] = {}  # by node
        self._by_class: dict[str, dict[str, PersistentVolume]] = {}
        # Caches, and the objects that refer to each volume.
        self.csi = CsiColumns(self.csi_nodes)
        self.changes = StorageChanges()
        self._claims_of: dict[str, list[Name]] = {}
        self._nodes_of: dict[str, list[str]] = {}
        # Assumed by reservations until facts show it: volumes for claims, nodes for claims.
        self._kept: dict[str, list[ClaimRef]] = {}
        self._chosen: dict[Name, list[str]] = {}
        for one in objects:
            self.put(one)

    def assume(self, choice: Choice, node: str) -> None:
        """Assume a volume for a claim, or the claim for the node, for a reservation."""
        if choice.volume:
            ref = ClaimRef(choice.namespace, choice.claim, choice.claim_uid)
            self._kept.setdefault(choice.volume, []).append(ref)
        else:
            self._chosen.setdefault((choice.namespace, choice.claim), []).append(node)
        self._show(choice)

    def release(self, choice: Choice, node: str) -> None:
        """End an assumption: the reservation ended, or facts show it."""
        if choice.volume:
            ref = ClaimRef(choice.namespace, choice.claim, choice.claim_uid)
            _drop(self._kept, choice.volume, ref)
        else:
            _drop(self._chosen, (choice.namespace, choice.claim), node)
        self._show(choice)

    def _show(self, choice: Choice) -> None:
        """Update the view of a choice's claim and volume."""
        self.version += 1
        claim = PersistentVolumeClaim.__name__, choice.namespace, choice.claim
        for key in ((PersistentVolume.__name__, "", choice.volume), claim):
            fact = self._held.get(key)
            if fact is not None:
                for table, name in self._places(fact):
                    table[name] = self._as_held(fact)

    def _as_held(self, fact: StorageObject) -> StorageObject:
        """Return an object with the assumptions applied."""
        match fact:
            case PersistentVolume(claim=None) if fact.name in self._kept:
                return replace(fact, claim=self._kept[fact.name][0])
            case PersistentVolumeClaim(volume="", selected_node=None):
                nodes = self._chosen.get((fact.namespace, fact.name))
                return replace(fact, selected_node=nodes[0]) if nodes else fact
            case _:
                return fact

    def dump(self) -> list[StorageObject]:
        """Return all objects, in the order of kinds and names, without what is assumed."""
        return [one for _, one in sorted(self._held.items(), key=lambda held: held[0])]

    @classmethod
    def load(cls, saved: Any) -> "Storage":
        """Restore what `dump` returned."""
        return cls(convert(saved, list[StorageObject]))

    def put(self, one: StorageObject) -> None:
        """Add or change an object."""
        self.version += 1
        key = (type(one).__name__, one.namespace, one.name)
        before = self._held.get(key)
        if before is not None:
            self._forget(before)
            del self._names[before.uid]
        self._held[key], self._names[one.uid] = one, key
        for table, name in self._places(one):
            table[name] = self._as_held(one)
        for index, volume, user in self._references_of(one):
            index.setdefault(volume, []).append(user)
        self._touch(one)

    def remove(self, uid: str) -> None:
        """Remove an object; an unknown one is ignored."""
        key = self._names.pop(uid, None)
        if key is not None:
            self.version += 1
            self._forget(self._held.pop(key))

    def _forget(self, one: StorageObject) -> None:
        for table, name in self._places(one):
            del table[name]
        for index, volume, user in self._references_of(one):
            _drop(index, volume, user)
        self._touch(one)

    def _references_of(self, one: StorageObject) -> list[tuple[dict[str, list[Any]], str, Any]]:
        """Return where an object's reference to a volume is stored: table, volume, and key."""
        match one:
            case PersistentVolumeClaim() if one.volume:
                return [(self._claims_of, one.volume, (one.namespace, one.name))]
            case VolumeAttachment():
                return [(self._nodes_of, one.volume, one.node)]
            case _:
                return []

    def _touch(self, one: StorageObject) -> None:
        """Note the claims and nodes whose volume counts must be recomputed after this change."""
        match one:
            case PersistentVolumeClaim():
                self.changes.claim(one.namespace, one.name)
            case PersistentVolume():
                for name in self._claims_of.get(one.name, ()):
                    self.changes.claim(*name)
                for node in self._nodes_of.get(one.name, ()):
                    self.changes.node(node)
            case VolumeAttachment():
                self.changes.node(one.node)
            case StorageClass():
                self.changes.everything()  # any claim without a volume may use the class
            case CSINode():
                self.csi.forget()
                self.changes.node(one.name)
            case CSIDriver() | CSIStorageCapacity():
                pass
            case _:
                assert_never(one)

    def _places(self, one: StorageObject) -> list[tuple[dict[Any, Any], Any]]:
        """Return the tables of an object, and its name in each."""
        name = one.namespace, one.name
        match one:
            case PersistentVolumeClaim():
                return [(self.claims, name)]
            case PersistentVolume():
                of_class = self._by_class.setdefault(one.storage_class, {})
                return [(self.volumes, one.name), (of_class, one.name)]
            case StorageClass():
                return [(self.classes, one.name)]
            case CSINode():
                return [(self.csi_nodes, one.name)]
            case CSIDriver():
                return [(self.drivers, one.name)]
            case CSIStorageCapacity():
                return [(self.capacities.setdefault(one.storage_class, {}), name)]
            case VolumeAttachment():
                return [(self.attachments.setdefault(one.node, {}), one.name)]
            case _:
                assert_never(one)

    def volumes_of_class(self, storage_class: str) -> list[PersistentVolume]:
        """Return the volumes of a class, the smallest first, equal ones by name."""
        found = self._by_class.get(storage_class, {}).values()
        return sorted(found, key=lambda one: (one.capacity_bytes, one.name))

    def claim_of(self, namespace: str, use: ClaimUse) -> PersistentVolumeClaim | None:
        """Return the claim of a pod's volume, or None."""
        return self.claims.get((namespace, use.name))

    def attached(self, namespace: str, use: PodVolume) -> Attached | None:
        """Return what a pod's volume counts as on its node, or None."""
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

    def with_portworx(self, nodes: Sequence[Node], version: int) -> Mask:
        """Return the nodes where Portworx' driver has taken over. Read-only for the caller."""
        if self.has_portworx_everywhere:
            return self.csi.present(nodes, version)
        return self.csi.migrated(PORTWORX, nodes, version)

    def is_in_tree(self, namespace: str, use: PodVolume) -> bool:
        """Return whether a volume is of a plugin of Kubernetes' own, whose driver took over."""
        if not isinstance(use, ClaimUse):
            return True
        claim = self.claim_of(namespace, use)
        if claim is None:
            return False
        volume, of = self.volumes.get(claim.volume), self.classes.get(claim.storage_class)
        if volume is not None:
            return bool(volume.in_tree)
        return of is not None and of.provisioner in PROVISIONERS

    def attached_to(self, node: str, volume: Attached) -> Attached | None:
        """Return what a volume counts as on one node, or None."""
        plugin, handle = volume
        if plugin not in DRIVERS_BY_NODE:
            return volume
        known = self.csi_nodes.get(node)
        everywhere = self.has_portworx_everywhere
        has_driver = known is not None and (everywhere or plugin in known.migrated)
        return (DRIVERS_BY_NODE[plugin], handle) if has_driver else None

    def _to_come(self, claim: PersistentVolumeClaim) -> Attached | None:
        """Return what a claim's future volume counts as: one of its class's driver."""
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None:
            return None
        provisioner = storage_class.provisioner
        driver = PROVISIONERS.get(provisioner, provisioner)
        # No driver's handle begins like this.
        return _known(driver, f"\0{claim.namespace}/{claim.name}")

    def attachments_at(self, node: str) -> set[Attached]:
        """Return what is, or will be, attached to a node apart from its pods."""
        found = set()
        for one in self.attachments.get(node, {}).values():
            volume = self.volumes.get(one.volume)
            if one.attacher and volume is not None and volume.driver:
                found.add((one.attacher, volume.handle))
        return found


def _drop(table: dict[K, list[V]], key: K, value: V) -> None:
    table[key].remove(value)
    if not table[key]:
        del table[key]


def _known(driver: str, handle: str) -> Attached | None:
    return (driver, handle) if driver and handle else None


def is_owned(use: ClaimUse, claim: PersistentVolumeClaim) -> bool:
    """Return whether the claim is the pod's: that of an ephemeral volume must belong to its pod."""
    return not use.pod or (claim.controller != "" and claim.controller == use.owner)
