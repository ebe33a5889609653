"""Preemption's core: chooses victims for preemptors, one at a time, from what the shards try out.

The shards do the dry runs and re-validate; here candidates are merged, budgets and victims have
their one owner, and evictions are asked for only after a shard charged the nomination. It deletes
nothing itself (binding does) and moves no pod between queues (queueing does).

Kinds of pods (signatures) take turns, by priority and then in the order of their asks: the dry run
of one is asked for in the record that has the nominations of the one before, which shards read
first.

An ask that is over always says so: PreemptionClosed, or NominationReady from the shard. Answers to
closed asks are ignored, except for what became of evictions: a victim is free for others only when
it is known not to be on its way out.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from services.preemption.core import answers, extender_victims, facts, gang_preemption
from services.preemption.core.candidate_choice import Choice, choices, message
from services.preemption.core.config import KINDS_MAX, Config, parse_config
from services.preemption.core.state import LEFT, SUPERSEDED, Ask, PreemptionState, Run
from services.preemption.core.transitions import SEARCHING, Phase
from shared.events.base import Configured, Event
from shared.events.binding import Bound, Evicted, EvictionFailed, VictimsJudged
from shared.events.ingest import BudgetCovers, BudgetGone, BudgetSet, PodsAssigned, PodsGone
from shared.events.placement import (
    CandidatesFound,
    GangNominated,
    GangNominationStale,
    Nominated,
    NominationLost,
    NominationReady,
    NominationStale,
    PlacesFound,
)
from shared.events.preemption import (
    DryRunAsked,
    EvictAsked,
    EvictRecalled,
    GangDryRunAsked,
    GangNominateAsked,
    GangPreemptionClosed,
    GangRoomMade,
    NominateAsked,
    NominationCleared,
    PreemptionClosed,
    PreemptionOpened,
    VictimsAsked,
)
from shared.events.queueing import GangPreemptAsked, GangPreemptRecalled, PreemptAsked
from shared.model.columns import few, pack
from shared.model.ids import BINDING, INGEST, PREEMPTION, QUEUEING, placement

__all__ = ["Config", "PreemptionCore", "PreemptionState", "parse_config"]


class PreemptionCore:
    """The state machine; see the module's first lines."""

    journal = PREEMPTION

    def __init__(self, placements: int) -> None:
        """`placements` is the number of shards (fixed for an epoch)."""
        assert placements >= 1
        self.placements = placements
        shards = (placement(shard) for shard in range(placements))
        self.sources: tuple[str, ...] = (INGEST, QUEUEING, *shards, BINDING)

    def new(self) -> PreemptionState:
        """See Core.new."""
        return PreemptionState(self.sources)

    def evolve(self, state: PreemptionState, event: Event) -> None:
        """See Core.evolve. What concerns no open ask is ignored: answers may come late."""
        match event:
            case PodsGone() | PodsAssigned() | Bound():
                facts.pods(state, event)
            case BudgetSet() | BudgetCovers() | BudgetGone():
                facts.budget(state, event)
            case PreemptAsked():
                for pod in (event.pod, *few(event.others)):
                    _asked(state, pod, event)
            case CandidatesFound():
                answers.candidates(state, event, self.placements)
            case VictimsJudged():
                extender_victims.judged(state, event)
            case Nominated() | NominationStale() | NominationReady() | NominationLost():
                answers.nomination(state, event)
            case Evicted() | EvictionFailed():
                answers.eviction(state, event)
            case (
                DryRunAsked() | VictimsAsked() | NominateAsked() | PreemptionOpened() | EvictAsked()
            ):
                _went_on(state, event)
            case NominationCleared() | PreemptionClosed():
                _ended(state, event)
            case (
                GangPreemptAsked()
                | GangPreemptRecalled()
                | PlacesFound()
                | GangNominated()
                | GangNominationStale()
            ):
                gang_preemption.told(state, event, self.placements)
            case GangDryRunAsked() | GangNominateAsked() | GangRoomMade() | GangPreemptionClosed():
                gang_preemption.went_on(state, event)
            case Configured():
                state.config = parse_config(event.config.get("preemption", {}))

    def decide(self, state: PreemptionState) -> Iterator[Event]:
        """See Core.decide. What waits for nobody, then those whose victims outlived their time,
        then the turn of those who search.

        Queueing bounds how many asks are open, and with them the step.
        """
        for number in sorted(state.todo):
            yield from _next(state, state.asks[number])
        for number in [ask for due_ms, ask in state.timers if due_ms <= state.now_ms]:
            yield from _close(state, state.asks[number])
        if not state.asking:
            yield from _choices(state)
        if not state.asking:
            yield from _dry_runs(state)
        yield from gang_preemption.decide(state)

    def due_ms(self, state: PreemptionState) -> int | None:
        """See Core.due_ms."""
        is_turn = bool(state.line) and not state.asking
        if state.todo or is_turn or gang_preemption.next_band(state) is not None:
            return state.now_ms
        return state.timers[0][0] if state.timers else None

    def effects(self, _state: PreemptionState) -> Mapping[int, Event]:
        """Evictions are binding's effects; preemption has none."""
        return {}

    def dump(self, state: PreemptionState) -> Any:
        """See Core.dump."""
        return state.dump()

    def load(self, body: Any) -> PreemptionState:
        """See Core.load."""
        state = self.new()
        state.restore(body)
        return state

    def check(self, state: PreemptionState) -> None:
        """See Core.check."""
        dues = ((ask.due_ms, ask.ask) for ask in state.asks.values() if ask.due_ms)
        assert state.timers == sorted(dues)
        gang_preemption.check(state)
        newest = {ask.pod: ask.ask for _n, ask in sorted(state.asks.items())}
        assert state.by_pod == newest, "one open preemption per preemptor"
        assert not any(pod in state.gone for pod in state.victims), "a victim is gone and taken"
        for ask in state.asks.values():
            if ask.phase in (Phase.NOMINATING, Phase.NOMINATED, Phase.EVICTING):
                for pod in ask.victims:
                    owner = state.victims.get(pod)
                    assert pod in state.gone or (owner is not None and owner.ask == ask.ask)


