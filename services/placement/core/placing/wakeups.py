"""Wake-ups: finds the refused signatures that fit on improved nodes, or could be made to fit.

Every step with both writes one Improved, even an empty one: only events change the state, so the
journal must show that the nodes were checked.
"""

import numpy as np
from msgspec import structs

from services.placement.core.books.charges import compiled
from services.placement.core.books.wide_rules import is_wide
from services.placement.core.extenders import retries
from services.placement.core.placing import preemption_wakeups
from services.placement.core.placing.cycle import reject
from services.placement.core.placing.unsupported import unsupported_reason
from services.placement.core.preemption import nominations
from services.placement.core.state import PlacementState
from shared.events.placement import Improved, Refused
from shared.events.queueing import ReasonsAsked
from shared.model.columns import pack, unpack
from shared.model.ids import NO_ATTEMPT, NO_POD, SignatureId
from shared.scheduling.cycle.inter_pod_rules import rules_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import FREE, I64, NominatedPods

CHECKS_MAX = 256
"""Exact checks in one step. Further signatures that pass the quick check are reported unchecked: a
needless wake-up costs one evaluation, a lost one costs minutes.
"""
FEW_ROWS = 32
NO_PODS = np.zeros(0, np.int64)


def are_due(state: PlacementState) -> bool:
    """Return whether refused signatures must be checked."""
    may_fit = state.improved_nodes or state.rules_moved or state.maybe_allowed
    return bool(state.refused and (may_fit or retries.due(state)))


def decide_improved(state: PlacementState) -> Improved:
    """Return the refused signatures that fit a changed node now, or would if pods were
    preempted.
    """
    rows = state.table.rows_of(sorted(state.improved_nodes))
    maybe = _quick(state, rows)
    fits = [sig for sig in maybe[:CHECKS_MAX] if _fits(state, sig, rows)]
    others = (*preemption_wakeups.decide_wakeable(state, rows), *retries.due(state))
    allowed = set(state.maybe_allowed)
    if state.rules_moved:
        allowed.update(sig for sig in state.refused if is_wide(state, sig))
    found = dict.fromkeys((*fits, *maybe[CHECKS_MAX:], *others, *sorted(allowed)))
    return Improved(state.shard, pack(found), state.world)


def _quick(state: PlacementState, rows: I64) -> list[SignatureId]:
    """Return the signatures, ascending, whose cpu and memory each fit on at least one of these
    rows.
    """
    sigs = sorted(sig for sig in state.refused if not unsupported_reason(state, sig))
    if not len(rows) or not sigs:
        return []
    most = state.table.cols[FREE : FREE + 2][:, rows].max(axis=1)
    asked = np.array([(state.sigs[sig].cpu, state.sigs[sig].memory) for sig in sigs])
    fits = ((asked <= most) | (asked == 0.0)).all(axis=1)
    fits |= [_depends_on_other_nodes(state, state.sigs[sig]) for sig in sigs]
    found = [sigs[at] for at in np.flatnonzero(fits).tolist()]
    return _left_room(state, found, rows) if state.nominations else found


def _left_room(state: PlacementState, sigs: list[SignatureId], rows: I64) -> list[SignatureId]:
    """Return the signatures that may still fit beside the nominations. Most freed room belongs to
    one nomination, and many signatures want it: without this check each would be tried exactly in
    vain.
    """
    specs = [state.specs[sig] for sig in sigs]
    kinds = dict.fromkeys((spec.priority, spec.queue) for spec in specs)
    most = {kind: _most_left(state, *kind, rows) for kind in kinds}
    found = []
    for sig, spec in zip(sigs, specs, strict=True):
        wanted, (cpu, memory) = state.sigs[sig], most[spec.priority, spec.queue]
        fits = (not wanted.cpu or wanted.cpu <= cpu) and (
            not wanted.memory or wanted.memory <= memory
        )
        if fits or _depends_on_other_nodes(state, wanted):
            found.append(sig)
    return found


def _most_left(state: PlacementState, priority: int, queue: str, rows: I64) -> list[float]:
    """Return the most cpu and memory that nominations leave to pods of this priority and queue on
    one of these rows.
    """
    nodes = state.table.ids[rows].tolist()
    here = (one for node in nodes for one in nominations.nominations_on(state, node))
    nominated_pods = nominations.as_nominated_pods(here, state, priority, NO_POD, queue=queue)
    free = state.table.cols[FREE : FREE + 2][:, rows]
    for at, node in enumerate(nodes):
        for nominated, _mask in nominated_pods.get(node, ()):
            for column, amount in nominated.filter_delta:
                if FREE <= column < FREE + 2:
                    free[column - FREE, at] += amount
    most: list[float] = free.max(axis=1).tolist()
    return most


def _fits(state: PlacementState, sig: SignatureId, rows: I64) -> bool:
    wanted = compiled(state, sig)
    nominated_pods = None
    if state.nominations:
        nominated_pods = _nominated_for(state, sig)
    if len(rows) <= FEW_ROWS and not _depends_on_other_nodes(state, wanted):
        return state.kernel.feasible_any(state.table, wanted, rows, nominated_pods)
    return len(state.kernel.place(state.table, wanted, 1, nominated_pods).rows) > 0


def _nominated_for(state: PlacementState, sig: SignatureId) -> NominatedPods:
    spec = state.specs[sig]
    return nominations.nominated_pods_for(state, spec.priority, queue=spec.queue)


def _depends_on_other_nodes(state: PlacementState, wanted: Signature) -> bool:
    """Return whether a change on one node, or of the pod's volumes or claims, may make it
    fit on another node.
    """
    looks_up = bool(wanted.uses or wanted.spec.claims)
    return looks_up or rules_of(state.table, wanted) is not None


def on_improved(state: PlacementState, event: Improved) -> None:
    """Clear the checked nodes; signatures that fit are no longer refused."""
    state.improved_nodes.clear()
    state.rules_moved = False
    state.maybe_allowed.clear()
    for sig in unpack(event.sigs).tolist():
        state.refused.discard(sig)
        state.hopeless.discard(sig)
        retries.forget(state, sig)
        # Queueing learns of the improvement: there is nothing to confirm.
        state.reasons_wanted.pop(sig, None)


def on_reasons_asked(state: PlacementState, event: ReasonsAsked) -> None:
    """Check a signature again if it is refused here; otherwise queueing has the answer already."""
    if event.sig in state.refused:
        state.reasons_wanted[event.sig] = None


def decide_reasons(state: PlacementState, sig: SignatureId) -> Refused:
    """Return why no node fits a refused signature now; after extenders, their earlier answer."""
    if sig in state.extender_refusals:
        return structs.replace(
            state.extender_refusals[sig], nodes=len(state.nodes), world=state.world
        )
    nominated_pods = _nominated_for(state, sig)
    return reject(state, NO_ATTEMPT, sig, NO_PODS, nominated_pods)
