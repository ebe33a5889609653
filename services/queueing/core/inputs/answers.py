"""What shards and binding answer: reserved, refused, improved, digests, bind outcomes.

Answers for pods that stand elsewhere by now are ignored: facts overtake each other between
journals, and each one finds the pods that it is still true for.
"""

from collections.abc import Sequence

import numpy as np

from services.queueing.core.gangs import members
from services.queueing.core.pods import moves
from services.queueing.core.pods.relabel import concerned
from services.queueing.core.pods.table import SMALL
from services.queueing.core.preemption import asks
from services.queueing.core.state import Attempt, Left, QueueingState, Sig, by_number, refusal_of
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import message_refresh, permit_rejections
from shared.events.binding import BindFailed, Bound
from shared.events.placement import Improved, Refused, Reserved, ShardDigest
from shared.model.cluster_event_kinds import POD_DELETE
from shared.model.columns import I64, few, size, unpack

IN_FLIGHT = int(Pod.IN_FLIGHT)


def reserved(state: QueueingState, event: Reserved) -> None:
    """The shard has a node for these pods; their credits come back."""
    attempt = state.attempts.get(event.attempt)
    if attempt is None:
        return
    pods = state.pods
    if size(event.ids) <= SMALL and not state.gangs:
        _reserved_few(state, attempt, few(event.ids))
        return
    ids = pods.select(unpack(event.ids), Pod.IN_FLIGHT, event.attempt)
    if not len(ids):
        return
    rows = pods.rows(ids)
    state.answered(attempt, len(ids), placed=True)
    pods.move("reserved", ids, rows)
    pods.attempt[rows] = _kept(state, attempt)
    members.count(state, rows, running=1)


def _kept(state: QueueingState, attempt: Attempt) -> int:
    """What a reserved pod's attempt is remembered by, if a permit plugin may still refuse it."""
    return attempt.attempt if state.config.wakes else 0


def _reserved_few(state: QueueingState, attempt: Attempt, ids: Sequence[int]) -> None:
    """The same for a handful, without arrays."""
    pods, count, kept = state.pods, 0, _kept(state, attempt)
    for pod in ids:
        row = pod - pods.base
        if not pods.base <= pod < pods.top or pods.state_at[row] != IN_FLIGHT:
            continue
        if pods.attempt_at[row] == attempt.attempt:
            pods.move_one("reserved", row)
            pods.attempt_at[row] = kept
            count += 1
    if count:
        state.answered(attempt, count, placed=True)


def refused(state: QueueingState, event: Refused) -> None:
    """The shard has none: it is not asked again for this signature before it improves."""
    sig = state.sigs.get(event.sig)
    if not event.attempt:
        if sig is not None:
            message_refresh.refused(state, sig, event)
        return
    if event.error:
        _came_to_an_error(state, event)
        return
    said = refusal_of(event)
    numbers = concerned(state, (event.sig,), event.world)
    for number in numbers:
        sig = state.sigs.get(number)
        if sig is not None:
            sig.refusals[event.shard], sig.note = said, ""
            bit = 1 << event.shard
            state.set_mask(sig, sig.mask | bit, sig.again & ~bit)
    attempt = state.attempts.get(event.attempt)
    if attempt is None:
        return
    pods = state.pods
    ids = pods.select(unpack(event.ids), Pod.IN_FLIGHT, event.attempt)
    if not len(ids):
        return
    state.answered(attempt, len(ids))
    # A shard may know of a signature that its pods have yet to get here.
    tried = (*numbers, attempt.sig)
    for number, part in by_number(pods.sig[pods.rows(ids)].astype(np.int64)):
        if number in tried:
            _leave_over(state, state.sigs[number], attempt, ids[part])
        else:
            moves.home(state, ids[part])


def _came_to_an_error(state: QueueingState, event: Refused) -> None:
    """Nothing is known of the signature; the pods are tried again after their backoff, though the
    shard refused them before it made room for them.
    """
    ids = state.pods.select(unpack(event.ids), Pod.IN_FLIGHT, event.attempt)
    if len(ids):
        for number in np.unique(state.pods.sig[state.pods.rows(ids)]).tolist():
            sig = state.sigs[number]
            state.set_mask(sig, sig.mask, sig.again | 1 << event.shard)
        moves.back_off(state, np.sort(ids), is_error=True)
        state.errors.append((event.sig, ids.tobytes(), event.error))


