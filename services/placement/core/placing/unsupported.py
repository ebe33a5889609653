"""Finds the reason why a shard cannot decide about a signature at all, whatever its nodes have."""

import numpy as np

from services.placement.core.books.wide_rules import is_wide
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.model.cluster_objects import PersistentVolumeClaim
from shared.model.ids import SignatureId
from shared.scheduling.plugins import volume_restrictions
from shared.scheduling.plugins.volume_restrictions import IN_USE, ONE_POD

NEEDS_ONE_SHARD = (
    "node(s) of several placement partitions (gangs with rules wider than a node need a single one)"
)
CLAIM_NEEDS_ONE_SHARD = (
    "node(s) of several placement partitions (claims for one pod alone need a single one)"
)


def unsupported_reason(state: PlacementState, sig: SignatureId) -> str:
    """Return the reason that holds for every node; empty if the shard can decide."""
    spec = state.specs[sig]
    if not spec.volumes:
        return ""
    filters = state.sigs[sig].plugins.inter_pod_plugins
    claims = _claims(state, sig)
    is_for_one = any(ONE_POD in claim.access_modes for claim in claims)
    if state.shards > 1 and is_for_one and volume_restrictions.NAME in filters:
        return CLAIM_NEEDS_ONE_SHARD
    if is_for_one and state.strays and _is_used_by_strays(state, claims):
        return IN_USE
    return ""


def unsupported_in_gangs(state: PlacementState, sig: SignatureId) -> str:
    """Return the reason why no shard can decide about such members of gangs, or an empty text."""
    return NEEDS_ONE_SHARD if is_wide(state, sig) else unsupported_reason(state, sig)


def _is_used_by_strays(state: PlacementState, claims: list[PersistentVolumeClaim]) -> bool:
    """Return whether a pod on a withheld node uses one of these ReadWriteOncePod claims: it is
    charged to no node, so the plugin cannot see it.
    """
    exclusive = {(one.namespace, one.name) for one in claims if ONE_POD in one.access_modes}
    ledger = state.ledger
    for sig in np.unique(ledger.sig[ledger.kind == State.STRAY]).tolist():
        spec = state.specs.get(sig)
        if spec is not None and exclusive & {(spec.namespace, one.name) for one in spec.volumes}:
            return True
    return False


def _claims(state: PlacementState, sig: SignatureId) -> list[PersistentVolumeClaim]:
    """Return the existing claims of its pods."""
    spec, known = state.specs[sig], state.storage.claims
    found = (known.get((spec.namespace, one.name)) for one in spec.volumes)
    return [one for one in found if one is not None]
