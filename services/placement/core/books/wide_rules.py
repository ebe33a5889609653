"""Wide rules: they read the pods of several nodes, and so of other shards (placing/turns.py).

A ReadWriteOncePod claim is such a rule: one pod on any node may use it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from services.placement.core.state import PlacementState
from shared.model.ids import SignatureId
from shared.scheduling.plugins.volumes.volume_restrictions import ONE_POD


def is_wide(state: PlacementState, sig: SignatureId) -> bool:
    """Return whether pods of this signature have wide rules, or are counted by some, and there are
    other shards.
    """
    if state.shards == 1 or sig not in state.sigs:
        return False
    return state.table.counters.is_wide(state.sigs[sig]) or bool(claims_for_one_pod(state, sig))


def claims_for_one_pod(state: PlacementState, sig: SignatureId) -> set[str]:
    """Return the names of the pod's ReadWriteOncePod claims."""
    spec, known = state.specs[sig], state.storage.claims
    found = (known.get((spec.namespace, one.name)) for one in spec.volumes)
    return {one.name for one in found if one is not None and ONE_POD in one.access_modes}


def note_moved(state: PlacementState, sig: SignatureId) -> None:
    """Note that a pod of this signature came or left: rules that count it may allow others now."""
    if state.shards == 1:
        return
    is_counted = state.table.counters.moves_across_nodes(state.sigs[sig])
    if not is_counted and not claims_for_one_pod(state, sig):
        return
    if state.refused:
        state.rules_moved = True
    turn = state.work_queue.turn
    if turn is None:
        state.counts_changed = True
    else:
        turn.moved = True


@contextmanager
def quietly(state: PlacementState) -> Iterator[None]:
    """Charge or release without trying refused pods again. A gang that does not fit holds and
    releases members at each try, which changes nothing for pods refused before that.
    """
    improved, moved, changed = set(state.improved_nodes), state.rules_moved, state.counts_changed
    yield
    state.improved_nodes, state.rules_moved, state.counts_changed = improved, moved, changed


def note_refused_during_holds(state: PlacementState, sig: SignatureId) -> None:
    """Note that pods of this signature may fit once the present holds of gangs are released."""
    for refused in state.refused_during_hold.values():
        refused.add(sig)


def settle_moved(state: PlacementState) -> None:
    """Remember which refused signatures earlier moves concern: later refusals know the moves."""
    if state.rules_moved:
        state.rules_moved = False
        state.maybe_allowed.update(sig for sig in state.refused if is_wide(state, sig))
