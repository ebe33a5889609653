"""A gang's dealings with preemption: asked when a try found no room, for places for all that it
needs or none; tried at once when the room is there. Meanwhile it is tried like any that failed, and
asks for nobody else. Each ask that came to nothing makes it wait longer before the next one.
"""

from services.queueing.core.config import GANG_ASK_AGAIN_MS, GANG_ASKS_OPEN_MAX
from services.queueing.core.gangs.members import (
    ask_early_ms,
    complete,
    needed,
    touch,
    waiting_groups,
)
from services.queueing.core.state import ASKED, NO, WANTED, Gang, QueueingState
from services.queueing.core.waiting.messages import NEVER, preempts, timed_out, with_claims
from shared.events.permit import GangReleased
from shared.events.preemption import GangPreemptionClosed, GangRoomMade
from shared.events.queueing import GangPreemptAsked, GangPreemptRecalled, Members

# ------------------------------------------------------------------ inputs


def failed(state: QueueingState, gang: Gang, event: GangReleased) -> None:
    """A try found no room. Whoever asked in vain asks again in a while."""
    if not event.preemptible:
        gang.note = _never(state, gang)
    elif gang.preempting == NO and gang.ask_ms <= state.now_ms:
        _become(state, gang, WANTED)


def _never(state: QueueingState, gang: Gang) -> str:
    """What is said where a member must not have anybody evicted, and so the gang has nobody."""
    sigs = [state.sigs[sig] for sig in gang.sigs if sig in state.sigs]
    asks = state.config.gang_preemption and all(preempts(sig, state.config) for sig in sigs)
    never = any(sig.never_preempts for sig in sigs)
    return with_claims(sigs[0], state.config, NEVER) if asks and never else ""


def may_preempt(state: QueueingState, members: tuple[Members, ...]) -> bool:
    """Whether anybody may be evicted for a gang of these members: for all of them, or for none."""
    sigs = [state.sigs[part.sig] for part in members]
    allowed = all(preempts(sig, state.config) and not sig.never_preempts for sig in sigs)
    return allowed and state.config.gang_preemption


def closed(state: QueueingState, event: GangPreemptionClosed) -> None:
    """Nobody can go for the gang, or what was begun is over."""
    gang = state.gangs.get(event.gang)
    if gang is None or gang.preempting != ASKED:
        return
    _become(state, gang, NO)
    gang.room = False
    gang.asks, gang.told_ms = gang.asks + 1, state.now_ms
    gang.ask_ms = ask_early_ms(gang)
    if event.message:
        gang.ask_ms = state.now_ms + GANG_ASK_AGAIN_MS
        _note(state, gang, event.message)
    touch(state, gang)


def _note(state: QueueingState, gang: Gang, message: str) -> None:
    """What is said of the last try ends with it, in place of what was said after an earlier ask."""
    before = f" {gang.note}" if gang.note else ""
    known = [state.sigs[sig] for sig in gang.sigs if sig in state.sigs]
    gang.note = with_claims(known[0], state.config, message) if known else message
    if gang.failures and not gang.attempt and gang.verdict != timed_out(gang):
        gang.verdict = f"{gang.verdict.removesuffix(before)} {gang.note}"


def room_made(state: QueueingState, event: GangRoomMade) -> None:
    """The last victim left: the gang is tried before its backoff is over."""
    gang = state.gangs.get(event.gang)
    if gang is not None and gang.preempting == ASKED and not gang.committed:
        gang.room = True
        touch(state, gang)


def recall(state: QueueingState, gang: Gang) -> None:
    """It is another group now, or needs nobody's place any more."""
    if gang.preempting == ASKED:
        state.gang_recalls[gang.gang] = None
    else:
        _become(state, gang, NO)
    gang.ask_ms, gang.note, gang.room = 0, "", False
    gang.asks = gang.told_ms = 0


def _become(state: QueueingState, gang: Gang, preempting: int) -> None:
    gang.preempting = preempting
    index(state, gang)


def index(state: QueueingState, gang: Gang) -> None:
    """Keep those that want to ask, and those that did, at hand."""
    state.gang_asks.pop(gang.gang, None)
    if gang.preempting != NO:
        state.gang_asks[gang.gang] = None


# -------------------------------------------------------------- own events


def asked(state: QueueingState, event: GangPreemptAsked) -> None:
    """It waits for preemption's answer."""
    state.gangs[event.gang].preempting = ASKED


def recalled(state: QueueingState, event: GangPreemptRecalled) -> None:
    """Preemption will say that it is over."""
    del state.gang_recalls[event.gang]


# --------------------------------------------------------------- decisions


def next_ask(state: QueueingState) -> GangPreemptAsked | None:
    """For the gang of highest priority, then age."""
    gangs = [state.gangs[number] for number in state.gang_asks if number in state.gangs]
    wanting = [gang for gang in gangs if gang.preempting == WANTED]
    if not wanting or len(gangs) - len(wanting) >= GANG_ASKS_OPEN_MAX:
        return None
    wanting = [gang for gang in wanting if not gang.attempt and complete(gang)]
    if not wanting:
        return None
    gang = min(wanting, key=lambda gang: (-gang.priority, gang.seq))
    return GangPreemptAsked(gang.gang, needed(gang), waiting_groups(state, gang))
