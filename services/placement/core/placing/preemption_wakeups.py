"""Wake-ups of pods that preemption could not help: a changed node may hold victims now.

A signature is hopeless once the shard says, with a refusal or the answer to a dry run, that
preemption does not help it. Changed nodes are tried for it without all pods of lower priority. If
one would fit, the signature is reported like one that fits: its pods are refused again and
preemption is asked again. It is not hopeless again until the shard says so, so each such answer
costs one wake-up, and pods that preemption already helps cost nothing here.
"""

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.books.wide_rules import note_refused_during_holds
from services.placement.core.placing.unsupported import unsupported_reason
from services.placement.core.preemption.dry_run import FEW_ROWS, EvictablePods
from services.placement.core.preemption.reprieve import amount_of
from services.placement.core.state import PlacementState
from shared.events.preemption import DryRunAsked
from shared.model.ids import NO_ASK, NO_POD, SignatureId
from shared.scheduling.table.layout import FREE, I64

CPU_AND_MEMORY = (FREE, FREE + 1)
CHECKS_MAX = 256
"""How many signatures are tried exactly in one step. Further signatures whose cpu and memory would
fit are reported unchecked.
"""


def note_whether_preemption_helps(state: PlacementState, sig: SignatureId, helps: bool) -> None:
    """Note whether preemption may help a signature."""
    if helps or sig not in state.refused or not _may_preempt(state, sig):
        state.hopeless.discard(sig)
    else:
        state.hopeless.add(sig)
        note_refused_during_holds(state, sig)


def _may_preempt(state: PlacementState, sig: SignatureId) -> bool:
    return not state.specs[sig].never_preempts and compiled(state, sig).plugins.profile.makes_room


def decide_wakeable(state: PlacementState, rows: I64) -> list[SignatureId]:
    """Return the hopeless signatures, ascending, for which a node in these rows now has victims
    that would make room.
    """
    if not state.hopeless or not len(rows) or not _has_lower_priority_pod(state, rows):
        return []
    sigs = sorted(sig for sig in state.hopeless if not unsupported_reason(state, sig))
    maybe = _quick(state, sigs, rows)
    found = [sig for sig in maybe[:CHECKS_MAX] if _finds_some(state, sig, rows)]
    return [*found, *maybe[CHECKS_MAX:]]


def _has_lower_priority_pod(state: PlacementState, rows: I64) -> bool:
    """Return whether any pod there has a lower priority than one of them: mostly not."""
    highest = max(state.specs[sig].priority for sig in state.hopeless)
    nodes = state.table.ids[rows]
    lower = (counts for level, counts in state.levels.items() if level < highest)
    return any(bool(counts[nodes[nodes < len(counts)]].any()) for counts in lower)


def _quick(state: PlacementState, sigs: list[SignatureId], rows: I64) -> list[SignatureId]:
    """Return signatures whose cpu and memory each fit on at least one of these rows without the
    pods of lower priority; one pass over the ledger for all of them.
    """
    ledger, nodes = state.ledger, state.table.ids[rows]
    place = np.full(int(max(ledger.node.max(), nodes.max())) + 1, -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    at = np.flatnonzero((place[ledger.node] >= 0) & IS_VICTIM[ledger.kind])
    there, which = np.unique(ledger.sig[at], return_inverse=True)
    pods = [state.sigs[sig] for sig in there.tolist()]
    priorities = np.array([one.spec.priority for one in pods], np.int64)[which]
    row_of = place[ledger.node[at]]
    amounts = [
        np.array([amount_of(one, column) for one in pods])[which] for column in CPU_AND_MEMORY
    ]
    most: dict[int, list[float]] = {}
    for priority in sorted({state.specs[sig].priority for sig in sigs}):
        lower = priorities < priority
        left = [np.bincount(row_of[lower], one[lower], len(rows)) for one in amounts]
        free = [state.table.cols[column, rows] for column in CPU_AND_MEMORY]
        most[priority] = [float((one + more).max()) for one, more in zip(free, left, strict=True)]
    found = []
    for sig in sigs:
        (cpu, memory), wanted = most[state.specs[sig].priority], state.sigs[sig]
        if (not wanted.cpu or wanted.cpu <= cpu) and (not wanted.memory or wanted.memory <= memory):
            found.append(sig)
    return found


def _finds_some(state: PlacementState, sig: SignatureId, rows: I64) -> bool:
    run = EvictablePods(state, DryRunAsked(NO_ASK, NO_POD, sig), only=rows)
    if run.lower_columns is None and len(run.rows) > FEW_ROWS:
        return True  # checking node by node would take longer than the pod's dry run
    return any(run.found for _tried in run.tries)
