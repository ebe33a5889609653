"""Preemption for a whole gang: places for all needed members, or no victim at all.

One gang at a time is tried and nominated. Each shard returns its places for the members one after
the other; the cheapest of all shards' next places are chosen until there are enough. From the
nominations on each member's ask is like a single pod's (see core.py), except that no victim is
evicted before every shard has charged its part, and that the end of one ends all.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from services.preemption.core import queue_use
from services.preemption.core.candidate_choice import choice, default_message, order
from services.preemption.core.gang_ask import GangAsk, Group
from services.preemption.core.state import Ask, PreemptionState
from services.preemption.core.transitions import GangPhase, Phase
from shared.events.placement import (
    CandidatesFound,
    GangNominated,
    GangNominationStale,
    Place,
    PlacesFound,
)
from shared.events.preemption import (
    GangDryRunAsked,
    GangNominateAsked,
    GangPreemptionClosed,
    GangRoomMade,
)
from shared.events.queueing import GangPreemptAsked, GangPreemptRecalled, Members
from shared.model.columns import as_numbers, pack, size, unpack
from shared.model.groups.topology import Path
from shared.model.ids import NO_ASK, NO_POD, AskId, PodId
from shared.model.preemption.victims import Nominee

RECALLED = "its group changed"
BUSY = (GangPhase.DRY_RUN, GangPhase.ANSWERED, GangPhase.NOMINATING)

GangInput = (
    GangPreemptAsked | GangPreemptRecalled | PlacesFound | GangNominated | GangNominationStale
)
GangDecision = GangDryRunAsked | GangNominateAsked | GangRoomMade | GangPreemptionClosed
Chosen = list[tuple[int, Place]]
"""(shard, place) in the order of choice"""


# --------------------------------------------------------------- decisions


def decide_gang_asks(state: PreemptionState) -> Iterator[GangDecision]:
    """Yield decisions for gangs that wait for no answer, in the order of their asks."""
    while (gang_ask := next_gang_ask(state)) is not None:
        if gang_ask.end and not gang_ask.asks:
            yield GangPreemptionClosed(gang_ask.ask, gang_ask.gang, "")
        elif gang_ask.phase is GangPhase.READY:
            yield GangRoomMade(gang_ask.ask, gang_ask.gang)
        elif gang_ask.phase is GangPhase.NEW:
            yield _decide_dry_run(state, gang_ask)
        else:
            yield from _decide_places(state, gang_ask)


def next_gang_ask(state: PreemptionState) -> GangAsk | None:
    """Return the first gang ask with something to decide."""
    is_busy = any(gang_ask.phase in BUSY for gang_ask in state.gang_asks.values())
    for _ask, gang_ask in sorted(state.gang_asks.items()):
        if gang_ask.end:
            is_due = not gang_ask.asks
        elif gang_ask.phase is GangPhase.NEW:
            is_due = not is_busy
        else:
            is_due = gang_ask.phase in (GangPhase.ANSWERED, GangPhase.READY)
        if is_due:
            return gang_ask
    return None


def _decide_dry_run(
    state: PreemptionState, gang_ask: GangAsk
) -> GangDryRunAsked | GangPreemptionClosed:
    """Yield another dry run while rounds are left and enough members remain."""
    groups = _groups_in_need(state, gang_ask)
    if gang_ask.rounds >= state.config.rounds_max or _members(groups) < gang_ask.needed:
        return GangPreemptionClosed(gang_ask.ask, gang_ask.gang, "")
    return _dry_run(state, gang_ask, groups, gang_ask.domains[0] if gang_ask.domains else ())


def _dry_run(
    state: PreemptionState, gang_ask: GangAsk, groups: Sequence[Group], domain: Path
) -> GangDryRunAsked:
    members = tuple(Members(sig, pack(ids)) for sig, ids in groups)
    taken, named = pack(state.taken()), state.budgets.counted_pods(state.victims)
    allowances = state.budgets.allowances()
    return GangDryRunAsked(
        *(gang_ask.ask, gang_ask.gang, gang_ask.needed, members, allowances, taken, named),
        levels=gang_ask.levels,
        domain=domain,
        spare=state.spare_members(),
        used=queue_use.used(state, gang_ask),
    )


def _groups_in_need(state: PreemptionState, gang_ask: GangAsk) -> list[Group]:
    """Return the groups without members that need nothing any more, or for which room is being made
    since before their gang fell.
    """

    def is_in_need(pod: PodId) -> bool:
        ask = state.asks.get(state.by_pod.get(pod, NO_ASK))
        is_helped = ask is not None and not ask.gang_ask
        return not is_helped and pod not in state.gone and pod not in state.placed

    return [(sig, list(filter(is_in_need, ids))) for sig, ids in gang_ask.groups]


def _members(groups: Sequence[Group]) -> int:
    return sum(len(ids) for _sig, ids in groups)


def _decide_places(state: PreemptionState, gang_ask: GangAsk) -> Iterator[GangDecision]:
    """Yield the nomination of all needed places, another round, or the end."""
    groups = _groups_in_need(state, gang_ask)
    chosen = _cheapest(gang_ask, state, [len(ids) for _sig, ids in groups])
    if len(chosen) < gang_ask.needed <= _members(groups) and len(gang_ask.domains) > 1:
        yield _dry_run(state, gang_ask, groups, gang_ask.domains[1])
        return
    if len(chosen) < gang_ask.needed:
        yield GangPreemptionClosed(gang_ask.ask, gang_ask.gang, message(gang_ask))
        return
    victims = [pod for _shard, place in chosen for pod in as_numbers(place.candidate.victims)]
    violations = sum(place.candidate.violations for _shard, place in chosen)
    is_worse = (
        state.budgets.violations(victims) > violations and gang_ask.rounds < state.config.rounds_max
    )
    limits = queue_use.limits(state, gang_ask)
    if is_worse or state.is_taken(victims) or not queue_use.allows(state, limits, victims):
        yield _decide_dry_run(state, gang_ask)
        return
    parts: dict[int, list[Nominee]] = {}
    left = [iter(ids) for _sig, ids in groups]
    for ask, (shard, place) in enumerate(chosen, start=state.last_ask + 1):
        found = place.candidate
        pod, sig = next(left[place.group]), groups[place.group][0]
        nominee = Nominee(AskId(ask), pod, sig, found.node, found.victims)
        parts.setdefault(shard, []).append(nominee)
    for shard, nominees in sorted(parts.items()):
        yield GangNominateAsked(gang_ask.ask, gang_ask.gang, shard, tuple(nominees))


def _cheapest(gang_ask: GangAsk, state: PreemptionState, left: list[int]) -> Chosen:
    """Return the cheapest of the shards' next places until there are enough. A place depends on
    those before it in its shard, so none is skipped: a shard ends where its members are used up.
    """
    answers = {found.shard: list(found.places) for found in gang_ask.answers()}
    chosen: Chosen = []
    while len(chosen) < gang_ask.needed:
        heads = [
            (_cost(shard, places[0], state), shard)
            for shard, places in answers.items()
            if places and left[places[0].group]
        ]
        if not heads:
            break
        _key, shard = min(heads)
        place = answers[shard].pop(0)
        left[place.group] -= 1
        chosen.append((shard, place))
    return chosen


def _cost(shard: int, place: Place, state: PreemptionState) -> tuple[int, ...]:
    """Return the sort key of a place, lower is better: free room before victims, and victims as for
    one pod.
    """
    found = CandidatesFound(shard, NO_ASK, NO_POD, ())
    return (size(place.candidate.victims) > 0, *order(choice(found, place.candidate, state)))


def message(gang_ask: GangAsk) -> str:
    """Return PostFilter's text: why there are not enough places."""
    answers = gang_ask.answers()
    return default_message((found.reasons, found.nodes) for found in answers)


