"""Devices of resource claims: facts about them, and what reservations have for claims
(shared/scheduling/claims/live_claims.py).

A reservation's devices stay in use after it has ended, whatever became of it: until a fact shows
devices for the claim, or is as new as the outcome that binding reports (ClaimsReturned).
"""

from collections.abc import Iterable

from services.placement.core.books.charges import mark_improved
from services.placement.core.state import PlacementState
from shared.events.binding import ClaimsReturned
from shared.events.ingest import DevicesGone, DevicesSet
from shared.events.placement import Reserved
from shared.model.claims import ClaimChoice, ClaimName
from shared.model.cluster_objects import ClaimObject
from shared.model.columns import split, unpack
from shared.model.ids import AttemptId, PodId, SignatureId
from shared.model.objects import PodSpec
from shared.scheduling.claims.live_claims import Assumption
from shared.scheduling.plugins import dynamic_resources


def chooses(state: PlacementState, sig: SignatureId) -> bool:
    """Return whether devices are chosen together with the node."""
    wanted = state.sigs[sig]
    return bool(wanted.spec.claims) and dynamic_resources.NAME in wanted.plugins.inter_pod_plugins


def choices_on(state: PlacementState, sig: SignatureId, row: int) -> tuple[ClaimChoice, ...]:
    """Return what is to be written for a pod's claims on the node of this row."""
    if not chooses(state, sig):
        return ()
    claims = state.claims.of_pod(state.specs[sig])
    return state.claims.choices(claims, state.table.nodes[row])


def reserve_devices(state: PlacementState, event: Reserved) -> None:
    """Give the claims of a reserved pod their devices."""
    pod = PodId(int.from_bytes(event.ids, "little"))
    assume_devices(state, pod, event.attempt, event.claims)


def assume_devices(
    state: PlacementState, pod: PodId, attempt: AttemptId, choices: Iterable[ClaimChoice]
) -> None:
    """Give claims the devices that an attempt chose for a pod."""
    for one in choices:
        if one.allocation is not None:
            state.claims.assume(one.uid, Assumption(pod, attempt, one.allocation))


def free_devices(
    state: PlacementState, pod: PodId, attempt: AttemptId, choices: Iterable[ClaimChoice]
) -> None:
    """End what an attempt had for a pod's claims, as nothing is written for them."""
    ended = [state.claims.settle(one.uid, pod, attempt, 0) for one in choices]
    if any(ended):
        wake_claim_users(state)


def on_devices_set(state: PlacementState, event: DevicesSet) -> None:
    """Add or change classes, slices and claims. A claim that changed wakes the pods that name it;
    devices that may be free now wake all.
    """
    changes = [state.claims.put(one) for one in event.objects]
    if any(changes):
        wake_claim_users(state)
    changed = {(one.namespace, one.name) for one in event.objects if isinstance(one, ClaimObject)}
    if changed:
        state.maybe_allowed.update(
            sig for sig in state.refused if changed & _named(state.specs[sig])
        )


def _named(spec: PodSpec) -> set[ClaimName]:
    return {(spec.namespace, one.claim or one.made or "") for one in spec.claims}


def on_devices_gone(state: PlacementState, event: DevicesGone) -> None:
    """Remove classes, slices and claims."""
    changes = [state.claims.remove(uid) for uid in split(event.uids)]
    if any(changes):
        wake_claim_users(state)


def on_claims_returned(state: PlacementState, event: ClaimsReturned) -> None:
    """End what this attempt had for its claims, once facts are as new as the outcome."""
    if event.shard != state.shard:
        return
    uids = split(event.uids)
    revisions = unpack(event.revisions).tolist() or [0] * len(uids)
    ended = [
        state.claims.settle(uid, event.pod, event.attempt, revision)
        for uid, revision in zip(uids, revisions, strict=True)
    ]
    if any(ended):
        wake_claim_users(state)


def wake_claim_users(state: PlacementState) -> None:
    """Wake refused pods with claims: they may fit now."""
    if any(state.specs[sig].claims for sig in state.refused):
        mark_improved(state, state.table.ids[:1])  # for them one changed node makes all checked
