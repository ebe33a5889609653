"""Turns: one shard at a time places pods with wide rules (placement's placing/turns.py).

Shards get turns in the order in which they asked. The others count before a turn begins, and place
no pod that its rules count until it has ended, so what they counted holds.

An attempt of a gang with such members waits in the same line. At its head one shard after the other
has a turn for it, until minCount members are held or all shards in a row have refused: HoldAsked
grants the turn, with what all others have counted, held members too, and the answer ends it. The
attempt leaves the line as it ends, and its turn lasts until the answers that are under way.
"""

from collections.abc import Iterator

from services.permit.core.plan import as_members
from services.permit.core.state import NO_KEY, NO_SHARD, AskedTurn, Attempt, PermitState, Turn
from shared.events.base import Event
from shared.events.permit import CountsAsked, HoldAsked, RulesChanged, TurnGranted
from shared.events.placement import (
    CountsChanged,
    GangHeld,
    GangRefused,
    RulesCounted,
    TurnAsked,
    TurnEnded,
)
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
    """Begin the turn of the first shard or gang."""
    asked, of = state.asked_turns[0], (event.gang, event.attempt)
    assert asked.of == of, f"{event}: the next is attempt {asked.of}"
    if of == NO_KEY:
        assert asked.shard == event.shard, f"{event}: the next is shard {asked.shard}"
        state.asked_turns.pop(0)
    else:
        attempt = state.attempts[of]
        attempt.follow("counts_asked")
        state.note(attempt)
    state.turns = event.turn
    state.turn = Turn(event.turn, event.shard, asked.sigs, of=of)


def on_rules_counted(state: PermitState, event: RulesCounted, placements: int) -> None:
    """Keep what a shard has counted."""
    turn = state.turn
    assert turn is not None, f"shard {event.shard} counted for turn {event.turn}, which is over"
    assert turn.number == event.turn, f"shard {event.shard} counted for turn {event.turn}"
    turn.counts[event.shard] = event.counts
    end_without_hold(state, placements)


def on_turn_granted(state: PermitState, _event: TurnGranted) -> None:
    """Forget the counts, which the shard has now."""
    assert state.turn is not None
    state.turn.granted, state.turn.counts = True, {}


def wait_in_line(state: PermitState, attempt: Attempt) -> None:
    """Let an attempt with wide members wait for its turn."""
    attempt.follow("all_offered_for_a_turn")
    state.asked_turns.append(AskedTurn(NO_SHARD, attempt.wide, attempt.key))


def on_hold_asked(state: PermitState, event: HoldAsked) -> None:
    """Forget the counts, which the shard has now."""
    turn = state.turn
    assert turn is not None, f"{event}: the turn is over"
    assert (turn.number, turn.shard) == (event.turn, event.shard), f"{event} in turn {turn.number}"
    turn.granted, turn.counts = True, {}


def on_hold_answer(state: PermitState, event: GangHeld | GangRefused) -> None:
    """End the gang's turn, whether its attempt is open or not."""
    turn = state.turn
    if turn is None or turn.of != (event.gang, event.attempt):
        return
    if turn.granted and turn.shard == event.shard:
        state.turn = None


def end_without_hold(state: PermitState, placements: int) -> None:
    """End a turn whose attempt ended before a shard was asked to hold, once all have counted."""
    turn = state.turn
    if turn is None or turn.of == NO_KEY or turn.of in state.attempts:
        return
    if not turn.granted and len(turn.counts) == placements - 1:
        state.turn = None


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
        return _next_turn(state) is not None
    return not state.turn.granted and len(state.turn.counts) == placements - 1


def decide_turns(state: PermitState, placements: int) -> Iterator[Event]:
    """Yield what shards must learn, the next turn, and the grant once all others have counted."""
    while state.changed_shards:
        yield RulesChanged(state.changed_shards[0])
    asked = _next_turn(state)
    if state.turn is None and asked is not None:
        yield asked
    turn = state.turn
    if turn is not None and not turn.granted and len(turn.counts) == placements - 1:
        counts = added(turn.counts[shard] for shard in sorted(turn.counts))
        if turn.of == NO_KEY:
            yield TurnGranted(turn.number, turn.shard, pack(turn.sigs), counts)
        elif not state.attempts[turn.of].cannot_commit:
            attempt = state.attempts[turn.of]
            members, sigs = as_members(attempt.without_hold()), pack(turn.sigs)
            paths = () if attempt.domain is None else (attempt.domain,) * len(members)
            yield HoldAsked(
                *(*turn.of, turn.shard, members, turn.number, sigs, counts),
                levels=attempt.levels,
                domains=paths,
            )


def _next_turn(state: PermitState) -> CountsAsked | None:
    """Return the beginning of the next turn; None if the first in the line needs none now."""
    if not state.asked_turns:
        return None
    first = state.asked_turns[0]
    number, sigs = state.turns + 1, pack(first.sigs)
    if first.of == NO_KEY:
        return CountsAsked(number, first.shard, sigs)
    attempt = state.attempts[first.of]
    if not attempt.needs_turn:
        return None
    shard, domain = _next_shard(attempt), attempt.domain or ()
    return CountsAsked(number, shard, sigs, *first.of, attempt.levels, domain)


def _next_shard(attempt: Attempt) -> int:
    """Return the shard whose turn it is: those that offered most come first; ties rotate by the
    gang's number.
    """
    first = attempt.gang % len(attempt.offers)
    offers = sorted(attempt.offers.items())
    order = sorted(offers, key=lambda one: (-sum(one[1].counts), one[0] < first))
    return order[attempt.plans % len(order)][0]
