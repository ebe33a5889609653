"""Room for a whole gang: places for all members that are needed, or nobody goes.

One gang after the other is tried out and nominated. Each shard says what it has for the members one
after the other; what is cheapest of that over all shards is taken until there is enough. From the
nominations on each member's ask is one like a single pod's (see core), but that nobody is evicted
before every shard has charged its part, and that with one of them all are over.
"""

from collections.abc import Iterator, Sequence

from services.preemption.core.budgets import Budgets
from services.preemption.core.candidate_choice import choice, default_message, order
from services.preemption.core.gang_ask import Band
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
from shared.model.columns import few, pack, size, unpack
from shared.model.victims import Nominee

RECALLED = "its group changed"
BUSY = (GangPhase.DRY_RUN, GangPhase.ANSWERED, GangPhase.NOMINATING)

Told = GangPreemptAsked | GangPreemptRecalled | PlacesFound | GangNominated | GangNominationStale
Own = GangDryRunAsked | GangNominateAsked | GangRoomMade | GangPreemptionClosed
Chosen = list[tuple[int, Place]]
"""(shard, place) in the order in which they were taken"""


# --------------------------------------------------------------- decisions


def decide(state: PreemptionState) -> Iterator[Own]:
    """Gangs that wait for nobody, in the order of their asks."""
    while (band := next_band(state)) is not None:
        if band.end and not band.asks:
            yield GangPreemptionClosed(band.ask, band.gang, "")
        elif band.phase is GangPhase.READY:
            yield GangRoomMade(band.ask, band.gang)
        elif band.phase is GangPhase.NEW:
            yield _again(state, band)
        else:
            yield from _choose(state, band)


def next_band(state: PreemptionState) -> Band | None:
    """The first that something is to be decided about."""
    is_busy = any(band.phase in BUSY for band in state.bands.values())
    for _ask, band in sorted(state.bands.items()):
        if band.end:
            is_due = not band.asks
        elif band.phase is GangPhase.NEW:
            is_due = not is_busy
        else:
            is_due = band.phase in (GangPhase.ANSWERED, GangPhase.READY)
        if is_due:
            return band
    return None


def _again(state: PreemptionState, band: Band) -> GangDryRunAsked | GangPreemptionClosed:
    """A (further) round, while there is one left and there are members enough."""
    groups = _there(state, band)
    if band.rounds >= state.config.rounds_max or _members(groups) < band.needed:
        return GangPreemptionClosed(band.ask, band.gang, "")
    members = tuple(Members(sig, pack(ids)) for sig, ids in groups)
    taken, named = pack(sorted(state.victims)), state.budgets.named(state.victims)
    lefts = state.budgets.lefts()
    return GangDryRunAsked(band.ask, band.gang, band.needed, members, lefts, taken, named)


def _there(state: PreemptionState, band: Band) -> list[tuple[int, list[int]]]:
    """Groups as they were asked for, without those who need nothing any more."""
    return [
        (sig, [pod for pod in ids if pod not in state.gone and pod not in state.placed])
        for sig, ids in band.groups
    ]


def _members(groups: Sequence[tuple[int, list[int]]]) -> int:
    return sum(len(ids) for _sig, ids in groups)


def _choose(state: PreemptionState, band: Band) -> Iterator[Own]:
    """Places for all that are needed, or another round, or nothing."""
    groups = _there(state, band)
    chosen = _cheapest(band, state.budgets, [len(ids) for _sig, ids in groups])
    if len(chosen) < band.needed:
        yield GangPreemptionClosed(band.ask, band.gang, message(band))
        return
    victims = [pod for _shard, place in chosen for pod in few(place.candidate.victims)]
    said = sum(place.candidate.violations for _shard, place in chosen)
    is_worse = state.budgets.violations(victims) > said and band.rounds < state.config.rounds_max
    if is_worse or any(pod in state.victims for pod in victims):
        yield _again(state, band)
        return
    parts: dict[int, list[Nominee]] = {}
    left = [iter(ids) for _sig, ids in groups]
    for ask, (shard, place) in enumerate(chosen, start=state.last_ask + 1):
        found = place.candidate
        pod, sig = next(left[place.group]), groups[place.group][0]
        nominee = Nominee(ask, pod, sig, found.node, found.victims)
        parts.setdefault(shard, []).append(nominee)
    for shard, nominees in sorted(parts.items()):
        yield GangNominateAsked(band.ask, band.gang, shard, tuple(nominees))


