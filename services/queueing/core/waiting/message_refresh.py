"""Message refresh: keeps the messages of waiting pods true by asking for the reasons again.

A shard wakes pods when one of its nodes fits them; it does not report that its reasons or counts
have changed until asked. So while pods of a signature wait, all shards check it again every
`confirm_ms`, or twice as often if many pods wait, and with the last answer the message is confirmed
or replaced. No pod moves for it. Gangs are tried again anyway: the results of their tries are
confirmed, and what a gang waits for before a try is known here.
"""

from collections.abc import Iterator
from heapq import heappop

import numpy as np

from services.queueing.core.config import GANG_MESSAGE_AFTER_MS, LOOKS_EVERY_MS, LOOKS_MAX
from services.queueing.core.gangs.member_lists import members_in
from services.queueing.core.inputs.own_events import (
    OF_A_GANG,
    confirm_in_ms,
    may_preempt_mask,
    parked_ids,
    schedule_refresh,
)
from services.queueing.core.state import Gang, QueueingState, Refusal, Sig, by_number, refusal_of
from services.queueing.core.waiting.messages import (
    ON_PERMIT,
    is_not_tried_message,
    may_preempt,
    parked_message,
)
from shared.events.base import Event
from shared.events.placement import Refused
from shared.events.queueing import Confirmed, GangWaits, Parked, ReasonsAsked, TryFailed
from shared.model.columns import I64, pack, unpack
from shared.model.ids import PodId


def on_reasons_asked(state: QueueingState, event: ReasonsAsked) -> None:
    """Note that all shards check the signature again."""
    sig = state.sigs[event.sig]
    if state.config.looks_per_s:
        state.looks_from_ms = state.now_ms + LOOKS_EVERY_MS
    schedule_refresh(state, sig)
    sig.refresh_mask = state.all_mask


def on_reasons(state: QueueingState, sig: Sig, event: Refused) -> None:
    """Store a shard's new reasons. Preemption's text stays while the shard's answer is the same."""
    new = refusal_of(event)
    old = sig.refusals.get(event.shard)
    if old is None or (old.reasons, old.nodes, *_helps(old)) != (
        new.reasons,
        new.nodes,
        *_helps(new),
    ):
        sig.note = ""
    sig.refusals[event.shard] = new
    state.set_mask(sig, sig.mask | 1 << event.shard, sig.retry_mask)
    sig.refresh_mask &= ~(1 << event.shard)
    if not sig.refresh_mask and sig.mask == state.all_mask:
        sig.is_refreshed = True
        state.refreshed[sig.sig] = None


def _helps(refusal: Refusal) -> tuple[int, bool]:
    return refusal.resolvable, refusal.preemptible


def on_confirmed(state: QueueingState, event: Confirmed) -> None:
    """Note the confirmed message. If the reasons changed, preemption may help now."""
    pods, ids = state.pods, unpack(event.ids)
    if len(ids) and pods.state_of(PodId(ids.item(0))) in OF_A_GANG:
        return
    if len(ids) == 1 and ids.item(0) in state.victims_texts:
        state.untold.pop(PodId(ids.item(0)), None)
        return
    sig = state.sigs[event.sig]
    sig.is_refreshed = False
    state.refreshed.pop(sig.sig, None)
    if sig.parked_live and not sig.note and may_preempt(sig, state.config):
        rows = pods.rows(parked_ids(state, sig))
        pods.askable[rows] = may_preempt_mask(state, rows)
        sig.askable = int(np.count_nonzero(pods.askable[rows]))
        state.refresh(sig)


def refresh_gang_message(state: QueueingState, gang: Gang) -> None:
    """Confirm the gang's message after another failed try with the same result, if the message is
    old.
    """
    is_same = gang.message and gang.message == gang.outcome
    if state.config.confirm_ms and is_same and gang.refresh_ms <= state.now_ms:
        gang.is_refreshed = True
        state.gangs_refreshed[gang.gang] = None


def note_gang_message(state: QueueingState, gang: Gang, is_new: bool) -> None:
    """Note that the gang's message was sent or confirmed. What it waits for may come in a moment,
    so its members get such a message a little later; a verdict at once.
    """
    if is_new or gang.refresh_ms <= state.now_ms:
        gang.refresh_ms = state.now_ms + confirm_in_ms(state)
    is_verdict = bool(gang.message) and gang.message == gang.outcome
    if is_new and not gang.attempt and not is_verdict:
        gang.message_ms = gang.message_ms or state.now_ms + GANG_MESSAGE_AFTER_MS
    else:
        gang.message_ms = 0
    gang.is_refreshed = False
    state.gangs_refreshed.pop(gang.gang, None)


# --------------------------------------------------------------- decisions


def next_ms(state: QueueingState) -> int | None:
    """Return when the next signature or gang is due, ms."""
    times = [next_refresh_ms(state), next_message_ms(state)]
    return min((at_ms for at_ms in times if at_ms is not None), default=None)


