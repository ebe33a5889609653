"""What keeps a shard from deciding about a signature at all, whatever its nodes have."""

from services.placement.core.state import PlacementState
from shared.model.cluster_objects import PersistentVolumeClaim
from shared.plugins import volume_binding, volume_restrictions
from shared.plugins.volume_binding import waiting_claims
from shared.plugins.volume_restrictions import ONE_POD

NEEDS_ONE_SHARD = (
    "node(s) of several placement partitions (required rules between pods need a single one)"
)
CLAIM_NEEDS_ONE_SHARD = (
    "node(s) of several placement partitions (claims for one pod alone need a single one)"
)
NOT_BOUND = "node(s) for which no volume is bound (claims must be bound before: not built yet)"


def obstacle(state: PlacementState, sig: int) -> str:
    """Why nothing can be decided, for every node; empty = it can."""
    spec = state.specs[sig]
    if state.shards > 1 and spec.has_hard_rules:
        return NEEDS_ONE_SHARD
    if not spec.volumes:
        return ""
    filters = state.sigs[sig].plugins.between
    claims = _claims(state, sig)
    is_for_one = any(ONE_POD in claim.access_modes for claim in claims)
    if state.shards > 1 and is_for_one and volume_restrictions.NAME in filters:
        return CLAIM_NEEDS_ONE_SHARD
    if volume_binding.NAME in filters and waiting_claims(state.storage, spec):
        return NOT_BOUND
    return ""


def _claims(state: PlacementState, sig: int) -> list[PersistentVolumeClaim]:
    """The claims of its pods that are there."""
    spec, known = state.specs[sig], state.storage.claims
    found = (known.get((spec.namespace, one.name)) for one in spec.volumes)
    return [one for one in found if one is not None]
