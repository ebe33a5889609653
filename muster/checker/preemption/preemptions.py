"""Checks preemptions: asked, nominated, and only then evicted; no victim for two preemptors."""

from dataclasses import dataclass, field

from msgspec import structs

from muster.checker.inputs.facts import Facts
from muster.checker.inputs.journals import Journal, Problem, Step
from muster.checker.preemption.units import Together
from shared.events.base import Event
from shared.events.binding import Bound, Evicted, EvictionFailed, EvictionsAsked, VictimsJudged
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    BudgetSet,
    PodsAssigned,
    PodsGone,
    UnitJoined,
)
from shared.events.placement import (
    Candidate,
    CandidatesFound,
    GangNominated,
    Nominated,
    NominationLost,
    NominationReady,
    PlacesFound,
)
from shared.events.preemption import (
    DryRunAsked,
    EvictAsked,
    EvictRecalled,
    GangDryRunAsked,
    GangNominateAsked,
    NominateAsked,
    NominationCleared,
    PreemptionClosed,
    PreemptionOpened,
)
from shared.events.queueing import GangEvictAsked, GangPreemptAsked, PreemptAsked
from shared.model.columns import unpack


@dataclass
class Ask:
    """The ask of one preemptor."""

    pod: int
    sig: int
    shards: int = 0
    candidates: list[tuple[int, Candidate]] = field(default_factory=list)
    # Node -> victims that extenders may choose from; they are still to be asked.
    lower: dict[int, frozenset[int]] = field(default_factory=dict)
    nominated: frozenset[int] | None = None
    closed: bool = False
    gang_ask: int = 0  # of a member: its gang's ask


@dataclass
class GangAsk:
    """The ask of a gang: the places needed, and its members' asks in this round."""

    gang: int
    needed: int
    offered: set[tuple[int, int]] = field(default_factory=set)  # (shard, node)
    asks: list[int] = field(default_factory=list)
    over: bool = False


@dataclass
class Preemptions:
    """Asks, nominations, budgets and evictions in preemption's journal, with the
    violations found.
    """

    facts: Facts
    asks: dict[int, Ask] = field(default_factory=dict)
    gang_asks: dict[int, GangAsk] = field(default_factory=dict)
    shared_asks: dict[int, list[int]] = field(default_factory=dict)  # ask -> others of its dry run
    last_ask: int = 0
    newest: dict[int, int] = field(default_factory=dict)  # pod -> its last ask
    evicting: dict[int, int] = field(default_factory=dict)
    allowed: dict[int, int] = field(default_factory=dict)
    disrupted: dict[int, set[int]] = field(default_factory=dict)
    covered: dict[int, set[int]] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    placed: set[int] = field(default_factory=set)
    together: Together = field(default_factory=Together)
    to_evict: dict[int, set[int]] = field(default_factory=dict)  # gang -> members, as asked
    leaving: set[int] = field(default_factory=set)  # evicted, whatever became of the ask
    problems: list[Problem] = field(default_factory=list)

    def blame(self, rule: str, position: int, text: str) -> None:
        """Add a violation."""
        self.problems.append((rule, f"preemption/0 at {position}: {text}"))


def replay(journal: Journal, facts: Facts) -> Preemptions:
    """Replay preemption's whole journal."""
    books = Preemptions(facts)
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            _consume(books, event, step)
        for event in step.own:
            _decide(books, event, step)
        _check_units(books, step)
    return books


