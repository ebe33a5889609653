"""Answers of shards and binding: reserved, refused, improved, digests, bind outcomes.

Answers for pods that have moved on are ignored: facts overtake each other between journals, and
each one applies to the pods for which it is still true.
"""

from collections.abc import Sequence

import numpy as np

from services.queueing.core.gangs import kept_places, members
from services.queueing.core.pods import moves
from services.queueing.core.pods.relabel import affected_signatures
from services.queueing.core.pods.table import SMALL
from services.queueing.core.preemption import asks
from services.queueing.core.state import (
    Attempt,
    Leftovers,
    QueueingState,
    Sig,
    by_number,
    refusal_of,
)
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting import message_refresh, permit_rejections
from shared.events.binding import BindFailed, Bound
from shared.events.placement import Improved, Refused, Reserved, ShardDigest
from shared.model.cluster_event_kinds import POD_DELETE
from shared.model.columns import I64, as_numbers, size, unpack
from shared.model.ids import NO_ATTEMPT, AttemptId, PodId

IN_FLIGHT = int(Pod.IN_FLIGHT)


def on_reserved(state: QueueingState, event: Reserved) -> None:
    """Reserve the pods at the shard and return their credits."""
    attempt = state.attempts.get(event.attempt)
    if attempt is None:
        return
    pods = state.pods
    if size(event.ids) <= SMALL and not state.gangs:
        _reserved_few(state, attempt, as_numbers(event.ids))
        return
    ids = pods.select(unpack(event.ids), Pod.IN_FLIGHT, event.attempt)
    if not len(ids):
        return
    rows = pods.rows(ids)
    state.return_credits(attempt, len(ids), placed=True)
    pods.move("reserved", ids, rows)
    pods.attempt[rows] = _remembered_attempt(state, attempt)
    members.count(state, rows, running=1)


def _remembered_attempt(state: QueueingState, attempt: Attempt) -> AttemptId:
    """Return the attempt to remember for a reserved pod, if a Permit plugin may still reject it."""
    return attempt.attempt if state.config.wakes else NO_ATTEMPT


def _reserved_few(state: QueueingState, attempt: Attempt, ids: Sequence[PodId]) -> None:
    """Reserve a few pods, without arrays."""
    pods, count, kept = state.pods, 0, _remembered_attempt(state, attempt)
    for pod in ids:
        row = pod - pods.base
        if not pods.base <= pod < pods.top or pods.state_at[row] != IN_FLIGHT:
            continue
        if pods.attempt_at[row] == attempt.attempt:
            pods.move_one("reserved", row)
            pods.attempt_at[row] = kept
            count += 1
    if count:
        state.return_credits(attempt, count, placed=True)


def on_refused(state: QueueingState, event: Refused) -> None:
    """Note that the shard has no node: it is not asked again for this signature before
    it improves.
    """
    sig = state.sigs.get(event.sig)
    if not event.attempt:
        if sig is not None:
            message_refresh.on_reasons(state, sig, event)
        return
    if event.error:
        _back_off_after_error(state, event)
        return
    refusal = refusal_of(event)
    numbers = affected_signatures(state, (event.sig,), event.world)
    for number in numbers:
        sig = state.sigs.get(number)
        if sig is not None:
            sig.refusals[event.shard], sig.note = refusal, ""
            bit = 1 << event.shard
            state.set_mask(sig, sig.mask | bit, sig.retry_mask & ~bit)
    attempt = state.attempts.get(event.attempt)
    if attempt is None:
        return
    pods = state.pods
    ids = pods.select(unpack(event.ids), Pod.IN_FLIGHT, event.attempt)
    if not len(ids):
        return
    state.return_credits(attempt, len(ids))
    if state.gangs:
        ids = members.rejoin(state, ids, failed=False)
        if not len(ids):
            return
    # A shard may know a signature whose pods have not reached queueing yet.
    tried = (*numbers, attempt.sig)
    for number, part in by_number(pods.sig[pods.rows(ids)].astype(np.int64)):
        if number in tried:
            _add_leftovers(state, state.sigs[number], attempt, ids[part])
        else:
            moves.requeue(state, ids[part])


