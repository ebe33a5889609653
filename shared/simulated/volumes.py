"""Binds claims in a simulated cluster and makes volumes for them: after a delay, and not always. A
claim with immediate binding is bound as soon as there is a volume for it.
"""

import random
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from shared.model.api_outcome import Answer
from shared.model.cluster_objects import (
    ClaimRef,
    ClusterObject,
    LabelSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from shared.model.objects import Requirement, Selector
from shared.model.pod_rules.selectors import holds
from shared.ports.cluster import VolumeRequest

T = TypeVar("T", bound=ClusterObject)
AVAILABLE, BOUND, LOST, PENDING = "Available", "Bound", "Lost", "Pending"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class SimVolumes:
    """`objects` are the cluster's, by uid; `change` replaces one; `later` schedules a call of
    `settle`.
    """

    def __init__(
        self,
        objects: Mapping[str, ClusterObject],
        change: Callable[[ClusterObject], None],
        later: Callable[[str], None],
    ) -> None:
        """Start with nothing scheduled."""
        self._objects, self._change, self._later = objects, change, later
        self._classes: dict[str, str] = {}  # uids by name
        self._due: dict[str, None] = {}  # claims with immediate binding that wait for a volume
        self._asked: set[str] = set()  # claims to look at

    def start(self) -> None:
        """Take stock: volumes are free, and claims with immediate binding are due."""
        for one in list(self._objects.values()):
            self.changed(one)

    def changed(self, one: ClusterObject) -> None:
        """Note an object that was added or changed."""
        match one:
            case PersistentVolumeClaim():
                self._due.pop(one.uid, None)
                if self._is_due(one):
                    self._due[one.uid] = None
                    self._ask(one.uid)
            case PersistentVolume(claim=None) if one.phase in ("", PENDING):
                self._change(replace(one, phase=AVAILABLE))
            case PersistentVolume() if one.phase != BOUND:
                for uid in self._due:
                    self._ask(uid)
            case StorageClass():
                self._classes[one.name] = one.uid
                for claim in self._all(PersistentVolumeClaim):
                    self.changed(claim)

    def _ask(self, uid: str) -> None:
        """Schedule one look at a claim."""
        if uid not in self._asked:
            self._asked.add(uid)
            self._later(uid)

    def _is_due(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether a claim with immediate binding is to be bound."""
        of = self._class(claim)
        waits = of is not None and of.waits_for_consumer
        return not (waits or claim.is_bind_completed or claim.is_leaving or claim.phase == LOST)

    def _class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self._of(StorageClass, self._classes.get(claim.storage_class, ""))

    def _all(self, kind: type[T]) -> list[T]:
        return [one for one in self._objects.values() if isinstance(one, kind)]

    def write(self, request: VolumeRequest) -> Answer:
        """Carry out a write under the preconditions of the API server."""
        choice = request.choice
        if not choice.volume:
            return self._select(request)
        volume = self._of(PersistentVolume, choice.volume_uid)
        if volume is None:
            return Answer.GONE
        ref = ClaimRef(choice.namespace, choice.claim, choice.claim_uid)
        if volume.claim == ref:
            return Answer.DONE
        if volume.claim not in (None, replace(ref, uid="")):
            return Answer.REFUSED
        self._change(replace(volume, claim=ref))
        self._later(choice.claim_uid)
        return Answer.DONE

    def _select(self, request: VolumeRequest) -> Answer:
        claim = self._of(PersistentVolumeClaim, request.choice.claim_uid)
        if claim is None:
            return Answer.GONE
        if claim.selected_node is not None:
            return Answer.DONE if claim.selected_node == request.node else Answer.REFUSED
        self._change(replace(claim, selected_node=request.node))
        self._later(claim.uid)
        return Answer.DONE

    def settle(self, uid: str, draw: random.Random, failure: float) -> None:
        """Bind a claim to its volume or to a new one; or, with this probability, make none, so that
        its pod must be placed again.
        """
        claim = self._of(PersistentVolumeClaim, uid)
        self._asked.discard(uid)
        if claim is not None and self._is_due(claim):
            self._bind(claim, self._volume_for(claim))
            return
        if claim is None or claim.volume:
            return
        volumes = self._all(PersistentVolume)
        bound = (one for one in volumes if one.claim is not None and one.claim.uid == uid)
        volume = next(bound, None)
        if volume is None and not claim.selected_node:
            return  # it waits for its first consumer
        if volume is None and failure and draw.random() < failure:
            self._change(replace(claim, selected_node=None))
            return
        if volume is None:
            volume = _made_for(claim)
        self._bind(claim, volume)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> None:
        if volume is not None:
            ref = ClaimRef(claim.namespace, claim.name, claim.uid)
            self._change(replace(volume, claim=ref, phase=BOUND))
            self._change(replace(claim, volume=volume.name, is_bind_completed=True, phase=BOUND))

    def _volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """Return the volume for a claim with immediate binding: the one it names, else the smallest
        suitable one, else a new one.
        """
        free = [one for one in self._all(PersistentVolume) if _may_have(one, claim)]
        if claim.volume:
            return next((one for one in free if one.name == claim.volume), None)
        kept = [one for one in free if one.claim is not None]
        fits = [one for one in free if one.claim is None and _suits(one, claim)]
        if kept or fits:
            return min(kept or fits, key=lambda one: (one.capacity_bytes, one.name))
        of = self._class(claim)
        return _made_for(claim) if of and of.provisioner not in ("", NO_PROVISIONER) else None

    def _of(self, kind: type[T], uid: str) -> T | None:
        found = self._objects.get(uid)
        return found if isinstance(found, kind) else None


def _may_have(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is not another claim's, and large enough."""
    reference = ClaimRef(claim.namespace, claim.name, claim.uid)
    return (
        volume.claim in (None, reference, replace(reference, uid=""))
        and not volume.is_leaving
        and volume.capacity_bytes >= claim.request_bytes
        and volume.is_block == claim.is_block
        and volume.storage_class == claim.storage_class
        and volume.attributes_class == claim.attributes_class
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a free volume matches what the claim asks for."""
    wanted, labels = claim.selector, dict(volume.labels)
    return (
        volume.phase == AVAILABLE
        and set(claim.access_modes) <= set(volume.access_modes)
        and (wanted is None or holds(_needs(wanted), labels))
    )


def _needs(selector: LabelSelector) -> Selector:
    same = (Requirement(key, "In", (value,)) for key, value in selector.match_labels)
    return (*same, *selector.match_expressions)


def _made_for(claim: PersistentVolumeClaim) -> PersistentVolume:
    return PersistentVolume(
        uid=f"pv.{claim.uid}",
        name=f"pvc-{claim.uid}".lower(),
        capacity_bytes=claim.request_bytes,
        access_modes=claim.access_modes,
        is_block=claim.is_block,
        storage_class=claim.storage_class,
        claim=ClaimRef(claim.namespace, claim.name, claim.uid),
    )
