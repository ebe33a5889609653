"""What binds claims in a simulated cluster, and makes volumes for them: a little later, and not
always. A claim that waits for nobody is bound as soon as there is a volume for it.
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
from shared.model.selectors import holds
from shared.ports.cluster import VolumeRequest

T = TypeVar("T", bound=ClusterObject)
AVAILABLE, BOUND, LOST, PENDING = "Available", "Bound", "Lost", "Pending"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


class SimVolumes:
    """`objects` are the cluster's, by uid; `change` replaces one; `later` has `settle` called."""

    def __init__(
        self,
        objects: Mapping[str, ClusterObject],
        change: Callable[[ClusterObject], None],
        later: Callable[[str], None],
    ) -> None:
        """Nothing is under way."""
        self._objects, self._change, self._later = objects, change, later
        self._classes: dict[str, str] = {}  # uids by name
        self._due: dict[str, None] = {}  # claims that wait for nobody but a volume
        self._asked: set[str] = set()  # those that are to be looked at

    def start(self) -> None:
        """See what is there: volumes are free from now on, claims that wait for nobody are due."""
        for one in list(self._objects.values()):
            self.changed(one)

    def changed(self, one: ClusterObject) -> None:
        """An object came, or is another than before."""
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
        """Look at a claim a little later, once."""
        if uid not in self._asked:
            self._asked.add(uid)
            self._later(uid)

    def _is_due(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim that waits for nobody is to be bound."""
        of = self._class(claim)
        waits = of is not None and of.waits_for_consumer
        return not (waits or claim.is_bind_completed or claim.is_leaving or claim.phase == LOST)

    def _class(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        return self._of(StorageClass, self._classes.get(claim.storage_class, ""))

    def _all(self, kind: type[T]) -> list[T]:
        return [one for one in self._objects.values() if isinstance(one, kind)]

    def write(self, request: VolumeRequest) -> Answer:
        """As the API server and its preconditions have it."""
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
        """A claim gets the volume that is for it, or one that is made; or (with this probability)
        none is made, and its pod is to be placed anew.
        """
        claim = self._of(PersistentVolumeClaim, uid)
        self._asked.discard(uid)
        if claim is not None and self._is_due(claim):
            self._bind(claim, self._volume_for(claim))
            return
        if claim is None or claim.volume:
            return
        volumes = self._all(PersistentVolume)
        mine = (one for one in volumes if one.claim is not None and one.claim.uid == uid)
        volume = next(mine, None)
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
        """For a claim that waits for nobody: the volume that it names, or the smallest one that
        will do, or one that is made.
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
    """Whether the volume is nobody else's, and large enough."""
    own = ClaimRef(claim.namespace, claim.name, claim.uid)
    return (
        volume.claim in (None, own, replace(own, uid=""))
        and not volume.is_leaving
        and volume.capacity_bytes >= claim.request_bytes
        and volume.is_block == claim.is_block
        and volume.storage_class == claim.storage_class
        and volume.attributes_class == claim.attributes_class
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a free volume is one of those that the claim asks for."""
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