def _next(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """The next decision about an ask that is ready to go on."""
    if ask.end:
        yield from _close(state, ask)
        return
    yield PreemptionOpened(ask.ask, ask.pod, ask.node, pack(ask.victims))
    if ask.victims:
        yield EvictAsked(ask.ask, ask.pod, ask.node, pack(ask.victims))


def _choices(state: PreemptionState) -> Iterator[Event]:
    """For those who were answered, in their order, as long as the answers hold: whoever is chosen
    changes them for other kinds of pods. Where one does not get what its dry run found for it, its
    equals counted on that in vain, and it is its turn again.
    """
    chosen: int | None = None
    for ask in state.in_turn():
        if not ask.found or chosen not in (None, ask.sig):
            continue
        could = any(one.candidates for one in ask.answers())
        yield from _choose(state, ask)
        if ask.phase in (Phase.NOMINATING, Phase.JUDGING):
            chosen = ask.sig
        elif could:
            return


def _again(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """A (further) round of dry runs follows while there is one left: it stays as it is."""
    if ask.rounds >= state.config.rounds_max:
        yield PreemptionClosed(ask.ask, ask.pod, "")


def _dry_runs(state: PreemptionState) -> Iterator[Event]:
    """One for all of a signature, for those whose turn it is: one signature, and more once those
    before found nobody to go, for then they are likely to be told so as well.
    """
    for ask in state.in_turn():
        if ask.phase is Phase.NEW:
            yield from _again(state, ask)
    wanting: dict[int, list[Ask]] = {}
    for ask in state.in_turn():
        wanting.setdefault(ask.sig, []).append(ask)
    most = min(max(1, state.in_vain), KINDS_MAX)
    for sig, (ask, *others) in islice(wanting.items(), most):
        taken, pods = pack(sorted(state.victims)), pack([other.pod for other in others])
        lefts, named = state.budgets.lefts(), state.budgets.named(state.victims)
        yield DryRunAsked(ask.ask, ask.pod, sig, lefts, taken, pods, named)


def _choose(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """The best candidate that is still open to us."""
    found = ask.answers()
    if not any(answer.candidates for answer in found):
        yield PreemptionClosed(ask.ask, ask.pod, message(found))
        return
    open_choices = choices(found, state.budgets, state.victims)
    is_last = ask.rounds >= state.config.rounds_max
    if not open_choices or (_got_worse(state, ask, open_choices[0]) and not is_last):
        yield from _again(state, ask)
        return
    best = open_choices[0]
    if ask.found[best.shard].lower:
        yield extender_victims.asked(ask, best.rank)
        return
    chosen = best.candidate
    yield NominateAsked(ask.ask, ask.pod, ask.sig, best.shard, chosen.node, chosen.victims)


def _got_worse(state: PreemptionState, ask: Ask, best: Choice) -> bool:
    """Whether budgets of these victims were used up since the shards were asked."""
    if best.violations <= best.candidate.violations:
        return False
    budgets = state.budgets
    return any(
        budgets.left(budget) < ask.lefts.get(budget, 0)
        for pod in few(best.candidate.victims)
        for budget in budgets.coverage.of(pod)
    )


def _close(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """Take everything back that can be, and say that it is over."""
    is_said = ask.phase is not Phase.READY and ask.end != SUPERSEDED and not ask.band
    number, pod, shard, nominated = ask.ask, ask.pod, ask.shard, ask.nominated
    if ask.phase is Phase.EVICTING and state.unanswered(ask):
        yield EvictRecalled(number)
    if nominated or not is_said:  # what ends it without a word to queueing
        yield NominationCleared(number, pod, shard)
    if is_said:
        yield PreemptionClosed(number, pod, "")


def _asked(state: PreemptionState, pod: int, event: PreemptAsked) -> None:
    """A pod asks (again): what is still open for it is void."""
    before = state.asks.get(state.by_pod.get(pod, 0))
    if before is not None and before.phase in SEARCHING:
        before.follow("superseded")
        state.close(before)
    elif before is not None:
        state.finish(before, SUPERSEDED)
    state.last_ask += 1
    ask = Ask(state.last_ask, pod, event.sig, priority=event.priority)
    if pod in state.gone or pod in state.placed:
        ask.end = LEFT
    state.open(ask)


def _went_on(
    state: PreemptionState,
    event: DryRunAsked | VictimsAsked | NominateAsked | PreemptionOpened | EvictAsked,
) -> None:
    """The decisions that carry an ask forward."""
    ask = state.asks[event.ask]
    match event:
        case DryRunAsked():
            _dry_run_asked(state, ask, event)
        case VictimsAsked():
            ask.follow("victims_asked")
        case NominateAsked():
            ask.follow("nominate_asked")
            ask.shard, ask.node, ask.nominated = event.shard, event.node, True
            ask.found, ask.lefts = {}, {}
            state.in_vain = 0
            state.take(ask, few(event.victims))
        case PreemptionOpened():
            ask.follow("preemption_opened")
            state.set_due(ask, state.now_ms + state.config.victims_ms_max)
        case EvictAsked():
            ask.follow("evict_asked")
    state.note(ask)


def _dry_run_asked(state: PreemptionState, first: Ask, event: DryRunAsked) -> None:
    _outdate(state)
    pods = few(event.others)
    asks = [first, *(state.asks[state.by_pod[pod]] for pod in pods)]
    lefts = {one.budget: one.left for one in event.budgets}
    for ask in asks:
        ask.follow("dry_run_asked")
        ask.rounds += 1
        ask.lefts, ask.found = lefts, {}
        state.note(ask)
    if pods:
        state.runs[event.ask] = Run([ask.ask for ask in asks])


def _outdate(state: PreemptionState) -> None:
    """Void the answers from which no candidate was chosen. No round is lost if another one was."""
    for number in state.line:
        ask = state.asks[number]
        if ask.found:
            ask.rounds -= not state.in_vain
            ask.found = {}
    state.in_vain += 1


def _ended(state: PreemptionState, event: NominationCleared | PreemptionClosed) -> None:
    """The last word on an ask; victims whose eviction was never asked for are free again."""
    ask = state.asks.get(event.ask)
    if ask is None:
        return
    if isinstance(event, NominationCleared):
        ask.nominated = False
        if ask.phase is not Phase.READY and ask.end != SUPERSEDED and not ask.band:
            return
        is_void = ask.end == SUPERSEDED and ask.phase is not Phase.READY
        name = "superseded" if is_void else "nomination_cleared"
    else:
        name = "preemption_closed"
    if ask.phase in (Phase.NOMINATING, Phase.NOMINATED):
        state.give_back(ask.ask, ask.victims)
    ask.follow(name)
    state.close(ask)
