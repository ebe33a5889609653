"""Wakes what a queue held, or let borrow, once it uses less, and preemptors that asked in vain once
any queue uses more or less.
"""

from services.queueing.core.gangs import members
from services.queueing.core.state import QueueingState


def wake_held(state: QueueingState) -> None:
    """Index the signatures, gangs and preemptors that waited for such a change."""
    quota = state.quota
    if quota is None:
        return
    for number in [one for one in quota.vain_asks if one not in state.asked_in_vain]:
        del quota.vain_asks[number]
        if number in state.sigs:
            state.refresh(state.sigs[number])
    if not quota.freed:
        return
    for name in quota.freed:
        for number in quota.held.pop(name, ()):
            if number in state.sigs:
                state.index_queue(state.sigs[number])
        for number in quota.borrowers.pop(name, ()):
            if number in state.sigs:
                state.index_queue(state.sigs[number])
        quota.held_gangs.update(quota.borrowing_gangs.pop(name, {}))
    quota.freed = {}
    gangs, quota.held_gangs = quota.held_gangs, {}
    for gang in gangs:
        if gang in state.gangs:
            members.touch(state, state.gangs[gang])
    asks, quota.held_asks = quota.held_asks, {}
    for number in asks:
        if number in state.sigs:
            state.refresh(state.sigs[number])
