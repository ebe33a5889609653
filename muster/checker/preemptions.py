"""Who goes, for whom: asked, nominated, and only then evicted; nobody for two."""

from dataclasses import dataclass, field

from msgspec import structs

from muster.checker.inputs.facts import Facts
from muster.checker.inputs.journals import Journal, Problem, Step
from shared.events.base import Event
from shared.events.binding import Evicted, EvictionFailed, EvictionsAsked, VictimsJudged
from shared.events.ingest import BudgetCovers, BudgetGone, BudgetSet, PodsGone
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
from shared.events.queueing import GangPreemptAsked, PreemptAsked
from shared.model.columns import unpack


@dataclass
class Ask:
    """One preemptor's case."""

    pod: int
    sig: int
    shards: int = 0
    candidates: list[tuple[int, Candidate]] = field(default_factory=list)
    # By node whom extenders may name, who are still to be asked.
    lower: dict[int, frozenset[int]] = field(default_factory=dict)
    nominated: frozenset[int] | None = None
    closed: bool = False
    band: int = 0  # the gang's ask, of a member


@dataclass
class Band:
    """A gang's case: what is needed, and the asks of its members in the present round."""

    gang: int
    needed: int
    offered: set[tuple[int, int]] = field(default_factory=set)  # (shard, node)
    asks: list[int] = field(default_factory=list)
    over: bool = False


@dataclass
class Preemptions:
    """Preemption's books."""

    facts: Facts
    asks: dict[int, Ask] = field(default_factory=dict)
    bands: dict[int, Band] = field(default_factory=dict)
    together: dict[int, list[int]] = field(default_factory=dict)  # ask -> others of its dry run
    last_ask: int = 0
    newest: dict[int, int] = field(default_factory=dict)  # pod -> its last ask
    evicting: dict[int, int] = field(default_factory=dict)
    allowed: dict[int, int] = field(default_factory=dict)
    disrupted: dict[int, set[int]] = field(default_factory=dict)
    covered: dict[int, set[int]] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def blame(self, rule: str, position: int, text: str) -> None:
        """Note a violation."""
        self.problems.append((rule, f"preemption/0 at {position}: {text}"))


def replay(journal: Journal, facts: Facts) -> Preemptions:
    """Run preemption's journal to its end."""
    books = Preemptions(facts)
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            _consume(books, event, step)
        for event in step.own:
            _decide(books, event, step)
    return books


def _consume(books: Preemptions, event: Event, step: Step) -> None:
    match event:
        case BudgetSet():
            books.allowed[event.budget] = event.allowed
            # Whom one status has named the later ones have counted: they need not name it again.
            named = books.disrupted.setdefault(event.budget, set())
            named.update(unpack(event.disrupted).tolist())
            books.covered.setdefault(event.budget, set()).update(unpack(event.covered).tolist())
        case BudgetCovers():
            books.covered.setdefault(event.budget, set()).update(unpack(event.ids).tolist())
        case BudgetGone():
            books.allowed.pop(event.budget, None)
        case PreemptAsked():
            for pod in (event.pod, *unpack(event.others).tolist()):
                books.last_ask += 1
                books.newest[pod] = books.last_ask
        case GangPreemptAsked():
            books.last_ask += 1
        case PlacesFound():
            band = books.bands.get(event.ask)
            if band is not None:
                band.offered |= {(event.shard, one.candidate.node) for one in event.places}
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
            for number in (event.ask, *books.together.get(event.ask, ())):
                ask = books.asks.get(number)
                if ask is not None and not ask.closed:
                    found = (*event.candidates, *event.series)
                    ask.candidates += [(event.shard, candidate) for candidate in found]
                    for candidate, lower in zip(event.candidates, event.lower, strict=False):
                        ask.lower[candidate.node] = frozenset(unpack(lower.ids).tolist())
        case VictimsJudged():
            _judged(books, event, step)
        case Nominated():
            ask = books.asks.get(event.ask)
            if ask is not None:
                ask.nominated = frozenset(unpack(event.victims).tolist())
        case NominationLost() | NominationReady():
            # Given up, or all of them have left: a shard refuses whoever names those again.
            _free(books, event.ask)
        case _:
            pass


def _judged(books: Preemptions, event: VictimsJudged, step: Step) -> None:
    """Nobody else may be nominated from here on than what extenders left."""
    ask = books.asks.get(event.ask)
    if ask is None or ask.closed:
        return
    shards = {candidate.node: (shard, candidate) for shard, candidate in ask.candidates}
    ask.candidates = [one for one in ask.candidates if one[1].node not in ask.lower]
    for said in event.candidates:
        shard, candidate = shards[said.node]
        if not set(unpack(said.victims).tolist()) <= ask.lower.get(said.node, frozenset()):
            books.blame("victims", step.position, f"ask {event.ask}: extenders name others")
        ask.candidates.append((shard, structs.replace(candidate, victims=said.victims)))
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
            books.bands[event.ask] = Band(event.gang, event.needed)
        case GangNominateAsked():
            _seat(books, event, step)
        case NominationCleared():
            _cleared(books, event)
        case _:
            pass


