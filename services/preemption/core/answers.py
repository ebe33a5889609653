"""Answers of shards and binding: candidates, nominations, evictions."""

from typing import assert_never

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
from shared.model.columns import as_numbers


def on_candidates_found(state: PreemptionState, event: CandidatesFound, placements: int) -> None:
    """Add a shard's candidates; the choice is made when every shard has answered."""
    if event.ask in state.runs:
        shared_dry_runs.on_shared_candidates(state, event, placements)
        return
    ask = state.asks.get(event.ask)
    if ask is None or ask.phase is not Phase.DRY_RUN or event.shard in ask.found:
        return
    ask.found[event.shard] = event
    all_found = len(ask.found) == placements
    ask.follow("all_candidates_found" if all_found else "candidates_found")
    state.note(ask)


def on_nomination_answer(
    state: PreemptionState, event: Nominated | NominationStale | NominationReady | NominationLost
) -> None:
    """Apply the outcome of a nomination in the owning shard."""
    ask = state.asks.get(event.ask)
    if ask is None or event.shard != ask.shard:
        return
    match event:
        case Nominated() if ask.phase is Phase.NOMINATING:
            _on_nominated(state, ask, event)
        case NominationStale() if ask.phase is Phase.NOMINATING:
            ask.follow("nomination_stale")
            state.release_victims(ask.ask, ask.victims)
            ask.victims, ask.nominated = [], False
            if event.freed:
                # Filter decides next: another round would evict needlessly.
                state.finish(ask, FREED)
        case NominationReady() if ask.phase in LEAVING and not ask.end:
            ask.follow("nomination_ready")
            if ask.gang_ask:
                gang_preemption.on_member_ready(state, ask)
            else:
                state.set_due(ask, state.now_ms + state.config.place_ms_max)
        case NominationLost() if ask.phase is Phase.READY:
            ask.follow("nomination_lost")
            state.close(ask)
            return
        case NominationLost() if ask.phase in LEAVING:
            ask.nominated = False
            state.finish(ask, LOST)
        case Nominated() | NominationStale() | NominationReady() | NominationLost():
            pass  # late
        case _:
            assert_never(event)
    state.note(ask)


def _on_nominated(state: PreemptionState, ask: Ask, event: Nominated) -> None:
    """Apply the shard's final victims: some may have left meanwhile."""
    ask.follow("nominated")
    ask.node_name = event.name
    kept = as_numbers(event.victims)
    state.release_victims(ask.ask, [pod for pod in ask.victims if pod not in kept])
    ask.victims = [pod for pod in ask.victims if pod in kept and pod not in state.gone]


def on_eviction_outcome(state: PreemptionState, event: Evicted | EvictionFailed) -> None:
    """Apply binding's outcomes of evictions, also for ended asks."""
    ids = as_numbers(event.ids)
    ask = state.asks.get(event.ask)
    if isinstance(event, EvictionFailed):
        state.release_victims(event.ask, ids)
        if ask is not None and ask.phase in LEAVING:
            state.finish(ask, FAILED)
        return
    for pod in ids:
        victim = state.victims.get(pod)
        if victim is not None and victim.ask == event.ask:
            victim.evicted = True
    if ask is not None:
        start_victim_timeout(state, ask)


def start_victim_timeout(state: PreemptionState, ask: Ask) -> None:
    """Start the victims' time to leave, once the last eviction is answered."""
    if ask.phase is Phase.EVICTING and not state.has_open_eviction(ask):
        ask.follow("all_evicted")
        state.set_due(ask, state.now_ms + state.config.victims_ms_max)
