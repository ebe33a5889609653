"""Wake-ups: which refused signatures fit on the nodes that got better, or could be made to fit.

Every step that finds both writes one Improved, even an empty one: only events change the state, so
that changed nodes were looked at must be in the journal too.
"""

import numpy as np
from msgspec import structs

from services.placement.core.books.charges import compiled
from services.placement.core.extenders import retries
from services.placement.core.placing import preemption_wakeups
from services.placement.core.placing.unsupported import obstacle
from services.placement.core.preemption import nominations, pre_check
from services.placement.core.state import PlacementState
from shared.events.placement import Improved, Refused
from shared.events.queueing import ReasonsAsked
from shared.model.columns import pack, unpack
from shared.scheduling.cycle.inter_pod_rules import rules_of
from shared.scheduling.cycle.report import ended_early
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import FREE, I64, Held
from shared.scheduling.table.picks import Reasons

CHECKS_MAX = 256
"""Exact checks in one step. Signatures beyond it that pass the quick check are reported unchecked:
a wake-up in vain costs one evaluation, a lost one costs minutes.
"""
FEW_ROWS = 32


def improved(state: PlacementState) -> Improved:
    """Refused signatures that some changed node takes now, or would take if others went."""
    rows = state.table.rows_of(sorted(state.better))
    maybe = _quick(state, rows)
    fits = [sig for sig in maybe[:CHECKS_MAX] if _fits(state, sig, rows)]
    others = (*preemption_wakeups.some_hope(state, rows), *retries.due(state))
    found = dict.fromkeys((*fits, *maybe[CHECKS_MAX:], *others))
    return Improved(state.shard, pack(found), state.world)


def _quick(state: PlacementState, rows: I64) -> list[int]:
    """Signatures, ascending, whose cpu and memory each fit on one of these rows at least."""
    sigs = sorted(sig for sig in state.refused if not obstacle(state, sig))
    if not len(rows) or not sigs:
        return []
    most = state.table.cols[FREE : FREE + 2][:, rows].max(axis=1)
    asked = np.array([(state.sigs[sig].cpu, state.sigs[sig].memory) for sig in sigs])
    fits = ((asked <= most) | (asked == 0.0)).all(axis=1)
    fits |= [_looks_around(state, state.sigs[sig]) for sig in sigs]
    found = [sigs[at] for at in np.flatnonzero(fits).tolist()]
    return _left_room(state, found, rows) if state.nominations else found


def _left_room(state: PlacementState, sigs: list[int], rows: I64) -> list[int]:
    """Those that still may fit beside the nominations. Most of what leaves makes room for one, and
    many signatures want it: without this each would be checked exactly, in vain.
    """
    priorities = dict.fromkeys(state.specs[sig].priority for sig in sigs)
    most = {priority: _most_left(state, priority, rows) for priority in priorities}
    found = []
    for sig in sigs:
        wanted, (cpu, memory) = state.sigs[sig], most[state.specs[sig].priority]
        fits = (not wanted.cpu or wanted.cpu <= cpu) and (
            not wanted.memory or wanted.memory <= memory
        )
        if fits or _looks_around(state, wanted):
            found.append(sig)
    return found


def _most_left(state: PlacementState, priority: int, rows: I64) -> list[float]:
    """The most cpu and the most memory that nominations leave to such pods on one of these rows."""
    nodes = state.table.ids[rows].tolist()
    here = (one for node in nodes for one in nominations.on(state, node))
    held = nominations.held_by(here, state, priority, 0)
    free = state.table.cols[FREE : FREE + 2][:, rows]
    for at, node in enumerate(nodes):
        for nominated, _mask in held.get(node, ()):
            for column, amount in nominated.filter_delta:
                if FREE <= column < FREE + 2:
                    free[column - FREE, at] += amount
    most: list[float] = free.max(axis=1).tolist()
    return most


def _fits(state: PlacementState, sig: int, rows: I64) -> bool:
    wanted = compiled(state, sig)
    held = None
    if state.nominations:
        held = nominations.held_against(state, state.specs[sig].priority)
    if len(rows) <= FEW_ROWS and not _looks_around(state, wanted):
        return state.kernel.feasible_any(state.table, wanted, rows, held)
    return len(state.kernel.place(state.table, wanted, 1, held).rows) > 0


def _looks_around(state: PlacementState, wanted: Signature) -> bool:
    """Whether what changed on a node, or with the pod's volumes, may let it go somewhere else."""
    return bool(wanted.uses) or rules_of(state.table, wanted) is not None


def looked(state: PlacementState, event: Improved) -> None:
    """The nodes were looked at; what fits is not refused any more."""
    state.better.clear()
    for sig in unpack(event.sigs).tolist():
        state.refused.discard(sig)
        state.hopeless.discard(sig)
        retries.forget(state, sig)
        # Queueing hears of the improvement: there is nothing to confirm.
        state.looks.pop(sig, None)


def reasons_asked(state: PlacementState, event: ReasonsAsked) -> None:
    """Look again at a signature, if it is refused here; who does not refuse has said so before."""
    if event.sig in state.refused:
        state.looks[event.sig] = None


def look(state: PlacementState, sig: int) -> Refused:
    """Why no node takes a refused signature now; after extenders what was said then."""
    if sig in state.told:
        return structs.replace(state.told[sig], nodes=len(state.nodes), world=state.world)
    held = nominations.held_against(state, state.specs[sig].priority)
    found = reasons(state, sig, held)
    return Refused(
        shard=state.shard,
        attempt=0,
        sig=sig,
        ids=b"",
        reasons=found.messages,
        nodes=len(state.nodes),
        world=state.world,
        resolvable=found.resolvable,
        preemptible=pre_check.may_help(state, sig, held, found.resolvable),
        rejected=is_rejected(state, sig, found),
    )


def is_rejected(state: PlacementState, sig: int, found: Reasons) -> bool:
    """Whether these are a rejection after which PostFilter ends with an error."""
    about_pod = any(not nodes for _text, nodes in found.messages)
    return about_pod and ended_early(state.table, compiled(state, sig))


def reasons(state: PlacementState, sig: int, held: Held | None) -> Reasons:
    """Why no node takes a signature."""
    why_not = obstacle(state, sig)
    if why_not:
        return Reasons(((why_not, len(state.nodes)),), 0)
    return state.kernel.reasons(state.table, compiled(state, sig), held)
