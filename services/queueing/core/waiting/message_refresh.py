"""Messages that stay true: what refused signatures are refused for is asked again now and then.

A shard wakes pods when one of its nodes could take them; that it refuses them for other reasons, or
counts, than it did is not worth a word until somebody asks. So while pods of a signature wait, all
shards look again every `confirm_ms`, or twice as often where many wait, and with their last answer
the message is confirmed or replaced. No pod moves for it. Gangs are tried again all the time: what
the tries say is confirmed; what a gang waits for before it is tried is known here.
"""

from collections.abc import Iterator
from heapq import heappop

import numpy as np

from services.queueing.core.config import GANG_TOLD_AFTER_MS, LOOKS_EVERY_MS, LOOKS_MAX
from services.queueing.core.gangs.members import members_in
from services.queueing.core.inputs.own_events import confirm_in_ms, look_later, may_ask, parked_ids
from services.queueing.core.state import Gang, QueueingState, Refusal, Sig, by_number, refusal_of
from services.queueing.core.transitions import Pod
from services.queueing.core.waiting.messages import ON_PERMIT, gated, may_preempt, parked_message
from shared.events.base import Event
from shared.events.placement import Refused
from shared.events.queueing import Confirmed, GangWaits, Parked, ReasonsAsked
from shared.model.columns import I64, pack, unpack

OF_A_GANG = (Pod.WAITING, Pod.TRYING)


def asked(state: QueueingState, event: ReasonsAsked) -> None:
    """All shards look again."""
    sig = state.sigs[event.sig]
    if state.config.looks_per_s:
        state.looks_from_ms = state.now_ms + LOOKS_EVERY_MS
    look_later(state, sig)
    sig.looking = state.all_mask


def refused(state: QueueingState, sig: Sig, event: Refused) -> None:
    """A shard has looked again; what preemption said stays as long as the shard says the same."""
    new = refusal_of(event)
    old = sig.refusals.get(event.shard)
    if old is None or (old.reasons, old.nodes, *_helps(old)) != (
        new.reasons,
        new.nodes,
        *_helps(new),
    ):
        sig.note = ""
    sig.refusals[event.shard] = new
    state.set_mask(sig, sig.mask | 1 << event.shard, sig.again)
    sig.looking &= ~(1 << event.shard)
    if not sig.looking and sig.mask == state.all_mask:
        sig.looked = True
        state.looked[sig.sig] = None


def _helps(refusal: Refusal) -> tuple[int, bool]:
    return refusal.resolvable, refusal.preemptible


def confirmed(state: QueueingState, event: Confirmed) -> None:
    """It was said. Where the reasons are others than before, preemption may help by now."""
    pods, ids = state.pods, unpack(event.ids)
    if len(ids) and pods.state_of(int(ids[0])) in OF_A_GANG:
        return
    sig = state.sigs[event.sig]
    sig.looked = False
    state.looked.pop(sig.sig, None)
    if sig.parked_live and not sig.note and may_preempt(sig, state.config):
        rows = pods.rows(parked_ids(state, sig))
        pods.askable[rows] = may_ask(state, rows)
        sig.askable = int(np.count_nonzero(pods.askable[rows]))
        state.refresh(sig)


def gang_failed(state: QueueingState, gang: Gang) -> None:
    """Another try came to the same: that confirms what was said, if that is long ago."""
    again = gang.message and gang.message == gang.verdict
    if state.config.confirm_ms and again and gang.look_ms <= state.now_ms:
        gang.looked = True
        state.gangs_looked[gang.gang] = None


def gang_told(state: QueueingState, gang: Gang, is_new: bool) -> None:
    """The gang's message was said, or said again. What it waits for may come in a moment, so its
    members are told of that a little later; a verdict they are told at once.
    """
    if is_new or gang.look_ms <= state.now_ms:
        gang.look_ms = state.now_ms + confirm_in_ms(state)
    is_verdict = bool(gang.message) and gang.message == gang.verdict
    if is_new and not gang.attempt and not is_verdict:
        gang.tell_ms = gang.tell_ms or state.now_ms + GANG_TOLD_AFTER_MS
    else:
        gang.tell_ms = 0
    gang.looked = False
    state.gangs_looked.pop(gang.gang, None)


