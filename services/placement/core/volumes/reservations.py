"""Volumes chosen with reservations: assumed until facts show that the claims are bound.

A reserved pod with a choice waits here. The world journal's facts about its claims settle it: all
bound (VolumesBound, and binding binds the pod); cannot be bound any more, or not in time
(VolumesFailed, and binding gives the pod up, so that the reservation comes back as Released). The
rules follow kube-scheduler's BindPodVolumes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from services.placement.core.books.charges import mark_improved
from services.placement.core.state import PlacementState, VolumeWait
from shared.events.base import Event
from shared.events.placement import Reserved, VolumesBound, VolumesFailed
from shared.model.cluster_objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from shared.model.columns import as_numbers, pack
from shared.model.ids import START, PodId, SignatureId
from shared.model.volumes import Choice
from shared.scheduling.plugins.volumes.volume_binding import (
    VolumeBinding,
    reached_from,
    waiting_claims,
)

VOLUME_BINDING = "VolumeBinding"
PRE_BIND = 'running PreBind plugin "VolumeBinding": '
TIMED_OUT = "binding volumes: context deadline exceeded"


def chooses(state: PlacementState, sig: SignatureId) -> bool:
    """Return whether volumes are chosen together with the node."""
    wanted = state.sigs[sig]
    if not wanted.uses or VOLUME_BINDING not in wanted.plugins.inter_pod_plugins:
        return False
    return bool(waiting_claims(state.storage, wanted.spec))


def choices_on(state: PlacementState, sig: SignatureId, row: int) -> tuple[Choice, ...]:
    """Return the volume choices of a pod's claims on the node of this row."""
    if not chooses(state, sig):
        return ()
    choices = VolumeBinding(state.table, state.specs[sig]).choices(row)
    return tuple(dict.fromkeys(choices))


def reserve_volumes(state: PlacementState, event: Reserved) -> None:
    """Assume the choices of one reserved pod."""
    (pod,), (node,) = as_numbers(event.ids), as_numbers(event.nodes)
    until_ms = state.now_ms + bind_timeout_ms(state, event.sig)
    assume_volumes(state, pod, VolumeWait(node, state.nodes[node].name, event.volumes, until_ms))
    check_claims(state, [pod])


def bind_timeout_ms(state: PlacementState, sig: SignatureId) -> int:
    """Return how long pods wait for their claims, ms."""
    return state.plugins_of(state.specs[sig]).profile.bind_timeout_ms


def assume_volumes(state: PlacementState, pod: PodId, wait: VolumeWait) -> None:
    """Assume the chosen volumes, so that no other pod gets them."""
    state.volume_waits[pod] = wait
    for choice in wait.choices:
        if choice.claim not in wait.shown:
            state.storage.assume(choice, wait.name)
        for what in _about(choice):
            state.waits_on.setdefault(what, []).append(pod)


def end_waits(state: PlacementState, pods: Iterable[PodId]) -> None:
    """End the waits of pods, whatever their outcome."""
    if not state.volume_waits:
        return
    for pod in pods:
        wait = state.volume_waits.pop(pod, None)
        if wait is None:
            continue
        state.volumes_over.pop(pod, None)
        for choice in wait.choices:
            if choice.claim not in wait.shown:
                state.storage.release(choice, wait.name)
            for what in _about(choice):
                state.waits_on[what].remove(pod)
                if not state.waits_on[what]:
                    del state.waits_on[what]
        wake_volume_users(state)


def _about(choice: Choice) -> list[tuple[str, str]]:
    """Return the keys (namespace, name) of the claim and the volume; a volume has no namespace."""
    claim = choice.namespace, choice.claim
    return [claim, ("", choice.volume)] if choice.volume else [claim]


def wake_volume_users(state: PlacementState) -> None:
    """Wake refused pods with volumes: they may fit now."""
    if any(state.specs[sig].volumes for sig in state.refused):
        mark_improved(
            state, state.table.ids[:1]
        )  # for them one changed node makes all nodes checked