def _free(books: Preemptions, ask: int) -> None:
    """The ask is over: those of its victims who stay may be chosen again."""
    for victim in [victim for victim, own in books.evicting.items() if own == ask]:
        del books.evicting[victim]


def _ask(books: Preemptions, event: DryRunAsked, step: Step) -> None:
    books.asks[event.ask] = Ask(event.pod, event.sig)
    others = unpack(event.others).tolist()
    books.together[event.ask] = [books.newest.get(pod, 0) for pod in others]
    for pod, ask in zip(others, books.together[event.ask], strict=True):
        books.asks[ask] = Ask(pod, event.sig)
    said = {budget.budget: budget.left for budget in event.budgets}
    for budget, allowed in sorted(books.allowed.items()):
        ours = books.covered.get(budget, set()) & set(books.evicting)
        left = allowed - len(ours - books.disrupted.get(budget, set()) - books.gone)
        if said.get(budget, left if left >= 0 else 0) > max(left, 0):
            books.blame(
                "budget", step.position, f"budget {budget}: {said[budget]} said left of {left}"
            )


def _seat(books: Preemptions, event: GangNominateAsked, step: Step) -> None:
    """A shard's part of a gang's places: what it has said, and nobody's victims."""
    band = books.bands.get(event.ask)
    if band is None:
        books.blame("asked", step.position, f"places for ask {event.ask} nobody asked")
        return
    for one in event.nominees:
        books.last_ask = max(books.last_ask, one.ask)
        books.asks[one.ask] = Ask(one.pod, one.sig, band=event.ask)
        band.asks.append(one.ask)
        if (event.shard, one.node) not in band.offered:
            text = f"ask {event.ask}: node {one.node} not offered"
            books.blame("candidates", step.position, text)
        shared = set(unpack(one.victims).tolist()) & set(books.evicting)
        if shared:
            text = f"ask {one.ask}: victims {sorted(shared)} shared"
            books.blame("victims", step.position, text)


def _cleared(books: Preemptions, event: NominationCleared) -> None:
    """A member's ask is over, and with it the gang's: it has all its places or none."""
    ask = books.asks.get(event.ask)
    if ask is not None and ask.band:
        ask.closed = books.bands[ask.band].over = True
        _free(books, event.ask)


def _check_whole(books: Preemptions, ask: Ask, step: Step) -> None:
    """Nobody goes for a gang before all members that it needs have their places."""
    band = books.bands[ask.band]
    kept = [one for one in band.asks if books.asks[one].nominated is not None]
    if band.over or len(kept) < band.needed:
        text = f"gang {band.gang} has {len(kept)} places of {band.needed}, and pods go for it"
        books.blame("gang-victims-whole", step.position, text)


def _pick(books: Preemptions, event: NominateAsked, step: Step) -> None:
    ask = books.asks.get(event.ask)
    if ask is None:
        books.blame("asked", step.position, f"nomination for ask {event.ask} nobody asked")
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


def _evict(books: Preemptions, event: EvictAsked, step: Step) -> None:
    ask = books.asks.get(event.ask)
    victims = set(unpack(event.victims).tolist())
    if ask is None or ask.nominated is None or not victims <= ask.nominated:
        books.blame(
            "nominate-first", step.position, f"ask {event.ask}: {sorted(victims)} not nominated"
        )
        return
    if ask.band:
        _check_whole(books, ask, step)
    mine = books.facts.specs[ask.sig].priority
    for victim in sorted(victims):
        spec = books.facts.spec(victim)
        if spec is not None and spec.priority >= mine:
            books.blame("victims", step.position, f"victim {victim} is not of lower priority")
        if books.evicting.get(victim, event.ask) != event.ask:
            books.blame("victims", step.position, f"victim {victim} serves two preemptors")
        books.evicting[victim] = event.ask


def check_sent(binding: Journal, books: Preemptions) -> None:
    """Binding evicts only whom preemption told it to, and the last victim of an ask last: while
    one stays that refuses to go, not everybody has gone in vain.
    """
    told: dict[int, list[int]] = {}
    over: dict[int, set[int]] = {}
    gone: set[int] = set()
    for step in binding.steps:
        for _source, _position, event in step.inputs:
            if isinstance(event, EvictAsked):
                told[event.ask] = unpack(event.victims).tolist()
            elif isinstance(event, PodsGone):
                gone.update(unpack(event.ids).tolist())
        for event in step.own:
            if isinstance(event, Evicted | EvictionFailed):
                over.setdefault(event.ask, set()).update(unpack(event.ids).tolist())
            elif isinstance(event, EvictionsAsked):
                known = over.get(event.ask, set()) | gone
                _sent(books, event, told.get(event.ask, []), known, step)


def _sent(
    books: Preemptions, event: EvictionsAsked, told: list[int], known: set[int], step: Step
) -> None:
    victims = set(unpack(event.ids).tolist())
    books.sent |= victims
    if not victims <= set(told):
        books.blame("evict-asked", step.position, f"evicts {sorted(victims)} unasked")
    elif told[-1] in victims and not set(told[:-1]) <= known:
        books.blame("last-victim-last", step.position, f"ask {event.ask}: {told[-1]} too early")
