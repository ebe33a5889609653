"""What binds claims in a simulated cluster, and makes volumes for them: a little later, and not
always. It binds no claim that waits for nobody: those of a world are as its files say.
"""

import random
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from shared.model.answers import Answer
from shared.model.cluster_objects import (
    ClaimRef,
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
)
from shared.ports.cluster import VolumeRequest

T = TypeVar("T", bound=ClusterObject)


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
        if claim.selected_node:
            return Answer.DONE if claim.selected_node == request.node else Answer.REFUSED
        self._change(replace(claim, selected_node=request.node))
        self._later(claim.uid)
        return Answer.DONE

    def settle(self, uid: str, draw: random.Random, failure: float) -> None:
        """A claim gets the volume that is for it, or one that is made; or (with this probability)
        none is made, and its pod is to be placed anew.
        """
        claim = self._of(PersistentVolumeClaim, uid)
        if claim is None or claim.volume:
            return
        volumes = [one for one in self._objects.values() if isinstance(one, PersistentVolume)]
        mine = (one for one in volumes if one.claim is not None and one.claim.uid == uid)
        volume = next(mine, None)
        if volume is None and failure and draw.random() < failure:
            self._change(replace(claim, selected_node=""))
            return
        if volume is None:
            volume = _made_for(claim)
        self._change(replace(volume, phase="Bound"))
        self._change(replace(claim, volume=volume.name, is_bind_completed=True, phase="Bound"))

    def _of(self, kind: type[T], uid: str) -> T | None:
        found = self._objects.get(uid)
        return found if isinstance(found, kind) else None


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