def note_storage(state: PlacementState, objects: Sequence[StorageObject]) -> None:
    """Update storage objects and check the pods that wait for them."""
    for one in objects:
        match one:
            case PersistentVolumeClaim():
                pods = state.waits_on.get((one.namespace, one.name), ())
                for pod in pods:
                    _node_shown(state, state.volume_waits[pod], one)
                check_claims(state, pods)
            case PersistentVolume():
                check_claims(state, state.waits_on.get(("", one.name), ()))
                if one.claim is not None:
                    check_claims(
                        state, state.waits_on.get((one.claim.namespace, one.claim.name), ())
                    )
            case (
                StorageClass() | CSINode() | CSIDriver() | CSIStorageCapacity() | VolumeAttachment()
            ):
                pass  # no pod waits for them
            case _:
                assert_never(one)


def _node_shown(state: PlacementState, wait: VolumeWait, claim: PersistentVolumeClaim) -> None:
    """Note that the cluster shows the chosen node on the claim: from now on the cluster's state
    counts.
    """
    for choice in wait.choices:
        is_it = (choice.namespace, choice.claim) == (claim.namespace, claim.name)
        is_new = choice.claim not in wait.shown and claim.selected_node == wait.name
        if is_it and is_new and not choice.volume:
            wait.shown = (*wait.shown, choice.claim)
            state.storage.release(choice, wait.name)


def check_claims(state: PlacementState, pods: Iterable[PodId]) -> None:
    """Check whether all claims of these pods are bound, or cannot be bound any more."""
    for pod in pods:
        wait = state.volume_waits[pod]
        if wait.until_ms is None:
            continue
        found = [_standing(state, wait, choice) for choice in wait.choices]
        failed = next((text for text in found if text), None)
        if failed is not None:
            state.volumes_over[pod] = failed
        elif None not in found:
            state.volumes_over[pod] = ""
        else:
            state.volumes_over.pop(pod, None)


def _standing(state: PlacementState, wait: VolumeWait, choice: Choice) -> str | None:
    """Return an empty text if the claim is bound, None if it may still be, else why it
    will not be.
    """
    claim = state.storage.claims.get((choice.namespace, choice.claim))
    if claim is None or claim.uid != choice.claim_uid:
        return f'persistentvolumeclaim "{choice.claim}" not found'
    if choice.volume:
        return _static(state, claim, choice)
    if claim.selected_node != wait.name and not claim.volume:
        # Provisioning failed: the provisioner removes the node from the claim.
        return f'provisioning failed for PVC "{claim.name}"'
    if not claim.volume:
        return None
    volume, row = state.storage.volumes.get(claim.volume), state.table.row_of(wait.node)
    if volume is None or row is None:
        return None
    if not reached_from(state.table, volume, row):
        return f'pv "{volume.name}" node affinity doesn\'t match node "{wait.name}"'
    return "" if claim.is_bind_completed else None


def _static(state: PlacementState, claim: PersistentVolumeClaim, choice: Choice) -> str | None:
    if claim.volume:
        is_other = claim.volume != choice.volume
        if is_other and claim.is_bind_completed:
            return f'PVC "{claim.name}" was bound to pv "{claim.volume}"'
        return "" if claim.is_bind_completed and not is_other else None
    volume = state.storage.volumes.get(choice.volume)
    if volume is None or volume.uid != choice.volume_uid:
        return f'persistentvolume "{choice.volume}" not found'
    ref = volume.claim
    is_ours = ref is not None and ref.uid == claim.uid
    return None if is_ours else f'pv "{volume.name}" was bound to another claim'


def decide_volume_outcomes(state: PlacementState) -> Iterator[Event]:
    """Yield the outcomes of pods that wait no longer: all bound, failed, or timed out."""
    done = [pod for pod, why in sorted(state.volumes_over.items()) if not why]
    if done:
        nodes = pack(state.volume_waits[pod].node for pod in done)
        yield VolumesBound(pack(done), nodes, state.world if state.shards > 1 else START)
    for pod, why in sorted(state.volumes_over.items()):
        yield VolumesFailed(pod, state.volume_waits[pod].node, PRE_BIND + why)
    for pod, wait in sorted(state.volume_waits.items()):
        if wait.until_ms is not None and wait.until_ms <= state.now_ms:
            yield VolumesFailed(pod, wait.node, PRE_BIND + TIMED_OUT)


def due_ms(state: PlacementState) -> int | None:
    """Return when the first waiting pod times out, ms."""
    if state.volumes_over:
        return state.now_ms
    times = [one.until_ms for one in state.volume_waits.values() if one.until_ms is not None]
    return min(times, default=None)