def _cheapest(band: Band, budgets: Budgets, left: list[int]) -> Chosen:
    """The cheapest of what the shards have next, until there is enough. A place counts on those
    before it in its shard, so nothing of a shard is left out: it ends where its members do.
    """
    answers = {found.shard: list(found.places) for found in band.answers()}
    chosen: Chosen = []
    while len(chosen) < band.needed:
        heads = [
            (_cost(shard, places[0], budgets), shard)
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


def _cost(shard: int, place: Place, budgets: Budgets) -> tuple[int, ...]:
    """Less is better: room before victims, and victims as for one pod."""
    found = CandidatesFound(shard, 0, 0, ())
    return (size(place.candidate.victims) > 0, *order(choice(found, place.candidate, budgets)))


def message(band: Band) -> str:
    """What PostFilter would add: why there are not places enough."""
    answers = band.answers()
    return default_message((found.reasons, found.nodes) for found in answers)


# ------------------------------------------------------------------ events


def told(state: PreemptionState, event: Told, placements: int) -> None:
    """What queueing and the shards say; what concerns no open band is ignored."""
    match event:
        case GangPreemptAsked():
            _asked(state, event)
        case GangPreemptRecalled():
            for band in state.bands.values():
                if band.gang == event.gang:
                    _finish(state, band, RECALLED)
        case PlacesFound():
            found = state.bands.get(event.ask)
            if found is not None and found.phase is GangPhase.DRY_RUN:
                found.found[event.shard] = event
                is_all = len(found.found) == placements
                found.follow("all_places_found" if is_all else "places_found")
        case GangNominated():
            _nominated(state, event)
        case GangNominationStale():
            _stale(state, event)


def _asked(state: PreemptionState, event: GangPreemptAsked) -> None:
    for band in state.bands.values():
        if band.gang == event.gang:
            _finish(state, band, RECALLED)
    state.last_ask += 1
    groups = [(part.sig, unpack(part.ids).tolist()) for part in event.members]
    state.bands[state.last_ask] = Band(state.last_ask, event.gang, event.needed, groups)


def _finish(state: PreemptionState, band: Band, why: str) -> None:
    """It must be closed, and what its members have given back first."""
    band.end, band.is_again = band.end or why, False
    for number in band.asks:
        state.finish(state.asks[number], why)


def _nominated(state: PreemptionState, event: GangNominated) -> None:
    """A shard charged its part. It has the last word on the victims."""
    for one in event.nominees:
        ask = state.asks.get(one.ask)
        if ask is not None and ask.phase is Phase.NOMINATING:
            ask.follow("nominated")
            kept = few(one.victims)
            state.give_back(ask.ask, [pod for pod in ask.victims if pod not in kept])
            ask.victims = [pod for pod in ask.victims if pod in kept and pod not in state.gone]
            state.note(ask)
    band = state.bands.get(event.ask)
    if band is None or event.shard not in band.waiting:
        return
    band.waiting.remove(event.shard)
    if band.phase is GangPhase.NOMINATING and not band.is_again and not band.end:
        band.follow("gang_nominated" if band.waiting else "all_gang_nominated")
        for number in band.asks:
            state.note(state.asks[number])
        _all_ready(state, band)


def _stale(state: PreemptionState, event: GangNominationStale) -> None:
    """Nothing is charged here; what other shards charged is given back, and all are asked anew."""
    band = state.bands.get(event.ask)
    if band is None or event.shard not in band.waiting:
        return
    band.waiting.remove(event.shard)
    band.is_again = not band.end
    mine = [state.asks[number] for number in band.asks if state.asks[number].shard == event.shard]
    for ask in mine:
        state.give_back(ask.ask, ask.victims)
        ask.follow("nomination_cleared")
        state.close(ask)


def member_ready(state: PreemptionState, ask: Ask) -> None:
    """A member's last victim left."""
    state.set_due(ask, 0)
    _all_ready(state, state.bands[ask.band])


def _all_ready(state: PreemptionState, band: Band) -> None:
    asks = [state.asks[number] for number in band.asks]
    if band.phase is GangPhase.LEAVING and all(ask.phase is Phase.READY for ask in asks):
        band.follow("all_ready")


def went_on(state: PreemptionState, event: Own) -> None:
    """The decisions that carry a gang's preemption forward."""
    band = state.bands[event.ask]
    match event:
        case GangDryRunAsked():
            band.follow("gang_dry_run_asked")
            band.rounds += 1
            band.found = {}
            band.groups = [(part.sig, unpack(part.ids).tolist()) for part in event.members]
        case GangNominateAsked():
            band.follow("gang_nominate_asked")
            band.found = {}
            band.waiting.append(event.shard)
            for nominee in event.nominees:
                _open(state, band, event.shard, nominee)
        case GangRoomMade():
            band.follow("gang_room_made")
            for number in band.asks:
                state.set_due(state.asks[number], state.now_ms + state.config.place_ms_max)
        case GangPreemptionClosed():
            band.follow("gang_preemption_closed")
            del state.bands[band.ask]


def _open(state: PreemptionState, band: Band, shard: int, nominee: Nominee) -> None:
    """From here on it is a preemption for this member."""
    ask = Ask(
        nominee.ask,
        nominee.pod,
        nominee.sig,
        Phase.NOMINATING,
        shard=shard,
        node=nominee.node,
        nominated=True,
        band=band.ask,
    )
    state.last_ask = max(state.last_ask, ask.ask)
    band.asks.append(ask.ask)
    state.open(ask)
    state.take(ask, few(nominee.victims))


def check(state: PreemptionState) -> None:
    """See Core.check."""
    for band in state.bands.values():
        for number in band.asks:
            assert state.asks[number].band == band.ask, f"{band}: ask {number} is another's"
        if band.phase in (GangPhase.LEAVING, GangPhase.READY, GangPhase.TOLD) and not band.end:
            assert len(band.asks) == band.needed, f"{band}: not as many as are needed"
    members = sum(ask.band != 0 for ask in state.asks.values())
    assert members == sum(len(band.asks) for band in state.bands.values()), "members of no gang"