def _consume(books: Preemptions, event: Event, step: Step) -> None:
    match event:
        case BudgetSet():
            books.allowed[event.budget] = event.allowed
            # A pod named in one status is counted in later ones, which need not name it again.
            named = books.disrupted.setdefault(event.budget, set())
            named.update(unpack(event.disrupted).tolist())
            books.covered.setdefault(event.budget, set()).update(unpack(event.covered).tolist())
        case BudgetCovers():
            books.covered.setdefault(event.budget, set()).update(unpack(event.ids).tolist())
        case BudgetGone():
            books.allowed.pop(event.budget, None)
        case UnitJoined():
            books.together.learn(event)
        case GangEvictAsked():
            books.to_evict[event.gang] = set(unpack(event.ids).tolist())
        case EvictionFailed():
            books.leaving.difference_update(unpack(event.ids).tolist())
        case Bound() | PodsAssigned():
            books.placed.update(unpack(event.ids).tolist())
        case PreemptAsked():
            for pod in (event.pod, *unpack(event.others).tolist()):
                books.last_ask += 1
                books.newest[pod] = books.last_ask
        case GangPreemptAsked():
            books.last_ask += 1
        case PlacesFound():
            gang_ask = books.gang_asks.get(event.ask)
            if gang_ask is not None:
                gang_ask.offered |= {(event.shard, one.candidate.node) for one in event.places}
        case GangNominated():
            for one in event.nominees:
                if one.ask in books.asks:
                    leave = frozenset(unpack(one.victims).tolist())
                    books.asks[one.ask].nominated = leave
        case PodsGone():
            for pod in unpack(event.ids).tolist():
                books.gone.add(pod)
                books.evicting.pop(pod, None)
        case CandidatesFound():
            for number in (event.ask, *books.shared_asks.get(event.ask, ())):
                ask = books.asks.get(number)
                if ask is not None and not ask.closed:
                    found = (*event.candidates, *event.series)
                    ask.candidates += [(event.shard, candidate) for candidate in found]
                    for candidate, lower in zip(event.candidates, event.lower, strict=False):
                        ask.lower[candidate.node] = frozenset(unpack(lower.ids).tolist())
        case VictimsJudged():
            _on_victims_judged(books, event, step)
        case Nominated():
            ask = books.asks.get(event.ask)
            if ask is not None:
                ask.nominated = frozenset(unpack(event.victims).tolist())
        case NominationLost() | NominationReady():
            # The nomination ended, or all victims have left: a shard refuses to name them again.
            _free(books, event.ask)
        case _:
            pass


def _on_victims_judged(books: Preemptions, event: VictimsJudged, step: Step) -> None:
    """From here on only the victims that extenders left may be nominated."""
    ask = books.asks.get(event.ask)
    if ask is None or ask.closed:
        return
    shards = {candidate.node: (shard, candidate) for shard, candidate in ask.candidates}
    ask.candidates = [one for one in ask.candidates if one[1].node not in ask.lower]
    for answer in event.candidates:
        shard, candidate = shards[answer.node]
        if not set(unpack(answer.victims).tolist()) <= ask.lower.get(answer.node, frozenset()):
            books.blame("victims", step.position, f"ask {event.ask}: extenders name others")
        ask.candidates.append((shard, structs.replace(candidate, victims=answer.victims)))
    ask.lower = {}


def _decide(books: Preemptions, event: Event, step: Step) -> None:
    match event:
        case DryRunAsked():
            _ask(books, event, step)
        case NominateAsked():
            _pick(books, event, step)
        case EvictAsked():
            _evict(books, event, step)
        case PreemptionOpened():
            ask = books.asks.get(event.ask)
            if ask is None or ask.nominated is None:
                books.blame("nominate-first", step.position, f"ask {event.ask} opened too early")
        case PreemptionClosed():
            ask = books.asks.get(event.ask)
            if ask is not None:
                ask.closed = True
            _free(books, event.ask)
        case EvictRecalled():
            _free(books, event.ask)
        case GangDryRunAsked():
            books.gang_asks[event.ask] = GangAsk(event.gang, event.needed)
        case GangNominateAsked():
            _seat(books, event, step)
        case NominationCleared():
            _cleared(books, event)
        case _:
            pass


def _free(books: Preemptions, ask: int) -> None:
    """Release the victims of an ask that ended: victims that stay may be chosen again."""
    for victim in [victim for victim, by in books.evicting.items() if by == ask]:
        del books.evicting[victim]


