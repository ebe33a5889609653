"""A gang and preemption: it asks after a try without room, for places for all needed members or
none, and is tried at once when the room is there. Meanwhile it is tried like any failed gang and
does not ask again. Each failed ask makes it wait longer before the next one.
"""

from services.queueing.core.config import GANG_ASK_AGAIN_MS, GANG_ASKS_OPEN_MAX
from services.queueing.core.gangs.member_lists import needed_groups, pending_groups
from services.queueing.core.gangs.members import (
    ask_early_ms,
    complete,
    needed,
    touch,
)
from services.queueing.core.state import ASK_OPEN, ASK_WANTED, NOT_ASKED, Gang, QueueingState
from services.queueing.core.waiting.messages import NEVER, preempts, timed_out_message, with_claims
from shared.events.permit import GangReleased
from shared.events.preemption import GangPreemptionClosed, GangRoomMade
from shared.events.queueing import GangPreemptAsked, GangPreemptRecalled, Members
from shared.model.columns import size

# ------------------------------------------------------------------ inputs


def note_no_room(state: QueueingState, gang: Gang, event: GangReleased) -> None:
    """Note a try without room. A gang whose ask failed asks again after a while."""
    gang.domains = list(event.domains)
    if not event.preemptible:
        gang.note = _never(state, gang)
    elif gang.preempting == NOT_ASKED and gang.ask_ms <= state.now_ms:
        _become(state, gang, ASK_WANTED)


def _never(state: QueueingState, gang: Gang) -> str:
    """Return the message if a member must not preempt, and so the gang may not."""
    sigs = [state.sigs[sig] for sig in gang.sigs if sig in state.sigs]
    asks = state.config.gang_preemption and all(preempts(sig, state.config) for sig in sigs)
    never = any(sig.never_preempts for sig in sigs)
    return with_claims(sigs[0], state.config, NEVER) if asks and never else ""


def may_preempt(state: QueueingState, members: tuple[Members, ...]) -> bool:
    """Return whether pods may be evicted for a gang of these members: for all of them or none."""
    sigs = [state.sigs[part.sig] for part in members]
    allowed = all(preempts(sig, state.config) and not sig.never_preempts for sig in sigs)
    return allowed and state.config.gang_preemption


def on_gang_preemption_closed(state: QueueingState, event: GangPreemptionClosed) -> None:
    """End the gang's ask: no victims, or the preemption ended."""
    gang = state.gangs.get(event.gang)
    if gang is None or gang.preempting != ASK_OPEN:
        return
    _become(state, gang, NOT_ASKED)
    gang.has_room = False
    gang.asks, gang.ask_closed_ms = gang.asks + 1, state.now_ms
    gang.ask_ms = ask_early_ms(gang)
    if event.message:
        gang.ask_ms = state.now_ms + GANG_ASK_AGAIN_MS
        _note(state, gang, event.message)
    touch(state, gang)


def _note(state: QueueingState, gang: Gang, message: str) -> None:
    """Append preemption's text to the message of the last try, in place of the text of an earlier
    ask.
    """
    before = f" {gang.note}" if gang.note else ""
    known = [state.sigs[sig] for sig in gang.sigs if sig in state.sigs]
    gang.note = with_claims(known[0], state.config, message) if known else message
    if gang.failures and not gang.attempt and gang.verdict != timed_out_message(gang):
        gang.verdict = f"{gang.verdict.removesuffix(before)} {gang.note}"


def on_gang_room_made(state: QueueingState, event: GangRoomMade) -> None:
    """Note that the last victim left: the gang is tried before its backoff ends."""
    gang = state.gangs.get(event.gang)
    if gang is not None and gang.preempting == ASK_OPEN and not gang.committed:
        gang.has_room = True
        touch(state, gang)


def recall(state: QueueingState, gang: Gang) -> None:
    """Recall the ask of a gang that changed or needs no room any more."""
    if gang.preempting == ASK_OPEN:
        state.gang_recalls[gang.gang] = None
    else:
        _become(state, gang, NOT_ASKED)
    gang.ask_ms, gang.note, gang.has_room = 0, "", False
    gang.asks = gang.ask_closed_ms = 0


def _become(state: QueueingState, gang: Gang, preempting: int) -> None:
    gang.preempting = preempting
    index(state, gang)


def index(state: QueueingState, gang: Gang) -> None:
    """Index the gangs that want to ask and those that have asked."""
    state.gang_asks.pop(gang.gang, None)
    if gang.preempting != NOT_ASKED:
        state.gang_asks[gang.gang] = None


# -------------------------------------------------------------- own events


def on_gang_preempt_asked(state: QueueingState, event: GangPreemptAsked) -> None:
    """Note that the gang waits for preemption's answer."""
    state.gangs[event.gang].preempting = ASK_OPEN


def on_gang_preempt_recalled(state: QueueingState, event: GangPreemptRecalled) -> None:
    """Note the recall; preemption will close the ask."""
    del state.gang_recalls[event.gang]


# --------------------------------------------------------------- decisions


def decide_gang_ask(state: QueueingState) -> GangPreemptAsked | None:
    """Return the ask for the gang of highest priority, then age, or None."""
    gangs = [state.gangs[number] for number in state.gang_asks if number in state.gangs]
    wanting = [gang for gang in gangs if gang.preempting == ASK_WANTED]
    if not wanting or len(gangs) - len(wanting) >= GANG_ASKS_OPEN_MAX:
        return None
    wanting = [gang for gang in wanting if not gang.attempt and complete(gang)]
    wanting = [gang for gang in wanting if not gang.tree or needed_groups(state, gang)]
    if not wanting:
        return None
    gang = min(wanting, key=lambda gang: (-gang.priority, gang.seq))
    levels = gang.topology.levels if gang.topology is not None and gang.domains else ()
    if gang.tree:
        members = needed_groups(state, gang)
        count = sum(size(part.ids) for part in members)
        return GangPreemptAsked(gang.gang, count, members, queue=_queue(state, members))
    members = pending_groups(state, gang)
    places = needed(gang), members, levels, tuple(gang.domains)
    return GangPreemptAsked(gang.gang, *places, _queue(state, members))


def _queue(state: QueueingState, members: tuple[Members, ...]) -> str:
    """Return the queue of the first member if any queue has a guarantee."""
    if state.quota is None or not state.quota.has_guarantees:
        return ""
    return state.sigs[members[0].sig].queue
