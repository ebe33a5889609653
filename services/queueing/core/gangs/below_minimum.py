"""Started gangs of which fewer than minCount run: their groups say what comes after a grace.

By default nothing: waiting members start together, for as many places as are missing. With EVICT
those that run are evicted, so that a gang that cannot go on holds no nodes. With SHRINK minCount
counts as satisfied: the rest goes on, and new members are single pods, until none runs.
"""

from collections.abc import Iterator

import numpy as np

from services.queueing.core.gangs import members, preemption
from services.queueing.core.gangs.member_lists import members_in
from services.queueing.core.pods import moves
from services.queueing.core.state import Gang, QueueingState
from services.queueing.core.transitions import Pod
from shared.events.queueing import GangEvictAsked, GangShrunk
from shared.model.columns import pack
from shared.model.groups.below_minimum import EVICT

# -------------------------------------------------------------- own events


def on_gang_shrunk(state: QueueingState, event: GangShrunk) -> None:
    """Let the waiting members go on as single pods; with a topology they join the others."""
    gang = state.gangs[event.gang]
    gang.shrunk, gang.failures = True, 0
    gang.verdict, gang.shortage, gang.is_error = "", "", False
    preemption.recall(state, gang)
    members.end_index(state, gang)
    if gang.topology is None:
        gang.committed = True
        ids = members_in(state, gang, Pod.GANG_PENDING)
        if len(ids):
            moves.leave(state, ids, state.pods.rows(ids))
            moves.requeue(state, ids)
    members.touch(state, gang)


def on_gang_evict_asked(state: QueueingState, event: GangEvictAsked) -> None:
    """Begin another grace, after which members that are still there are evicted."""
    gang = state.gangs[event.gang]
    gang.below_ms = state.now_ms
    preemption.recall(state, gang)
    members.touch(state, gang)


# --------------------------------------------------------------- decisions


def decide(state: QueueingState) -> Iterator[GangShrunk | GangEvictAsked]:
    """Yield what becomes of the gangs whose grace is over."""
    due = [state.gangs[number] for number in sorted(state.below_minimum)]
    for gang in due:
        if _due_ms(gang) > state.now_ms or gang.attempt or gang.below_minimum is None:
            continue
        if gang.below_minimum.rule == EVICT:
            yield GangEvictAsked(gang.gang, _bound(state, gang))
        else:
            yield GangShrunk(gang.gang, gang.running)


def next_ms(state: QueueingState) -> int | None:
    """Return when the next grace is over, ms. Gangs that are being tried wait for the answer."""
    gangs = (state.gangs[number] for number in state.below_minimum)
    return min((_due_ms(gang) for gang in gangs if not gang.attempt), default=None)


def _due_ms(gang: Gang) -> int:
    assert gang.below_minimum is not None
    return gang.below_ms + gang.below_minimum.grace_ms


def _bound(state: QueueingState, gang: Gang) -> bytes:
    bound = [pod for pod, number in state.bound_members.items() if number == gang.gang]
    return pack(np.sort(np.array(bound, np.int64)))