def _ask(books: Preemptions, event: DryRunAsked, step: Step) -> None:
    books.asks[event.ask] = Ask(event.pod, event.sig)
    others = unpack(event.others).tolist()
    books.shared_asks[event.ask] = [books.newest.get(pod, 0) for pod in others]
    for pod, ask in zip(others, books.shared_asks[event.ask], strict=True):
        books.asks[ask] = Ask(pod, event.sig)
    allowances = {budget.budget: budget.left for budget in event.budgets}
    for budget, allowed in sorted(books.allowed.items()):
        evicting = books.covered.get(budget, set()) & set(books.evicting)
        left = allowed - len(evicting - books.disrupted.get(budget, set()) - books.gone)
        if allowances.get(budget, left if left >= 0 else 0) > max(left, 0):
            books.blame(
                "budget",
                step.position,
                f"budget {budget}: allowance {allowances[budget]} instead of {left}",
            )


def _seat(books: Preemptions, event: GangNominateAsked, step: Step) -> None:
    """Check a shard's part of a gang's places: offered by the shard, no victim of another."""
    gang_ask = books.gang_asks.get(event.ask)
    if gang_ask is None:
        books.blame("asked", step.position, f"places for ask {event.ask}, which was not asked")
        return
    for one in event.nominees:
        books.last_ask = max(books.last_ask, one.ask)
        books.asks[one.ask] = Ask(one.pod, one.sig, gang_ask=event.ask)
        gang_ask.asks.append(one.ask)
        if (event.shard, one.node) not in gang_ask.offered:
            text = f"ask {event.ask}: node {one.node} not offered"
            books.blame("candidates", step.position, text)
        shared = set(unpack(one.victims).tolist()) & set(books.evicting)
        if shared:
            text = f"ask {one.ask}: victims {sorted(shared)} shared"
            books.blame("victims", step.position, text)


def _cleared(books: Preemptions, event: NominationCleared) -> None:
    """End a member's ask and its gang's: a gang has all its places or none."""
    ask = books.asks.get(event.ask)
    if ask is not None and ask.gang_ask:
        ask.closed = books.gang_asks[ask.gang_ask].over = True
        _free(books, event.ask)


def _check_whole(books: Preemptions, ask: Ask, step: Step) -> None:
    """Check that no victim is evicted for a gang before all needed members have a place."""
    gang_ask = books.gang_asks[ask.gang_ask]
    kept = [one for one in gang_ask.asks if books.asks[one].nominated is not None]
    if gang_ask.over or len(kept) < gang_ask.needed:
        places = f"{len(kept)} of {gang_ask.needed} places"
        text = f"gang {gang_ask.gang} has {places}, and its victims are evicted"
        books.blame("gang-victims-whole", step.position, text)


def _pick(books: Preemptions, event: NominateAsked, step: Step) -> None:
    ask = books.asks.get(event.ask)
    if ask is None:
        books.blame("asked", step.position, f"nomination for ask {event.ask}, which was not asked")
        return
    chosen = [c for shard, c in ask.candidates if shard == event.shard and c.node == event.node]
    chosen = [c for c in chosen if c.victims == event.victims]
    if event.node in ask.lower:
        books.blame("judged", step.position, f"ask {event.ask}: extenders were not asked")
    if not chosen:
        books.blame("candidates", step.position, f"ask {event.ask}: node {event.node} not offered")
        return
    shared = set(unpack(event.victims).tolist()) & set(books.evicting)
    if shared:
        books.blame("victims", step.position, f"ask {event.ask}: victims {sorted(shared)} shared")


def _evict_gang(books: Preemptions, event: EvictAsked, step: Step) -> None:
    """Check the eviction of what is left of a gang: as queueing asked, without a preemptor."""
    books.last_ask = max(books.last_ask, event.ask)
    victims, asked = set(unpack(event.victims).tolist()), books.to_evict.pop(event.gang, set())
    if event.pod or not victims <= asked:
        text = f"gang {event.gang}: {sorted(victims - asked)} evicted unasked"
        books.blame("below-minimum", step.position, text)
    stay = asked & books.placed - victims - set(books.evicting) - books.leaving - books.gone
    if stay:
        text = f"gang {event.gang}: {sorted(stay)} stay below its minimum"
        books.blame("below-minimum", step.position, text)
    books.leaving |= victims
    books.evicting.update(dict.fromkeys(victims, event.ask))