# --------------------------------------------------------------- decisions


def next_ms(state: QueueingState) -> int | None:
    """When the next signature or gang is due."""
    times = [next_look_ms(state), next_tell_ms(state)]
    return min((at_ms for at_ms in times if at_ms is not None), default=None)


def next_tell_ms(state: QueueingState) -> int | None:
    """When the members of the next gang are told."""
    heap = state.gang_tells
    while heap:
        at_ms, number = heap[0]
        gang = state.gangs.get(number)
        if gang is not None and gang.due_ms == at_ms:
            return at_ms
        heappop(heap)
    return None


def next_look_ms(state: QueueingState) -> int | None:
    """When shards are asked about the next signature."""
    at_ms = _first_look_ms(state)
    return None if at_ms is None else max(at_ms, state.looks_from_ms)


def _first_look_ms(state: QueueingState) -> int | None:
    """When the first signature is due; which one stands first among `state.looks`."""
    heap = state.looks if state.config.confirm_ms else []
    while heap:
        at_ms, number = heap[0]
        sig = state.sigs.get(number)
        # Who waits is only asked when it is time: what were dropped earlier, a state that was
        # loaded would still have.
        is_it = sig is not None and sig.look_ms == at_ms
        if sig is not None and is_it and (at_ms > state.now_ms or len(_waiting(state, sig))):
            return at_ms
        heappop(heap)
    return None


def decide(state: QueueingState) -> Iterator[Event]:
    """What is due is asked, what was answered is said."""
    for number in sorted(state.looked):
        sig = state.sigs[number]
        ids = _waiting(state, sig)
        yield Confirmed(number, pack(ids), parked_message(sig, state.config))
    for number in sorted(state.gangs_looked):
        gang = state.gangs[number]
        yield GangWaits(number, gang.message)
        yield from tell(state, gang, Confirmed)
    yield from _tells(state)
    yield from _looks(state)


def _looks(state: QueueingState) -> Iterator[Event]:
    """Shards are asked about the signatures that are due longest. One record has many of them, and
    their number has a bound: each look costs an event here and in every shard, and a confirmation.
    """
    left = state.config.looks_per_s or LOOKS_MAX
    if state.looks_from_ms > state.now_ms:
        return
    while left and (at_ms := _first_look_ms(state)) is not None and at_ms <= state.now_ms:
        yield ReasonsAsked(state.looks[0][1])
        left -= 1


def _tells(state: QueueingState) -> Iterator[Event]:
    """Members that are to be told, or told again, what their gang waits for."""
    while (at_ms := next_tell_ms(state)) is not None and at_ms <= state.now_ms:
        gang = state.gangs[state.gang_tells[0][1]]
        is_new = bool(gang.tell_ms)
        if gang.attempt and (gated(gang) or not gang.message or not is_new):
            # What was said before the try does not hold for as long as that.
            yield GangWaits(gang.gang, ON_PERMIT)
        else:
            yield GangWaits(gang.gang, gang.message)
        yield from tell(state, gang, Parked if is_new else Confirmed)


def tell(
    state: QueueingState, gang: Gang, kind: type[Parked] | type[Confirmed]
) -> Iterator[Parked | Confirmed]:
    """What is said of the gang, to all of its members that wait."""
    for code in (Pod.WAITING, Pod.TRYING):
        ids = members_in(state, gang, code)
        if len(ids):
            for sig, part in by_number(state.pods.sig[state.pods.rows(ids)].astype(np.int64)):
                yield kind(sig, pack(ids[part]), gang.message)


def _waiting(state: QueueingState, sig: Sig) -> I64:
    """Parked pods of the signature, and those that preemption works for, by id."""
    ids = parked_ids(state, sig) if sig.parked_live else np.zeros(0, np.int64)
    others = [*state.askers.get(sig.sig, ()), *state.preempting.get(sig.sig, ())]
    if not others:
        return ids
    return np.sort(np.concatenate((ids, np.array(others, np.int64))))
