"""VolumeBinding: pods with bound claims fit where their volumes are reachable; pods with claims
that wait for their first consumer fit where a volume exists for them or can be provisioned.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from shared.model.cluster_objects import (
    CSIStorageCapacity,
    LabelSelector,
    PersistentVolume,
    PersistentVolumeClaim,
)
from shared.model.objects import PodSpec, Requirement, SelectorTerm
from shared.model.pod_rules.selectors import holds
from shared.model.volumes import Choice, ClaimUse
from shared.scheduling.plugins.node_affinity import term_matches
from shared.scheduling.plugins.resource_scores import FULL, on_curve
from shared.scheduling.table.layout import I64, Mask
from shared.scheduling.table.table import NodeTable
from shared.scheduling.volumes.migration import migrated_affinity
from shared.scheduling.volumes.storage import Storage, is_owned

NAME = "VolumeBinding"
NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
NOT_THERE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
LOST, AVAILABLE = "Lost", "Available"

Shape = tuple[tuple[int, int], ...]
"""Scores of 0..100 by the utilization in percent, which rises."""


class VolumeBinding:
    """The rule for one pod; `rejects`: its PreFilter's message if it rejects the pod."""

    def __init__(self, table: NodeTable, spec: PodSpec) -> None:
        self._table = table
        self._bound, self._waiting, self.rejects = claims_of(table.storage, spec)
        self._refused: list[tuple[str, Mask]] = []
        self._given: list[tuple[PersistentVolumeClaim, PersistentVolume, Mask]] = []
        self._made: list[tuple[PersistentVolumeClaim, Mask]] = []
        if not self.rejects and (self._bound or self._waiting):
            self._refused = [*self._reachable(), *self._bindable()]
            order = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, NOT_THERE)
            self._refused.sort(key=lambda one: order.index(one[0]))

    @property
    def apply(self) -> bool:
        """Return whether a node is refused."""
        return bool(self.rejects) or any(bool(mask.any()) for _, mask in self._refused)

    def refusals(self) -> Iterator[tuple[str, Mask, bool]]:
        """Yield the refusals: (message, nodes, resolvable)."""
        return ((message, mask, False) for message, mask in self._refused)

    def choices(self, row: int) -> tuple[Choice, ...]:
        """Return the choices of the waiting claims for a feasible node."""
        given = {claim.uid: one for claim, one, here in self._given if here[row]}
        return tuple(_choice(claim, given.get(claim.uid)) for claim in self._waiting)

    def scores(self, shape: Shape) -> I64 | None:
        """Return 0..100 for each node by what its storage has left once it holds the waiting
        claims: the mean over their classes, by `shape`. Volumes that exist count, or else what is
        to be provisioned where the capacity is known. None: 0 everywhere.
        """
        if not self._waiting or self.rejects:
            return None
        size = self._table.size
        by_class: dict[str, _Space] = {}
        is_given = np.zeros(size, np.bool_)
        for claim, volume, here in self._given:
            is_given |= here
            space = by_class.setdefault(volume.storage_class, _Space(size))
            space.requested += here * claim.request_bytes
            space.capacity += here * volume.capacity_bytes
            space.counts |= here
        for claim, wanted in self._made:
            capacity = self._capacity_for(claim)
            if capacity is None:
                continue
            there = wanted & (capacity >= 0) & ~is_given
            space = by_class.setdefault(claim.storage_class, _Space(size))
            space.requested += there * claim.request_bytes
            space.capacity = np.where(there, capacity, space.capacity)
            space.counts |= there
        return _mean(by_class.values(), shape, size)

    # ------------------------------------------------------------------------ bound claims

    def _reachable(self) -> Iterator[tuple[str, Mask]]:
        """Yield the nodes that a bound claim's volume cannot reach; the first such claim gives the
        reason.
        """
        if not any(map(self._is_particular, self._bound)):
            return
        conflict, missing = (np.zeros(self._table.size, np.bool_) for _ in range(2))
        for claim in self._bound:
            volume = self._table.storage.volumes.get(claim.volume)
            if volume is None:
                missing |= ~conflict
                break
            if volume.node_affinity or volume.in_tree:
                conflict |= ~self._reached(volume)
        yield NODE_CONFLICT, conflict
        yield NOT_THERE, missing

    def _is_particular(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether a bound claim's volume is missing, or not reachable from every node."""
        volume = self._table.storage.volumes.get(claim.volume)
        return volume is None or bool(volume.node_affinity or volume.in_tree)

    def _reached(self, volume: PersistentVolume) -> Mask:
        """Return the nodes from which a bound volume is reachable."""
        reached = _matches(self._table, volume.node_affinity)
        if not volume.in_tree:
            return reached
        table, kind = self._table, volume.in_tree
        migrated = table.storage.csi.migrated(kind, table.nodes, table.static_version)
        if not migrated.any():
            return reached
        return np.where(migrated, _matches(self._table, migrated_affinity(volume)), reached)

    # ------------------------------------------------------------------------ waiting claims

    def _bindable(self) -> Iterator[tuple[str, Mask]]:
        """Yield the nodes without a volume or provisioner for a claim; the first such claim gives
        the reason.
        """
        if not self._waiting:
            return
        nowhere, too_small = (np.zeros(self._table.size, np.bool_) for _ in range(2))
        self._made = self._to_make(nowhere)
        for claim, wanted in self._made:
            wanted = wanted & ~nowhere & ~too_small
            if not wanted.any():
                continue
            makes = self._makes(claim)
            nowhere |= wanted & ~makes
            too_small |= wanted & makes & ~self._has_room(claim)
        yield BIND_CONFLICT, nowhere
        yield NOT_ENOUGH_SPACE, too_small

    def _to_make(self, nowhere: Mask) -> list[tuple[PersistentVolumeClaim, Mask]]:
        """Return the claims that need provisioning, and on which nodes. A claim that has chosen its
        node before keeps it: the pod fits on none of the others (`nowhere`).
        """
        found = []
        for claim in self._waiting:
            if claim.selected_node is not None:
                chosen = np.array([n.name == claim.selected_node for n in self._table.nodes], bool)
                nowhere |= ~chosen
                found.append((claim, chosen))
        free = [claim for claim in self._waiting if claim.selected_node is None]
        # The smallest claim gets the smallest volume first.
        free.sort(key=lambda claim: claim.request_bytes)
        taken: dict[str, Mask] = {}
        return found + [(claim, ~self._finds(claim, taken)) for claim in free]

    def _finds(self, claim: PersistentVolumeClaim, taken: dict[str, Mask]) -> Mask:
        """Return the nodes with a volume for the claim. `taken`: where volumes went to earlier
        claims; the claim's own are added.
        """
        table = self._table
        usable = [
            one
            for one in table.storage.volumes_of_class(claim.storage_class)
            if _may_be(one, claim)
        ]
        undecided, found = np.ones(table.size, np.bool_), np.zeros(table.size, np.bool_)
        for volume in sorted(usable, key=lambda one: one.claim is None):
            left = undecided & ~taken.get(volume.name, ~undecided)
            here = left & _matches(table, volume.node_affinity)
            if volume.claim is not None:
                # It is reserved for the claim: no other will do, even where this one is
                # unavailable.
                undecided &= ~left
            elif not _is_free_for(volume, claim):
                continue
            undecided &= ~here
            found |= here
            self._given.append((claim, volume, here))
            taken[volume.name] = taken.get(volume.name, False) | here
            if not undecided.any():
                break
        return found

    def _makes(self, claim: PersistentVolumeClaim) -> Mask:
        """Return the nodes for which the claim's class provisions volumes."""
        storage_class = self._table.storage.classes[claim.storage_class]
        if storage_class.provisioner in ("", NO_PROVISIONER):
            return np.zeros(self._table.size, np.bool_)
        return _matches(self._table, storage_class.topologies)

    def _has_room(self, claim: PersistentVolumeClaim) -> Mask:
        """Return the nodes that can reach enough storage capacity, as far as the driver
        reports it.
        """
        capacity = self._capacity_for(claim)
        return np.ones(self._table.size, np.bool_) if capacity is None else capacity >= 0

    def _capacity_for(self, claim: PersistentVolumeClaim) -> I64 | None:
        """Return the capacity in bytes that each node can reach and that is enough, -1 where there
        is none; None if the driver reports nothing. Where several are enough, kube-scheduler takes
        any of them, and Muster the first by name.
        """
        table, name = self._table, claim.storage_class
        driver = table.storage.drivers.get(table.storage.classes[name].provisioner)
        if driver is None or not driver.storage_capacity or not claim.request_bytes:
            return None
        found = np.full(table.size, -1, np.int64)
        for _, one in sorted(table.storage.capacities.get(name, {}).items()):
            if one.topology is not None and _holds(one, claim.request_bytes):
                reached = _selected(table, one.topology) & (found < 0)
                found[reached] = one.capacity_bytes or 0
        return found


Claims = list[PersistentVolumeClaim]


class _Space:
    """Storage of one class by node: bytes requested, bytes there, and whether it counts."""

    def __init__(self, size: int) -> None:
        self.requested, self.capacity = np.zeros(size, np.int64), np.zeros(size, np.int64)
        self.counts = np.zeros(size, np.bool_)


def _mean(spaces: Iterable[_Space], shape: Shape, size: int) -> I64 | None:
    """Return the mean of the classes' scores, rounded; None if it is 0 everywhere."""
    curve = np.array([on_curve(shape, at) for at in range(FULL + 1)], np.int64)
    total, classes = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for space in spaces:
        is_full = (space.capacity == 0) | (space.requested > space.capacity)
        percent = FULL * space.requested // np.maximum(space.capacity, 1)
        total += space.counts * curve[np.where(is_full, FULL, percent)]
        classes += space.counts
    if not total.any():
        return None
    some = np.maximum(classes, 1)
    found: I64 = (2 * total + some) // (2 * some)
    return found


def claims_of(storage: Storage, spec: PodSpec) -> tuple[Claims, Claims, str | None]:
    """Return a pod's bound claims and those that wait for it, or what is wrong with one of them."""
    uses = [one for one in spec.volumes if isinstance(one, ClaimUse)]
    for use in uses:
        wrong = _wrong_with(storage.claim_of(spec.namespace, use), use, spec.namespace)
        if wrong:
            return [], [], wrong
    rejected = None
    bound: Claims = []
    waiting: Claims = []
    for use in uses:
        claim = storage.claim_of(spec.namespace, use)
        assert claim is not None
        storage_class = storage.classes.get(claim.storage_class)
        if claim.volume and claim.is_bind_completed:
            bound.append(claim)
        elif claim.volume or storage_class is None or not storage_class.waits_for_consumer:
            rejected = UNBOUND
        else:
            waiting.append(claim)
    return bound, waiting, rejected


def waiting_claims(storage: Storage, spec: PodSpec) -> Claims:
    """Return the claims whose volumes are chosen with the node, if the pod can run at all."""
    _, waiting, rejected = claims_of(storage, spec)
    return [] if rejected else waiting


def _wrong_with(claim: PersistentVolumeClaim | None, use: ClaimUse, namespace: str) -> str | None:
    """Return why the pod cannot run anywhere until the claim changes."""
    if claim is None:
        if use.pod:
            wait = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
            return f'{wait} "{use.name}"'
        return f'persistentvolumeclaim "{use.name}" not found'
    what = f'persistentvolumeclaim "{claim.name}"'
    if claim.phase == LOST:
        return f'{what} bound to non-existent persistentvolume "{claim.volume}"'
    if claim.is_leaving:
        return f"{what} is being deleted"
    if not is_owned(use, claim):
        pod = f"pod {namespace}/{use.pod}"
        return f"PVC {namespace}/{claim.name} was not created for {pod} (pod is not owner)"
    return None


def _choice(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> Choice:
    identity = claim.namespace, claim.name, claim.uid
    return Choice(*identity) if volume is None else Choice(*identity, volume.name, volume.uid)


def reached_from(table: NodeTable, volume: PersistentVolume, row: int) -> bool:
    """Return whether a node can use a volume."""
    return bool(_matches(table, volume.node_affinity)[row])


def _may_be(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is large enough, of the right kind, and reserved for no other
    claim.
    """
    kept = volume.claim
    if kept is not None and (
        (kept.namespace, kept.name) != (claim.namespace, claim.name)
        or (kept.uid and kept.uid != claim.uid)
    ):
        return False
    return (
        volume.capacity_bytes >= claim.request_bytes
        and volume.is_block == claim.is_block
        and volume.attributes_class == claim.attributes_class
        and not volume.is_leaving
    )


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether an unbound volume matches the claim's request."""
    return (
        volume.phase == AVAILABLE
        and (claim.selector is None or holds(_needs(claim.selector), dict(volume.labels)))
        and set(claim.access_modes) <= set(volume.access_modes)
    )


def _holds(capacity: CSIStorageCapacity, wanted_bytes: int) -> bool:
    limit = capacity.volume_bytes_max
    limit = capacity.capacity_bytes if limit is None else limit
    return limit is not None and limit >= wanted_bytes


def _needs(selector: LabelSelector) -> tuple[Requirement, ...]:
    labels = (Requirement(key, "In", (value,)) for key, value in selector.match_labels)
    return (*labels, *selector.match_expressions)


def _selected(table: NodeTable, selector: LabelSelector) -> Mask:
    needs = _needs(selector)
    if not needs:
        return np.ones(table.size, np.bool_)
    return term_matches(table, SelectorTerm(needs))


def _matches(table: NodeTable, terms: tuple[SelectorTerm, ...]) -> Mask:
    """Return the nodes that one of the terms selects; all without terms. kube-scheduler reads only
    labels here and ignores node names.
    """
    if not terms:
        return np.ones(table.size, np.bool_)
    found = np.zeros(table.size, np.bool_)
    for term in terms:
        if term.fields and not term.labels:
            return np.ones(table.size, np.bool_)
        found |= term_matches(table, SelectorTerm(term.labels))
    return found
