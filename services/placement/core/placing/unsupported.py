"""Finds the reason why a shard cannot decide about a signature at all, whatever its nodes have."""

import numpy as np

from services.placement.core.books.wide_rules import claims_for_one_pod
from services.placement.core.state import PlacementState
from services.placement.core.transitions import State
from shared.model.ids import SignatureId
from shared.scheduling.plugins.volumes.volume_restrictions import IN_USE

CLAIMS_OF_MEMBERS = "resource claims of gang members are not supported"


def unsupported_in_gang(state: PlacementState, sig: SignatureId) -> str:
    """Return `unsupported_reason` for a member of a gang."""
    return CLAIMS_OF_MEMBERS if state.specs[sig].claims else unsupported_reason(state, sig)


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
