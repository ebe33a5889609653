"""Turns: one shard at a time places pods with wide rules (placement's placing/turns.py).

Shards get turns in the order in which they asked. The others count before a turn begins, and place
no pod that its rules count until it has ended, so what they counted holds.
"""

from collections.abc import Iterator

from services.permit.core.state import AskedTurn, PermitState, Turn
from shared.events.base import Event
from shared.events.permit import CountsAsked, RulesChanged, TurnGranted
from shared.events.placement import CountsChanged, RulesCounted, TurnAsked, TurnEnded
from shared.model.columns import as_numbers, pack
from shared.model.ids import SignatureId
from shared.model.pod_rules.rule_counts import added


def on_turn_asked(state: PermitState, event: TurnAsked) -> None:
    """Queue the shard; it has one place for all its signatures."""
    sigs = {SignatureId(sig) for sig in as_numbers(event.sigs)}
    for one in state.asked_turns:
        if one.shard == event.shard:
            one.sigs = sorted(sigs.union(one.sigs))
            return
    state.asked_turns.append(AskedTurn(event.shard, sorted(sigs)))


def on_counts_asked(state: PermitState, event: CountsAsked) -> None:
    """Begin the turn of the first shard."""
    asked = state.asked_turns.pop(0)
    assert asked.shard == event.shard, f"{event}: the next is shard {asked.shard}"
    state.turns = event.turn
    state.turn = Turn(event.turn, event.shard, asked.sigs)


def on_rules_counted(state: PermitState, event: RulesCounted) -> None:
    """Keep what a shard has counted."""
    turn = state.turn
    assert turn is not None, f"shard {event.shard} counted for turn {event.turn}, which is over"
    assert turn.number == event.turn, f"shard {event.shard} counted for turn {event.turn}"
    turn.counts[event.shard] = event.counts


def on_turn_granted(state: PermitState, _event: TurnGranted) -> None:
    """Forget the counts, which the shard has now."""
    assert state.turn is not None
    state.turn.granted, state.turn.counts = True, {}


def on_turn_ended(state: PermitState, event: TurnEnded) -> None:
    """End the turn."""
    assert state.turn is not None, f"shard {event.shard} ends turn {event.turn} again"
    assert state.turn.number == event.turn, f"{event} ends turn {state.turn.number}"
    state.turn = None
    if event.moved:
        _note_changed(state, event.shard)


def on_counts_changed(state: PermitState, event: CountsChanged) -> None:
    """Remember the change until the other shards know of it."""
    _note_changed(state, event.shard)


def _note_changed(state: PermitState, shard: int) -> None:
    if shard not in state.changed_shards:
        state.changed_shards.append(shard)


def on_rules_changed(state: PermitState, event: RulesChanged) -> None:
    """Forget a change that the other shards know of now."""
    state.changed_shards.remove(event.shard)


def is_due(state: PermitState, placements: int) -> bool:
    """Return whether there is something to decide."""
    if state.changed_shards:
        return True
    if state.turn is None:
        return bool(state.asked_turns)
    return not state.turn.granted and len(state.turn.counts) == placements - 1


def decide_turns(state: PermitState, placements: int) -> Iterator[Event]:
    """Yield what shards must learn, the next turn, and the grant once all others have counted."""
    while state.changed_shards:
        yield RulesChanged(state.changed_shards[0])
    if state.turn is None and state.asked_turns:
        first = state.asked_turns[0]
        yield CountsAsked(state.turns + 1, first.shard, pack(first.sigs))
    turn = state.turn
    if turn is not None and not turn.granted and len(turn.counts) == placements - 1:
        counts = added(turn.counts[shard] for shard in sorted(turn.counts))
        yield TurnGranted(turn.number, turn.shard, pack(turn.sigs), counts)
