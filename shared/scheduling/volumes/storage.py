"""Claims, volumes and what makes them, by the names under which they are looked up.

Which volume stands behind a claim is asked anew each time: claims get bound while pods use them.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

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
from shared.model.volumes import Choice, ClaimUse, PodVolume
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
"""A driver, and what it knows the volume by."""


class Storage:
    """Everything about volumes that is not a pod's own; `version` rises with changes. Of several
    objects of a kind and name the one that was told last counts.
    """

    def __init__(self, objects: Iterable[StorageObject] = ()) -> None:
        """Holds `objects`."""
        self.version = 0
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
        # Caches, and what they need to know: who speaks of a volume.
        self.csi = CsiColumns(self.csi_nodes)
        self.changes = StorageChanges()
        self._claims_of: dict[str, list[Name]] = {}
        self._nodes_of: dict[str, list[str]] = {}
        # What reservations hold, until facts say it: volumes for claims, nodes for claims.
        self._kept: dict[str, list[ClaimRef]] = {}
        self._chosen: dict[Name, list[str]] = {}
        for one in objects:
            self.put(one)

    def assume(self, choice: Choice, node: str) -> None:
        """A reservation on a node holds a volume for a claim, or the claim for the node."""
        if choice.volume:
            ref = ClaimRef(choice.namespace, choice.claim, choice.claim_uid)
            self._kept.setdefault(choice.volume, []).append(ref)
        else:
            self._chosen.setdefault((choice.namespace, choice.claim), []).append(node)
        self._show(choice)

    def give_back(self, choice: Choice, node: str) -> None:
        """The reservation is no more, or facts show what it stood for."""
        if choice.volume:
            ref = ClaimRef(choice.namespace, choice.claim, choice.claim_uid)
            _drop(self._kept, choice.volume, ref)
        else:
            _drop(self._chosen, (choice.namespace, choice.claim), node)
        self._show(choice)

    def _show(self, choice: Choice) -> None:
        """Look at what a choice is about with other eyes."""
        self.version += 1
        claim = PersistentVolumeClaim.__name__, choice.namespace, choice.claim
        for key in ((PersistentVolume.__name__, "", choice.volume), claim):
            fact = self._held.get(key)
            if fact is not None:
                for table, name in self._places(fact):
                    table[name] = self._as_held(fact)

    def _as_held(self, fact: StorageObject) -> StorageObject:
        """An object as reservations leave it to others."""
        match fact:
            case PersistentVolume(claim=None) if fact.name in self._kept:
                return replace(fact, claim=self._kept[fact.name][0])
            case PersistentVolumeClaim(volume="", selected_node=None):
                nodes = self._chosen.get((fact.namespace, fact.name))
                return replace(fact, selected_node=nodes[0]) if nodes else fact
        return fact

    def objects(self) -> list[StorageObject]:
        """All of them, in the order of their kinds and names."""
        return [one for _, one in sorted(self._held.items(), key=lambda held: held[0])]

    def put(self, one: StorageObject) -> None:
        """Take in an object that is new, or another than before."""
        self.version += 1
        key = (type(one).__name__, one.namespace, one.name)
        before = self._held.get(key)
        if before is not None:
            self._forget(before)
            del self._names[before.uid]
        self._held[key], self._names[one.uid] = one, key
        for table, name in self._places(one):
            table[name] = self._as_held(one)
        for spoken, volume, who in self._speaks_of(one):
            spoken.setdefault(volume, []).append(who)
        self._touch(one)

    def remove(self, uid: str) -> None:
        """An object is gone; one that nobody knows any more is none."""
        key = self._names.pop(uid, None)
        if key is not None:
            self.version += 1
            self._forget(self._held.pop(key))

    def _forget(self, one: StorageObject) -> None:
        for table, name in self._places(one):
            del table[name]
        for spoken, volume, who in self._speaks_of(one):
            _drop(spoken, volume, who)
        self._touch(one)

    def _speaks_of(self, one: StorageObject) -> list[tuple[dict[str, list[Any]], str, Any]]:
        """Where it is kept that an object speaks of a volume: table, volume, and as what."""
        match one:
            case PersistentVolumeClaim() if one.volume:
                return [(self._claims_of, one.volume, (one.namespace, one.name))]
            case VolumeAttachment():
                return [(self._nodes_of, one.volume, one.node)]
        return []

    def _touch(self, one: StorageObject) -> None:
        """What counts of volumes have to look at again, now that this comes or goes."""
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
                self.changes.everything()  # any claim without a volume may be of it
            case CSINode():
                self.csi.forget()
                self.changes.node(one.name)

    def _places(self, one: StorageObject) -> list[tuple[dict[Any, Any], Any]]:
        """The tables that an object is in, and its name in each."""
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

    def volumes_of_class(self, storage_class: str) -> list[PersistentVolume]:
        """Volumes of a class, the smallest first, equal ones by name."""
        found = self._by_class.get(storage_class, {}).values()
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

    def attached_to(self, node: str, volume: Attached) -> Attached | None:
        """As what a volume counts on one node; None = it does not there."""
        plugin, handle = volume
        if plugin not in DRIVERS_BY_NODE:
            return volume
        known = self.csi_nodes.get(node)
        is_told = known is not None and plugin in known.migrated
        return (DRIVERS_BY_NODE[plugin], handle) if is_told else None

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
    """Whether the claim is the one meant: that of an ephemeral volume belongs to its pod."""
    return not use.pod or (claim.controller != "" and claim.controller == use.owner)
