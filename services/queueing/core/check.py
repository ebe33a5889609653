"""Invariants that are too expensive for every step: checks every counter and index against the
pods.
"""

import numpy as np

from services.queueing.core.gangs import group_trees, members
from services.queueing.core.pods.table import PERMIT_REJECTED, STATES, backoff_ends
from services.queueing.core.queues.charges import check_charges
from services.queueing.core.state import Gang, QueueingState, Sig
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import unschedulable_timeout


def check(state: QueueingState) -> None:
    """Check every counter and index against the pods."""
    pods = state.pods
    codes = pods.state[: pods.top - pods.base]
    counts = np.bincount(codes, minlength=STATES).tolist()
    assert counts[1 : Pod.BOUND] == pods.counts[1 : Pod.BOUND], "counts of pods by state"
    for number in sorted(state.sigs):
        _check_sig(state, state.sigs[number])
    _check_attempts(state)
    waiting = backoff_ends(pods, pods.in_state(Pod.BACKOFF) - pods.base)
    ends, numbers = np.unique(waiting, return_counts=True)
    there = dict(zip(ends.tolist(), numbers.tolist(), strict=True))
    assert there == {end: one.live for end, one in state.backoff.items()}, "pods in backoff"
    held = waiting % 2 == 1
    held &= pods.errors[pods.in_state(Pod.BACKOFF) - pods.base] == PERMIT_REJECTED
    known = sorted(pod for pods in state.permit_rejected.values() for pod in pods)
    assert known == pods.in_state(Pod.BACKOFF)[held].tolist(), "pods rejected by Permit plugins"
    assert set(known).issuperset(state.woken_by_event), "woken for an event, but not rejected"
    for _number, gang in sorted(state.gangs.items()):
        _check_gang(state, gang)
    assert sorted(state.nominated) == pods.in_state(Pod.NOMINATED).tolist(), "nominated"
    assert set(state.nominated).issuperset(state.places_given), "kept places of other pods"
    leaving = set(state.leaving)
    assert leaving.issuperset(pods.in_state(Pod.PREEMPTING).tolist()), (
        "pods that wait for unknown victims"
    )
    assert leaving.isdisjoint(state.room), "room is made while victims leave"
    assert leaving >= state.victims_texts.keys() >= state.untold.keys(), "a text without victims"
    assert leaving.isdisjoint(pods.in_state(Pod.ASKING).tolist()), "victims asked for twice"
    asking = pods.in_state(Pod.ASKING).tolist()
    assert asking == sorted(pod for pods in state.askers.values() for pod in pods), "asked for"
    assert all(state.askers.values()), "signatures without asking pods"
    assert state.askers.keys() >= state.retired.keys(), "retired without asking pods"
    wanting = {n for n, sig in state.sigs.items() if sig.askable and n not in state.askers}
    if state.quota is not None:
        wanting -= state.quota.held_asks.keys()
        wanting -= state.quota.vain_asks.keys()
    assert wanting.issubset(state.ask_next), "signatures that want to ask"
    check_charges(state)
    heaps = [sig for _key, sig in (*state.ask_due, *state.ask_later)]
    assert sorted(heaps) == sorted(state.ask_next), "signatures in the heaps of asks"


def _check_sig(state: QueueingState, sig: Sig) -> None:
    pods = state.pods
    used = pods.top - pods.base
    has_sig = pods.sig[:used] == sig.sig
    codes = pods.state[:used][has_sig]
    assert sig.fifo.live == np.count_nonzero(codes == Pod.READY), f"signature {sig.sig} ready"
    parked = np.count_nonzero(codes == Pod.PARKED)
    assert sig.parked_live == parked, f"signature {sig.sig} parked"
    ids = np.flatnonzero(has_sig) + pods.base
    preempting = ids[codes == Pod.PREEMPTING].tolist()
    waits = sorted(state.preempting.get(sig.sig, ()))
    assert waits == preempting, f"signature {sig.sig} preempting"
    unschedulable = unschedulable_timeout.count_ends(
        state, ids[(codes == Pod.PARKED) | (codes == Pod.PREEMPTING)]
    )
    assert sig.flush_counts == unschedulable, f"signature {sig.sig}: unschedulable pods by time"
    assert sig.flush_ms == min(unschedulable, default=0), f"signature {sig.sig}: when it flushes"
    left = sum(leftovers.live for leftovers in sig.leftovers.values())
    assert left == np.count_nonzero(codes == Pod.LEFTOVER), f"signature {sig.sig} leftovers"
    # No lost wake-up: a parked pod is refused by every shard, or is about to be woken.
    refused = sig.mask == state.all_mask
    assert not (parked or preempting) or refused or sig.sig in state.wake, (
        f"signature {sig.sig} sleeps"
    )


def _check_root(state: QueueingState, root: Gang) -> None:
    groups = list(group_trees.groups_of(state, root))
    assert root.waiting == sum(group.waiting for group in groups), f"root {root.gang} waiting"
    assert root.running == sum(group.running for group in groups), f"root {root.gang} running"


def _check_gang(state: QueueingState, gang: Gang) -> None:
    if gang.tree:
        _check_root(state, gang)
        return
    pods, number = state.pods, gang.gang
    rows = np.flatnonzero(pods.gang[: pods.top - pods.base] == number)
    codes = pods.state[rows]
    assert gang.waiting == np.count_nonzero(codes == Pod.GANG_PENDING), f"gang {number} waiting"
    tried = any(number in other.tried_groups for other in state.gangs.values())
    assert gang.attempt or tried or not np.count_nonzero(codes == Pod.GANG_IN_FLIGHT), (
        f"gang {number} trying"
    )
    live = rows[(codes != Pod.UNKNOWN) & (codes < Pod.BOUND)] + pods.base
    assert set(live.tolist()).issubset(gang.members), f"gang {number}: members that it lost"
    heap = members.ready_gangs(state, gang.place[3]) if gang.place is not None else ()
    assert gang.place is None or gang.place in heap, f"gang {number} has no place"
    is_below = members.is_below_minimum(gang)
    assert is_below == (gang.below_ms > 0) == (number in state.below_minimum), (
        f"gang {number} below"
    )
    timer = (gang.timer_ms, number)
    assert gang.timer_ms is None or timer in state.gang_timers, f"gang {number} has no timer"


def _check_attempts(state: QueueingState) -> None:
    pods = state.pods
    flying = pods.attempt[pods.in_state(Pod.IN_FLIGHT) - pods.base]
    for number, attempt in state.attempts.items():
        assert attempt.open == np.count_nonzero(flying == number) > 0, f"attempt {number} open"
    for at, shard in enumerate(state.shards):
        at_shard = [attempt for attempt in state.attempts.values() if attempt.shard == at]
        assert shard.open == sum(attempt.open for attempt in at_shard), f"shard {at} open"
        units = sum(attempt.open + attempt.fixed for attempt in at_shard)
        assert shard.units == units, f"shard {at}: {shard.units} credits taken, owed {units}"
