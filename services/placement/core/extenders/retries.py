"""Who extenders are asked about now, what they said last, and when gangs are tried anew that they
refused, or nodes whose room they refused to a preemptor: single pods have their five minutes in the
queue.
"""

import numpy as np
from msgspec import structs

from services.placement.core.books.charges import compiled
from services.placement.core.placing import sampling
from services.placement.core.state import PlacementState
from shared.events.observed import ExtendersAnswered
from shared.events.placement import ExtendersAsked, Refused
from shared.model.columns import I64
from shared.scheduling.table.layout import Held

AGAIN_MS = 300_000
"""When a gang is tried anew of which extenders refused a member, and room is made again where they
refused it: nobody tells a shard that they changed their mind. As long as kube-scheduler leaves a
pod among the unschedulable ones.
"""
FAILED_AGAIN_MS = 1_000
"""The same where one failed: by then the queue knows how long the gang has to back off."""


def asked(state: PlacementState, event: ExtendersAsked) -> None:
    """Extenders are asked about a pod."""
    state.extender_asks = event.ask
    if event.gang >= 0:
        state.todo.judging = event
        return
    sampling.searched(state, event.examined)
    state.todo.ask(event)


def answered(state: PlacementState, event: ExtendersAnswered) -> None:
    """They answered."""
    member = state.todo.judging
    if member is not None and member.ask == event.ask:
        state.todo.judging = None
        state.judged.setdefault((member.gang, member.attempt), {})[member.sig] = event
    else:
        state.todo.answered(event)


def due(state: PlacementState) -> list[int]:
    """Signatures that extenders refused, whose pods are to be tried anew now."""
    return [sig for sig, at_ms in sorted(state.again.items()) if at_ms <= state.now_ms]


def refused(state: PlacementState, event: Refused) -> None:
    """What was said of pods that extenders refused stands until they are tried anew: nobody but
    extenders could say it again.
    """
    asking = state.todo.asking
    if asking is None or asking.answer is None:
        if state.told:
            forget(state, event.sig)
    elif event.sig in state.refused:
        state.told[event.sig] = structs.replace(event, attempt=0, ids=b"")


def remember(state: PlacementState, sig: int, answer: ExtendersAnswered) -> None:
    """A gang was refused after this answer: when to try it anew, as no node may announce it."""
    if sig in state.refused:
        state.again[sig] = state.now_ms + (FAILED_AGAIN_MS if answer.error else AGAIN_MS)


def forget(state: PlacementState, sig: int) -> None:
    """Its pods are tried anew, or gone."""
    state.again.pop(sig, None)
    state.told.pop(sig, None)


def room_refused(state: PlacementState, node: int) -> None:
    """Victims left this node for the pod that was asked about, and extenders refuse it."""
    asking = state.todo.asking
    assert asking is not None, f"node {node} is refused to nobody"
    kept = {key: until_ms for key, until_ms in state.not_left.items() if until_ms > state.now_ms}
    kept[asking.asked.sig, node] = state.now_ms + AGAIN_MS
    state.not_left = kept


def rows_to_try(state: PlacementState, sig: int, held: Held | None) -> I64:
    """Rows of nodes that the end of pods may mend, but for those whose room extenders refused to
    this signature a short time ago: there somebody would go in vain.
    """
    rows = state.kernel.resolvable_rows(state.table, compiled(state, sig), held)
    late = state.not_left.items()
    nodes = [node for (one, node), until_ms in late if one == sig and until_ms > state.now_ms]
    return rows[~np.isin(state.table.ids[rows], nodes)] if nodes else rows