def _back_off_after_error(state: QueueingState, event: Refused) -> None:
    """Back pods off after an error: nothing is known about the signature, even if the shard refused
    them before.
    """
    ids = state.pods.select(unpack(event.ids), Pod.IN_FLIGHT, event.attempt)
    if len(ids):
        for number in np.unique(state.pods.sig[state.pods.rows(ids)]).tolist():
            sig = state.sigs[number]
            state.set_mask(sig, sig.mask, sig.retry_mask | 1 << event.shard)
        moves.back_off(state, np.sort(ids), is_error=True)
        state.errors.append((event.sig, ids.tobytes(), event.error))


def _add_leftovers(state: QueueingState, sig: Sig, attempt: Attempt, ids: I64) -> None:
    state.pods.move("refused", ids, state.pods.rows(ids))
    leftovers = sig.leftovers.get(attempt.attempt)
    if leftovers is None:
        leftovers = Leftovers(attempt.tried | 1 << attempt.shard, attempt.rounds)
        sig.leftovers[attempt.attempt] = leftovers
        state.index_leftovers(sig, attempt.attempt, leftovers)
    leftovers.ids.frombytes(ids.tobytes())
    leftovers.live += len(ids)
    if state.room:
        asks.try_freed_node(state, ids)
    if state.kept_places:
        kept_places.give_to(state, ids)


def on_improved(state: QueueingState, event: Improved) -> None:
    """Clear the shard's refusals: leftovers and parked pods may be tried there again."""
    for number in affected_signatures(state, unpack(event.sigs).tolist(), event.world):
        sig = state.sigs.get(number)
        if sig is not None:
            state.set_mask(sig, sig.mask & ~(1 << event.shard), sig.retry_mask)
            members.note_improved(state, number)


def on_shard_digest(state: QueueingState, event: ShardDigest) -> None:
    """Store the free amounts for routing. Refusals with another number of nodes are stale."""
    shard = state.shards[event.shard]
    shard.free_cpu_milli = event.free_cpu_milli
    shard.free_memory_bytes = event.free_memory_bytes
    shard.free_gpu_milli = event.free_gpu_milli
    if state.all_mask != 1:
        for attempt in state.attempts.values():
            if attempt.shard == event.shard and attempt.sig in state.sigs:
                shard.add_load(state.sigs[attempt.sig], attempt.open)
    if shard.nodes == event.nodes:
        return
    shard.nodes = event.nodes
    for _number, sig in sorted(state.sigs.items()):
        refusal = sig.refusals.get(event.shard)
        if refusal is not None and refusal.nodes != event.nodes:
            state.set_mask(sig, sig.mask & ~(1 << event.shard), sig.retry_mask)
    for number in sorted(state.gangs):
        gang = state.gangs[number]
        if gang.sigs and not gang.committed:
            gang.improved = True
            members.touch(state, gang)


def on_bound(state: QueueingState, event: Bound) -> None:
    """Finish pods that are definitely on their nodes."""
    state.rate.add(state.now_ms, size(event.ids))
    moves.finish(state, "bound", event.ids)


def on_bind_failed(state: QueueingState, event: BindFailed) -> None:
    """Handle pods that we definitely did not bind: deleted, on other nodes, or to be
    tried again.
    """
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
        _requeue_failed(state, pod, plugin)
        # A place is free again, which is no event for the pod that left it.
        permit_rejections.note(state, POD_DELETE, but=pod)


def _requeue_failed(state: QueueingState, pod: PodId, plugin: str) -> None:
    """Requeue a failed pod: rejected by Permit it waits for an event; a member is tried again
    without its gang.
    """
    pods, one = state.pods, np.array([pod], np.int64)
    row = pod - pods.base
    is_on_its_way = pods.state_of(pod) in (Pod.RESERVED, Pod.IN_FLIGHT)
    if not is_on_its_way or pods.gang[row] or plugin not in state.config.wakes:
        _back_off(state, one)
        return
    attempt = pods.attempt_at[row]
    moves.leave(state, one, pods.rows(one))
    moves.count_refusal(state, one)
    permit_rejections.add_rejected(state, pod, plugin, attempt)
    moves.delay(state, one)


def _back_off(state: QueueingState, ids: I64) -> None:
    for code in (Pod.RESERVED, Pod.IN_FLIGHT, Pod.GANG_IN_FLIGHT):
        found = state.pods.select(ids, code)
        if len(found):
            moves.back_off(state, np.sort(found), is_error=True)