def _leave_over(state: QueueingState, sig: Sig, attempt: Attempt, ids: I64) -> None:
    state.pods.move("refused", ids, state.pods.rows(ids))
    left = sig.left.get(attempt.attempt)
    if left is None:
        left = Left(attempt.tried | 1 << attempt.shard, attempt.rounds)
        sig.left[attempt.attempt] = left
        state.enlist_left(sig, attempt.attempt, left)
    left.ids.frombytes(ids.tobytes())
    left.live += len(ids)
    if state.room:
        asks.refused(state, ids)


def improved(state: QueueingState, event: Improved) -> None:
    """The shard takes back its refusals: leftovers and parked pods may go there again."""
    for number in concerned(state, unpack(event.sigs).tolist(), event.world):
        sig = state.sigs.get(number)
        if sig is not None:
            state.set_mask(sig, sig.mask & ~(1 << event.shard), sig.again)
            members.improved(state, number)


def digest(state: QueueingState, event: ShardDigest) -> None:
    """Free amounts for routing. Refusals that counted another number of nodes are stale."""
    shard = state.shards[event.shard]
    shard.free_cpu_milli = event.free_cpu_milli
    shard.free_memory_bytes = event.free_memory_bytes
    shard.free_gpu_milli = event.free_gpu_milli
    if state.all_mask != 1:
        for attempt in state.attempts.values():
            if attempt.shard == event.shard and attempt.sig in state.sigs:
                shard.take(state.sigs[attempt.sig], attempt.open)
    if shard.nodes == event.nodes:
        return
    shard.nodes = event.nodes
    for number in sorted(state.sigs):
        sig = state.sigs[number]
        refusal = sig.refusals.get(event.shard)
        if refusal is not None and refusal.nodes != event.nodes:
            state.set_mask(sig, sig.mask & ~(1 << event.shard), sig.again)
    for number in sorted(state.gangs):
        gang = state.gangs[number]
        if gang.sigs and not gang.committed:
            gang.improved = True
            members.touch(state, gang)


def bound(state: QueueingState, event: Bound) -> None:
    """Definitely on their nodes."""
    state.rate.add(state.now_ms, size(event.ids))
    moves.finish(state, "bound", event.ids)


def bind_failed(state: QueueingState, event: BindFailed) -> None:
    """Definitely not on their nodes by us: gone, on foreign nodes, or to be tried again."""
    if event.reason == "gone":
        moves.finish(state, "gone", event.ids)
        return
    if event.reason == "foreign":
        moves.finish(state, "bound", event.ids)
        return
    if not state.config.wakes:
        _back_off(state, unpack(event.ids))
        return
    plugins = event.plugins or ("",) * size(event.ids)
    for pod, plugin in zip(unpack(event.ids).tolist(), plugins, strict=True):
        _one_failed(state, pod, plugin)
        # A place is free again; that is no news to who has left it.
        permit_rejections.note(state, POD_DELETE, but=pod)


def _one_failed(state: QueueingState, pod: int, plugin: str) -> None:
    """Whom a permit plugin refused waits for an event; a member is tried again without its gang."""
    pods, one = state.pods, np.array([pod], np.int64)
    row = pod - pods.base
    is_on_its_way = pods.state_of(pod) in (Pod.RESERVED, Pod.IN_FLIGHT)
    if not is_on_its_way or pods.gang[row] or plugin not in state.config.wakes:
        _back_off(state, one)
        return
    attempt = int(pods.attempt[row])
    moves.leave(state, one, pods.rows(one))
    moves.refuse(state, one)
    permit_rejections.hold(state, pod, plugin, attempt)
    moves.delay(state, one)


def _back_off(state: QueueingState, ids: I64) -> None:
    for code in (Pod.RESERVED, Pod.IN_FLIGHT, Pod.TRYING):
        found = state.pods.select(ids, code)
        if len(found):
            moves.back_off(state, np.sort(found), is_error=True)