def _evict(books: Preemptions, event: EvictAsked, step: Step) -> None:
    if event.gang:
        _evict_gang(books, event, step)
        return
    ask = books.asks.get(event.ask)
    victims = set(unpack(event.victims).tolist())
    together = books.together.with_others
    if ask is not None and ask.nominated is not None:
        # Groups that keep a minimum may leave with a victim, too: _check_units looks at them.
        victims -= {pod for pod in victims if _leaves_with(books, pod, ask.nominated)}
    if ask is None or ask.nominated is None or not victims <= together(ask.nominated):
        books.blame(
            "nominate-first", step.position, f"ask {event.ask}: {sorted(victims)} not nominated"
        )
        return
    if ask.gang_ask:
        _check_whole(books, ask, step)
    priority = books.facts.specs[ask.sig].priority
    victims = set(unpack(event.victims).tolist())
    books.leaving |= victims
    for victim in sorted(victims):
        spec = books.facts.spec(victim)
        if event.claimed_for and spec is not None and spec.queue:
            pass  # see reclaims.py
        elif spec is not None and spec.priority >= priority:
            books.blame("victims", step.position, f"victim {victim} is not of lower priority")
        if books.evicting.get(victim, event.ask) != event.ask:
            books.blame("victims", step.position, f"victim {victim} serves two preemptors")
        books.evicting[victim] = event.ask


def _leaves_with(books: Preemptions, pod: int, victims: frozenset[int]) -> bool:
    group, _least = books.together.minimum_of(pod)
    return bool(group) and not books.together.groups[group].isdisjoint(victims)


def _check_units(books: Preemptions, step: Step) -> None:
    """Check that at the end of a record all pods on nodes that leave with its victims leave."""
    for event in step.own:
        if isinstance(event, EvictAsked):
            whole = books.together.with_others(unpack(event.victims).tolist())
            stay = (whole & books.placed) - set(books.evicting) - books.gone
            if stay:
                text = f"ask {event.ask}: {sorted(stay)} stay although they leave with a victim"
                books.blame("unit-whole", step.position, text)
            for victim in unpack(event.victims).tolist():
                _check_minimum(books, victim, step)


def _check_minimum(books: Preemptions, victim: int, step: Step) -> None:
    """Check that after an eviction a group that keeps its minimum has as many pods, or none."""
    group, least = books.together.minimum_of(victim)
    if not group:
        return
    stay = (books.together.groups[group] & books.placed) - books.leaving - books.gone
    if 0 < len(stay) < least:
        text = f"{len(stay)} pods of group {group} stay, fewer than its {least}"
        books.blame("minimum-kept", step.position, text)


def check_sent(binding: Journal, books: Preemptions) -> None:
    """Check that binding evicts only victims that preemption asked for, and the last victim of an
    ask last: if one eviction fails, the last victim is spared.
    """
    asked: dict[int, list[int]] = {}
    over: dict[int, set[int]] = {}
    gone: set[int] = set()
    for step in binding.steps:
        for _source, _position, event in step.inputs:
            if isinstance(event, EvictAsked):
                asked[event.ask] = unpack(event.victims).tolist()
            elif isinstance(event, PodsGone):
                gone.update(unpack(event.ids).tolist())
        for event in step.own:
            if isinstance(event, Evicted | EvictionFailed):
                over.setdefault(event.ask, set()).update(unpack(event.ids).tolist())
            elif isinstance(event, EvictionsAsked):
                known = over.get(event.ask, set()) | gone
                _sent(books, event, asked.get(event.ask, []), known, step)


def _sent(
    books: Preemptions, event: EvictionsAsked, asked: list[int], known: set[int], step: Step
) -> None:
    victims = set(unpack(event.ids).tolist())
    books.sent |= victims
    if not victims <= set(asked):
        books.blame("evict-asked", step.position, f"evicts {sorted(victims)} unasked")
    elif asked[-1] in victims and not set(asked[:-1]) <= known:
        books.blame("last-victim-last", step.position, f"ask {event.ask}: {asked[-1]} too early")
