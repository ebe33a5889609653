"""What shards and binding answer: candidates, nominations, evictions."""

from services.preemption.core import gang_preemption, shared_dry_runs
from services.preemption.core.state import FAILED, FREED, LOST, Ask, PreemptionState
from services.preemption.core.transitions import LEAVING, Phase
from shared.events.binding import Evicted, EvictionFailed
from shared.events.placement import (
    CandidatesFound,
    Nominated,
    NominationLost,
    NominationReady,
    NominationStale,
)
from shared.model.columns import few


def candidates(state: PreemptionState, event: CandidatesFound, placements: int) -> None:
    """A shard's candidates; the choice is made when every shard answered."""
    if event.ask in state.runs:
        shared_dry_runs.found(state, event, placements)
        return
    ask = state.asks.get(event.ask)
    if ask is None or ask.phase is not Phase.DRY_RUN or event.shard in ask.found:
        return
    ask.found[event.shard] = event
    all_found = len(ask.found) == placements
    ask.follow("all_candidates_found" if all_found else "candidates_found")
    state.note(ask)


def nomination(
    state: PreemptionState, event: Nominated | NominationStale | NominationReady | NominationLost
) -> None:
    """What became of the nomination in the owning shard."""
    ask = state.asks.get(event.ask)
    if ask is None or event.shard != ask.shard:
        return
    match event:
        case Nominated() if ask.phase is Phase.NOMINATING:
            _nominated(state, ask, event)
        case NominationStale() if ask.phase is Phase.NOMINATING:
            ask.follow("nomination_stale")
            state.give_back(ask.ask, ask.victims)
            ask.victims, ask.nominated = [], False
            if event.freed:
                # Filter has the next word: another round would evict where nobody need go.
                state.finish(ask, FREED)
        case NominationReady() if ask.phase in LEAVING and not ask.end:
            ask.follow("nomination_ready")
            if ask.band:
                gang_preemption.member_ready(state, ask)
            else:
                state.set_due(ask, state.now_ms + state.config.place_ms_max)
        case NominationLost() if ask.phase is Phase.READY:
            ask.follow("nomination_lost")
            state.close(ask)
            return
        case NominationLost() if ask.phase in LEAVING:
            ask.nominated = False
            state.finish(ask, LOST)
    state.note(ask)


def _nominated(state: PreemptionState, ask: Ask, event: Nominated) -> None:
    """The shard has the last word on the victims: some may have left meanwhile."""
    ask.follow("nominated")
    kept = few(event.victims)
    state.give_back(ask.ask, [pod for pod in ask.victims if pod not in kept])
    ask.victims = [pod for pod in ask.victims if pod in kept and pod not in state.gone]


def eviction(state: PreemptionState, event: Evicted | EvictionFailed) -> None:
    """Binding's word on evictions, also on those of asks that are over."""
    ids = few(event.ids)
    ask = state.asks.get(event.ask)
    if isinstance(event, EvictionFailed):
        state.give_back(event.ask, ids)
        if ask is not None and ask.phase in LEAVING:
            state.finish(ask, FAILED)
        return
    for pod in ids:
        victim = state.victims.get(pod)
        if victim is not None and victim.ask == event.ask:
            victim.evicted = True
    if ask is not None:
        all_answered(state, ask)


def all_answered(state: PreemptionState, ask: Ask) -> None:
    """The victims' time to leave starts when the last eviction is answered."""
    if ask.phase is Phase.EVICTING and not state.unanswered(ask):
        ask.follow("all_evicted")
        state.set_due(ask, state.now_ms + state.config.victims_ms_max)
