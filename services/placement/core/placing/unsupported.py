"""Finds the reason why a shard cannot decide about a signature at all, whatever its nodes have."""

import numpy as np

from services.placement.core.books.wide_rules import claims_for_one_pod
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.model.ids import SignatureId
from shared.scheduling.plugins.volumes.volume_restrictions import IN_USE

CLAIMS_BY_NAME = "new resource claims that gang members name are not supported with several shards"


def unsupported_in_gang(state: PlacementState, sig: SignatureId) -> str:
    """Return `unsupported_reason` for a member of a gang. Members may share the claims that they
    name: two shards could choose devices for one.
    """
    if state.shards > 1:
        spec, known = state.specs[sig], state.claims.facts.claims
        named = (known.get((spec.namespace, one.claim)) for one in spec.claims if one.claim)
        if any(one is None or one.allocation is None for one in named):
            return CLAIMS_BY_NAME
    return unsupported_reason(state, sig)


def unsupported_reason(state: PlacementState, sig: SignatureId) -> str:
    """Return the reason that holds for every node; empty if the shard can decide."""
    if not state.strays or not state.specs[sig].volumes:
        return ""
    return IN_USE if claims_for_one_pod(state, sig) & used_by_strays(state, sig) else ""


def used_by_strays(state: PlacementState, sig: SignatureId) -> set[str]:
    """Return which claims of the signature a pod on a withheld node uses: it is charged to no node,
    so the plugin cannot see it.
    """
    wanted, ledger = state.specs[sig], state.ledger
    names = {one.name for one in wanted.volumes}
    found: set[str] = set()
    for other in np.unique(ledger.sig[ledger.kind == State.STRAY]).tolist():
        spec = state.specs.get(other)
        if spec is not None and spec.namespace == wanted.namespace:
            found |= names & {one.name for one in spec.volumes}
    return found
