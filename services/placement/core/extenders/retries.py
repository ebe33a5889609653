"""Open extender calls, the last refusals, and retries.

Gangs and nominated nodes that extenders refused are retried by time; single pods are retried by the
queue after five minutes.
"""

import numpy as np
from msgspec import structs

from services.placement.core.books.charges import compiled
from services.placement.core.placing import sampling
from services.placement.core.state import PlacementState
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked, Refused
from shared.model.columns import I64
from shared.model.ids import NodeId, SignatureId
from shared.scheduling.table.layout import NominatedPods

RETRY_MS = 300_000
"""Milliseconds until a gang is retried after extenders refused a member, and until preemption may
use a node again that they refused. Extenders never announce a change of mind. It is as long as
kube-scheduler leaves a pod unschedulable.
"""
FAILED_RETRY_MS = 1_000
"""The same after an extender error: by then the queue knows the gang's backoff."""


def on_extenders_asked(state: PlacementState, event: ExtendersAsked) -> None:
    """Open the call about a pod."""
    state.extender_asks = event.ask
    if event.gang >= 0:
        state.work_queue.member_call = event
        return
    sampling.note_search(state, event.examined)
    state.work_queue.open_call(event)


def on_extenders_answered(state: PlacementState, event: ExtendersAnswered) -> None:
    """Close the call with its answer."""
    member = state.work_queue.member_call
    if member is not None and member.ask == event.ask:
        state.work_queue.member_call = None
        state.member_answers.setdefault((member.gang, member.attempt), {})[member.sig] = event
    else:
        state.work_queue.close_call(event)


def due(state: PlacementState) -> list[SignatureId]:
    """Return the signatures refused by extenders that are due for a retry."""
    return [sig for sig, at_ms in sorted(state.extender_retry_ms.items()) if at_ms <= state.now_ms]


def note_refused(state: PlacementState, event: Refused) -> None:
    """Keep the extenders' reasons until the retry: only extenders could give them again."""
    call = state.work_queue.extender_call
    if call is None or call.answer is None:
        if state.extender_refusals:
            forget(state, event.sig)
    elif event.sig in state.refused:
        state.extender_refusals[event.sig] = structs.replace(event, attempt=0, ids=b"")


def remember(state: PlacementState, sig: SignatureId, answer: ExtendersAnswered) -> None:
    """Note when to retry a gang refused after this answer, as no node may announce it."""
    if sig in state.refused:
        state.extender_retry_ms[sig] = state.now_ms + (
            FAILED_RETRY_MS if answer.error else RETRY_MS
        )


def forget(state: PlacementState, sig: SignatureId) -> None:
    """Forget a signature whose pods are retried or deleted."""
    state.extender_retry_ms.pop(sig, None)
    state.extender_refusals.pop(sig, None)


def note_room_refused(state: PlacementState, node: NodeId) -> None:
    """Note that extenders refuse the asked pod a node that its victims have left."""
    call = state.work_queue.extender_call
    assert call is not None, f"node {node} is refused, and no call is open"
    kept = {
        key: until_ms for key, until_ms in state.extender_vetoes.items() if until_ms > state.now_ms
    }
    kept[call.asked.sig, node] = state.now_ms + RETRY_MS
    state.extender_vetoes = kept


def rows_to_try(
    state: PlacementState, sig: SignatureId, nominated_pods: NominatedPods | None
) -> I64:
    """Return the rows where preemption may help, except nodes that extenders refused to this
    signature a short time ago.
    """
    rows = state.kernel.resolvable_rows(state.table, compiled(state, sig), nominated_pods)
    late = state.extender_vetoes.items()
    nodes = [node for (one, node), until_ms in late if one == sig and until_ms > state.now_ms]
    return rows[~np.isin(state.table.ids[rows], nodes)] if nodes else rows