def next_message_ms(state: QueueingState) -> int | None:
    """Return when the members of the next gang get its message, ms."""
    heap = state.gang_message_heap
    while heap:
        at_ms, number = heap[0]
        gang = state.gangs.get(number)
        if gang is not None and gang.due_ms == at_ms:
            return at_ms
        heappop(heap)
    return None


def next_refresh_ms(state: QueueingState) -> int | None:
    """Return when shards are asked about the next signature, ms."""
    at_ms = _first_refresh_ms(state)
    return None if at_ms is None else max(at_ms, state.looks_from_ms)


def _first_refresh_ms(state: QueueingState) -> int | None:
    """Return when the first signature is due, ms; it is the first of `state.refresh_heap`."""
    heap = state.refresh_heap if state.config.confirm_ms else []
    while heap:
        at_ms, number = heap[0]
        sig = state.sigs.get(number)
        # Entries are only checked when due: a loaded state has entries that would have been dropped
        # earlier.
        is_it = sig is not None and sig.refresh_ms == at_ms
        if sig is not None and is_it and (at_ms > state.now_ms or len(_waiting(state, sig))):
            return at_ms
        heappop(heap)
    return None


def may_be_due(state: QueueingState) -> bool:
    """Return whether anything waits for a refresh or a message."""
    gangs = state.gangs_refreshed or state.gang_message_heap
    return bool(state.refreshed or gangs or state.refresh_heap)


def decide_refreshes(state: QueueingState) -> Iterator[Event]:
    """Yield the due requests for reasons and the messages of answered ones."""
    for refreshed in sorted(state.refreshed):
        sig = state.sigs[refreshed]
        ids = _waiting(state, sig)
        told = [pod for pod in ids.tolist() if pod in state.victims_texts]
        yield Confirmed(
            refreshed, pack(ids[~np.isin(ids, told)]), parked_message(sig, state.config)
        )
        yield from (_with_victims(state, pod) for pod in told)
    for number in sorted(state.gangs_refreshed):
        gang = state.gangs[number]
        yield GangWaits(number, gang.message)
        yield from decide_gang_message(state, gang, Confirmed)
    yield from _decide_member_messages(state)
    yield from _decide_reasons_asked(state)


def decide_untold(state: QueueingState) -> Iterator[Confirmed]:
    """Yield the messages of pods whose victims begin to leave."""
    yield from (_with_victims(state, pod) for pod in sorted(state.untold))


def _with_victims(state: QueueingState, pod: PodId) -> Confirmed:
    sig = state.sigs[state.pods.sig_at[pod - state.pods.base]]
    text = parked_message(sig, state.config, state.victims_texts[pod])
    return Confirmed(sig.sig, pack([pod]), text)


def _decide_reasons_asked(state: QueueingState) -> Iterator[Event]:
    """Yield the requests about the signatures longest due. One record has many of them, bounded:
    each costs an event here and in every shard, and a confirmation.
    """
    left = state.config.looks_per_s or LOOKS_MAX
    if state.looks_from_ms > state.now_ms:
        return
    while left and (at_ms := _first_refresh_ms(state)) is not None and at_ms <= state.now_ms:
        yield ReasonsAsked(state.refresh_heap[0][1])
        left -= 1


def _decide_member_messages(state: QueueingState) -> Iterator[Event]:
    """Yield the messages for members of gangs, new or confirmed."""
    while (at_ms := next_message_ms(state)) is not None and at_ms <= state.now_ms:
        gang = state.gangs[state.gang_message_heap[0][1]]
        is_new = bool(gang.message_ms)
        if gang.attempt and (is_not_tried_message(gang) or not gang.message or not is_new):
            # A message from before the try is valid for less time.
            yield GangWaits(gang.gang, ON_PERMIT)
        else:
            yield GangWaits(gang.gang, gang.message)
        yield from decide_gang_message(state, gang, Parked if is_new else Confirmed)


def decide_gang_message(
    state: QueueingState, gang: Gang, kind: type[Parked] | type[Confirmed] | type[TryFailed]
) -> Iterator[Parked | Confirmed | TryFailed]:
    """Yield the gang's message for all of its pending members."""
    for code in OF_A_GANG:
        ids = members_in(state, gang, code)
        if len(ids):
            for sig, part in by_number(state.pods.sig[state.pods.rows(ids)].astype(np.int64)):
                yield kind(sig, pack(ids[part]), gang.message)


def _waiting(state: QueueingState, sig: Sig) -> I64:
    """Return the signature's parked pods and those that ask preemption, by id."""
    ids = parked_ids(state, sig) if sig.parked_live else np.zeros(0, np.int64)
    others = [*state.askers.get(sig.sig, ()), *state.preempting.get(sig.sig, ())]
    if not others:
        return ids
    return np.sort(np.concatenate((ids, np.array(others, np.int64))))
