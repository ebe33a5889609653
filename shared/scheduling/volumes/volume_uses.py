"""The volumes that the pods of each node use, updated as pods come and go.

By name: a claim used by several pods of a node is counted as often. storage.py resolves the names;
both together give what is attached to a node.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from shared.model.objects import Node
from shared.model.volumes import ClaimUse, Disk, PodVolume
from shared.scheduling.table.layout import I64
from shared.scheduling.table.multiset import add
from shared.scheduling.volumes.storage import Attached, Storage
from shared.scheduling.volumes.storage_changes import NODE, Touched

Use = tuple[str, PodVolume]
"""A volume, with the namespace of the pod that uses it."""
Uses = dict[Use, int]
"""The number of pods by use."""
Place = tuple[str, ...]


def place_of(use: Use) -> Place:
    """Return the index key of a use: the claim, or the disk in any access mode."""
    namespace, volume = use
    if isinstance(volume, ClaimUse):
        return "claim", namespace, volume.name
    return volume.kind, volume.pool, volume.name


class AttachedColumns:
    """The number of attached volumes of each driver by node, and the nodes of each volume."""

    def __init__(self, storage: Storage, nodes: Sequence[Node]) -> None:
        self._storage, self._nodes = storage, nodes
        self._counts: dict[str, I64] = {}
        self._by_pods: dict[int, set[Attached]] = {}
        self._all: dict[int, set[Attached]] = {}
        self._rows: dict[Attached, set[int]] = {}
        self.names = {node.name: row for row, node in enumerate(nodes)}

    def count(self, driver: str) -> I64:
        """Return the driver's volumes on each node, shape (n,). Read-only for the caller."""
        found = self._counts.get(driver)
        return np.zeros(len(self._nodes), np.int64) if found is None else found

    def rows(self, volume: Attached) -> set[int]:
        """Return the nodes whose pods use a volume already."""
        return self._rows.get(volume, set())

    def write(self, row: int, uses: Uses) -> None:
        """Update the uses of one node."""
        by_pods, everything = self.of(row, uses)
        for volume in self._by_pods.get(row, ()):
            self._rows[volume].discard(row)
            if not self._rows[volume]:
                del self._rows[volume]
        for volume in by_pods:
            self._rows.setdefault(volume, set()).add(row)
        for volumes, sign in ((self._all.get(row, set()), -1), (everything, 1)):
            for driver, _ in volumes:
                if driver not in self._counts:
                    self._counts[driver] = np.zeros(len(self._nodes), np.int64)
                self._counts[driver][row] += sign
        self._by_pods[row], self._all[row] = by_pods, everything

    def of(self, row: int, uses: Uses) -> tuple[set[Attached], set[Attached]]:
        """Return what pods with these uses attach to a node, and what is attached in all."""
        storage, node = self._storage, self._nodes[row].name
        found = (storage.attached(*use) for use in uses)
        there = (storage.attached_to(node, one) for one in found if one is not None)
        by_pods = {one for one in there if one is not None}
        return by_pods, by_pods | storage.attachments_at(node)


class VolumeUses:
    """Uses by row of the node table, and the rows of each claim and disk."""

    def __init__(self) -> None:
        self.rows: dict[int, Uses] = {}
        self.places: dict[Place, dict[int, int]] = {}
        self._attached: AttachedColumns | None = None
        self._attached_of: tuple[Storage | None, int] = (None, -1)
        self._seen = 0  # position in that storage's changes
        self._stale: set[int] = set()  # rows whose part of `_attached` is old

    def charge(self, uses: Sequence[Use], row: int, sign: int) -> None:
        """Add (+1) or remove (-1) a pod with these volumes on a row."""
        here = self.rows.setdefault(row, {})
        add(here, uses, sign)
        if not here:
            del self.rows[row]
        for use in uses:
            rows = self.places.setdefault(place_of(use), {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]
        self._stale.add(row)

    def at(self, use: Use) -> Iterable[int]:
        """Return the rows with pods that use the same claim or disk, in any way."""
        return self.places.get(place_of(use), ())

    def attached(self, storage: Storage, nodes: Sequence[Node], version: int) -> AttachedColumns:
        """Return what is attached to these nodes; `version` rises when they change."""
        touched = storage.changes.since(self._seen)
        of = storage, version
        if self._attached is None or self._attached_of != of or touched is None:
            self._attached, self._attached_of = AttachedColumns(storage, nodes), of
            named = (row for row, node in enumerate(nodes) if node.name in storage.attachments)
            self._stale = {*self.rows, *named}
        else:
            self._touch(touched, self._attached.names)
        self._seen = storage.changes.position
        for row in self._stale:
            self._attached.write(row, self.rows.get(row, {}))
        self._stale.clear()
        return self._attached

    def _touch(self, touched: Iterable[Touched], names: Mapping[str, int]) -> None:
        """Mark the rows of changed claims and nodes for recomputation."""
        for one in touched:
            if one[0] != NODE:
                self._stale.update(self.places.get(one, ()))
            elif one[2] in names:
                self._stale.add(names[one[2]])

    def keep(self, order: I64) -> None:
        """Reorder the rows: they become those of `order`."""
        if not self.rows:
            return
        before, self.rows, self.places = self.rows, {}, {}
        for row, old in enumerate(order.tolist()):
            for use, count in before.get(old, {}).items():
                for _ in range(count):
                    self.charge((use,), row, 1)
        self._attached = None

    def copy(self) -> "VolumeUses":
        """Return an independent copy."""
        twin = VolumeUses()
        twin.rows = {row: dict(uses) for row, uses in self.rows.items()}
        twin.places = {place: dict(rows) for place, rows in self.places.items()}
        return twin


def same_disk(one: Disk, other: Disk) -> bool:
    """Return whether both are the same disk of one kind, with at least one common monitor."""
    named = (one.kind, one.pool, one.name) == (other.kind, other.pool, other.name)
    return named and (not one.monitors or not set(one.monitors).isdisjoint(other.monitors))