# ------------------------------------------------------------------ events


def on_gang_input(state: PreemptionState, event: GangInput, placements: int) -> None:
    """Apply an event of queueing or a shard; events about no open gang ask are ignored."""
    match event:
        case GangPreemptAsked():
            _on_gang_preempt_asked(state, event)
        case GangPreemptRecalled():
            for gang_ask in state.gang_asks.values():
                if gang_ask.gang == event.gang:
                    _finish(state, gang_ask, RECALLED)
        case PlacesFound():
            found = state.gang_asks.get(event.ask)
            if found is not None and found.phase is GangPhase.DRY_RUN:
                found.found[event.shard] = event
                is_all = len(found.found) == placements
                found.follow("all_places_found" if is_all else "places_found")
        case GangNominated():
            _on_gang_nominated(state, event)
        case GangNominationStale():
            _on_gang_nomination_stale(state, event)
        case _:
            assert_never(event)


def _on_gang_preempt_asked(state: PreemptionState, event: GangPreemptAsked) -> None:
    for gang_ask in state.gang_asks.values():
        if gang_ask.gang == event.gang:
            _finish(state, gang_ask, RECALLED)
    state.last_ask += 1
    ask = AskId(state.last_ask)
    groups = [(part.sig, unpack(part.ids).tolist()) for part in event.members]
    gang_ask = GangAsk(ask, event.gang, event.needed, groups)
    gang_ask.levels, gang_ask.domains = event.levels, list(event.domains)
    gang_ask.queue = event.queue
    state.gang_asks[ask] = gang_ask


def _finish(state: PreemptionState, gang_ask: GangAsk, why: str) -> None:
    """Close the gang ask after its members' places are released."""
    gang_ask.end, gang_ask.needs_new_round = gang_ask.end or why, False
    for number in gang_ask.asks:
        state.finish(state.asks[number], why)


def _on_gang_nominated(state: PreemptionState, event: GangNominated) -> None:
    """Apply a shard's nominations, with the shard's final victims."""
    for one in event.nominees:
        ask = state.asks.get(one.ask)
        if ask is not None and ask.phase is Phase.NOMINATING:
            ask.follow("nominated")
            kept = as_numbers(one.victims)
            state.release_victims(ask.ask, [pod for pod in ask.victims if pod not in kept])
            ask.victims = [pod for pod in ask.victims if pod in kept and pod not in state.gone]
            state.note(ask)
    gang_ask = state.gang_asks.get(event.ask)
    if gang_ask is None or event.shard not in gang_ask.open_shards:
        return
    gang_ask.open_shards.remove(event.shard)
    if gang_ask.phase is GangPhase.NOMINATING and not gang_ask.needs_new_round and not gang_ask.end:
        gang_ask.follow("gang_nominated" if gang_ask.open_shards else "all_gang_nominated")
        for number in gang_ask.asks:
            state.note(state.asks[number])
        _all_ready(state, gang_ask)


def _on_gang_nomination_stale(state: PreemptionState, event: GangNominationStale) -> None:
    """Start another round after a stale nomination: places of other shards are released first."""
    gang_ask = state.gang_asks.get(event.ask)
    if gang_ask is None or event.shard not in gang_ask.open_shards:
        return
    gang_ask.open_shards.remove(event.shard)
    gang_ask.needs_new_round = not gang_ask.end
    stale_asks = [
        state.asks[number] for number in gang_ask.asks if state.asks[number].shard == event.shard
    ]
    for ask in stale_asks:
        state.release_victims(ask.ask, ask.victims)
        ask.follow("nomination_cleared")
        state.close(ask)


def on_member_ready(state: PreemptionState, ask: Ask) -> None:
    """Note that a member's last victim has left."""
    state.set_due(ask, 0)
    _all_ready(state, state.gang_asks[ask.gang_ask])


def _all_ready(state: PreemptionState, gang_ask: GangAsk) -> None:
    phases = (state.asks[number].phase for number in gang_ask.asks)
    if gang_ask.phase is GangPhase.LEAVING and all(phase is Phase.READY for phase in phases):
        gang_ask.follow("all_ready")


def on_gang_decision(state: PreemptionState, event: GangDecision) -> None:
    """Apply the gang preemption's own decisions."""
    gang_ask = state.gang_asks[event.ask]
    match event:
        case GangDryRunAsked():
            gang_ask.follow("gang_dry_run_asked")
            if gang_ask.domains and gang_ask.domains[0] != event.domain:
                del gang_ask.domains[0]
                gang_ask.rounds = 0
            gang_ask.rounds += 1
            gang_ask.found = {}
            gang_ask.groups = [(part.sig, unpack(part.ids).tolist()) for part in event.members]
        case GangNominateAsked():
            gang_ask.follow("gang_nominate_asked")
            gang_ask.found = {}
            gang_ask.open_shards.append(event.shard)
            for nominee in event.nominees:
                _open(state, gang_ask, event.shard, nominee)
        case GangRoomMade():
            gang_ask.follow("gang_room_made")
            for number in gang_ask.asks:
                state.set_due(state.asks[number], state.now_ms + state.config.place_ms_max)
        case GangPreemptionClosed():
            gang_ask.follow("gang_preemption_closed")
            del state.gang_asks[gang_ask.ask]
        case _:
            assert_never(event)


def _open(state: PreemptionState, gang_ask: GangAsk, shard: int, nominee: Nominee) -> None:
    """Open a member's own ask."""
    ask = Ask(
        nominee.ask,
        nominee.pod,
        nominee.sig,
        Phase.NOMINATING,
        shard=shard,
        node=nominee.node,
        nominated=True,
        gang_ask=gang_ask.ask,
    )
    state.last_ask = max(state.last_ask, ask.ask)
    gang_ask.asks.append(ask.ask)
    state.open(ask)
    state.claim_victims(ask, as_numbers(nominee.victims))


def check(state: PreemptionState) -> None:
    """Check the gang asks against the members' asks."""
    for gang_ask in state.gang_asks.values():
        for number in gang_ask.asks:
            assert state.asks[number].gang_ask == gang_ask.ask, (
                f"{gang_ask}: ask {number} is another's"
            )
        if (
            gang_ask.phase in (GangPhase.LEAVING, GangPhase.READY, GangPhase.PLACING)
            and not gang_ask.end
        ):
            assert len(gang_ask.asks) == gang_ask.needed, f"{gang_ask}: not as many as are needed"
    members = sum(ask.gang_ask != 0 for ask in state.asks.values())
    assert members == sum(len(gang_ask.asks) for gang_ask in state.gang_asks.values()), (
        "members of no gang"
    )
