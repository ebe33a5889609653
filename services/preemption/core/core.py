"""Preemption's core: chooses victims for preemptors, one at a time, from the shards' dry runs.

The shards do the dry runs and validate choices. Here candidates are merged, budgets and victims
have their single owner, and evictions are asked for only after a shard charged the nomination.
Preemption deletes nothing itself (binding does) and moves no pod between queues (queueing does).

Signatures take turns, by priority and then in the order of their asks: the dry run of one is asked
for in the record with the nominations of the one before, which shards read first.

The end of an ask is always announced: PreemptionClosed, or NominationReady from the shard. Answers
to closed asks are ignored, except outcomes of evictions: a victim is free for others only once it
is known not to be leaving.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, assert_never

from services.preemption.core import (
    answers,
    extender_victims,
    facts,
    gang_evictions,
    gang_preemption,
    queue_use,
)
from services.preemption.core.candidate_choice import Choice, choices, found_message, message
from services.preemption.core.config import KINDS_MAX, Config
from services.preemption.core.state import LEFT, SUPERSEDED, Ask, PreemptionState, Run
from services.preemption.core.transitions import SEARCHING, Phase
from shared.events.base import Configured, Event
from shared.events.binding import Bound, Evicted, EvictionFailed, VictimsJudged
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    BudgetSet,
    PodsAssigned,
    PodsGone,
    PodsRelabelled,
    QueuesSet,
    SignatureDefined,
    SignatureRetired,
    UnitJoined,
)
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
from shared.events.queueing import (
    GangEvictAsked,
    GangPreemptAsked,
    GangPreemptRecalled,
    PreemptAsked,
)
from shared.machine.core import Core
from shared.machine.saved import load, save
from shared.model.columns import as_numbers, pack
from shared.model.ids import (
    BINDING,
    INGEST,
    NO_ASK,
    PREEMPTION,
    QUEUEING,
    AskId,
    EffectId,
    JournalName,
    PodId,
    SignatureId,
    placement,
)
from shared.model.options import read_options


class PreemptionCore(Core[PreemptionState]):
    """Preemption's state machine; see the module docstring."""

    journal = PREEMPTION

    def __init__(self, placements: int) -> None:
        """`placements`: the number of shards (fixed for an epoch)."""
        assert placements >= 1
        self.placements = placements
        shards = (placement(shard) for shard in range(placements))
        self.sources: tuple[JournalName, ...] = (INGEST, QUEUEING, *shards, BINDING)

    def new(self) -> PreemptionState:
        """Return the state before any event."""
        return PreemptionState(self.sources)

    def evolve(self, state: PreemptionState, event: Event) -> None:
        """Apply one event. Events about no open ask are ignored: answers may be late."""
        match event:
            case PodsGone() | PodsAssigned() | Bound():
                facts.on_pods_placed_or_gone(state, event)
            case QueuesSet() | SignatureDefined() | SignatureRetired() | PodsRelabelled():
                queue_use.on_world(state, event)
            case BudgetSet() | BudgetCovers() | BudgetGone():
                facts.on_budget_changed(state, event)
            case UnitJoined():
                facts.on_unit_joined(state, event)
            case GangEvictAsked():
                gang_evictions.on_gang_evict_asked(state, event)
            case EvictAsked() if event.gang:
                gang_evictions.on_evict_asked(state, event)
            case PreemptAsked():
                for pod in (event.pod, *as_numbers(event.others)):
                    _on_preempt_asked(state, pod, event)
            case CandidatesFound():
                answers.on_candidates_found(state, event, self.placements)
            case VictimsJudged():
                extender_victims.on_victims_judged(state, event)
            case Nominated() | NominationStale() | NominationReady() | NominationLost():
                answers.on_nomination_answer(state, event)
            case Evicted() | EvictionFailed():
                answers.on_eviction_outcome(state, event)
            case (
                DryRunAsked() | VictimsAsked() | NominateAsked() | PreemptionOpened() | EvictAsked()
            ):
                _on_ask_decision(state, event)
            case NominationCleared() | PreemptionClosed():
                _on_ask_ended(state, event)
            case (
                GangPreemptAsked()
                | GangPreemptRecalled()
                | PlacesFound()
                | GangNominated()
                | GangNominationStale()
            ):
                gang_preemption.on_gang_input(state, event, self.placements)
            case GangDryRunAsked() | GangNominateAsked() | GangRoomMade() | GangPreemptionClosed():
                gang_preemption.on_gang_decision(state, event)
            case Configured():
                state.configure(read_options("preemption", event.config, Config))

    def decide(self, state: PreemptionState) -> Iterator[Event]:
        """Yield the decisions: first about asks that wait for no answer, then about asks whose
        victims stayed too long, then the searching asks in turn.

        Queueing bounds the number of open asks, and with it the step.
        """
        yield from gang_evictions.decide(state)
        for number in sorted(state.undecided):
            yield from _decide_ask(state, state.asks[number])
        for number in [ask for due_ms, ask in state.timers if due_ms <= state.now_ms]:
            yield from _decide_close(state, state.asks[number])
        if not state.searching:
            yield from _decide_choices(state)
        if not state.searching:
            yield from _decide_dry_runs(state)
        yield from gang_preemption.decide_gang_asks(state)

    def due_ms(self, state: PreemptionState) -> int | None:
        """Return when there is something to decide without new input, ms."""
        is_turn = bool(state.search_queue) and not state.searching
        if (
            state.gang_evictions
            or state.undecided
            or is_turn
            or gang_preemption.next_gang_ask(state) is not None
        ):
            return state.now_ms
        return state.timers[0][0] if state.timers else None

    def effects(self, _state: PreemptionState) -> Mapping[EffectId, Event]:
        """Return nothing: evictions are effects of binding."""
        return {}

    def dump(self, state: PreemptionState) -> Any:
        """Return canonical plain values."""
        return save(state)

    def load(self, body: Any) -> PreemptionState:
        """Restore what `dump` returned."""
        state = load(self.new(), body).derive()
        queue_use.count(state)
        return state

    def check(self, state: PreemptionState) -> None:
        """Check the derived parts of the state."""
        dues = ((ask.due_ms, ask.ask) for ask in state.asks.values() if ask.due_ms)
        assert state.timers == sorted(dues)
        gang_preemption.check(state)
        queue_use.check(state)
        newest = {ask.pod: ask.ask for _n, ask in sorted(state.asks.items())}
        assert state.by_pod == newest, "one open preemption per preemptor"
        assert not any(pod in state.gone for pod in state.victims), "a deleted pod is a victim"
        for ask in state.asks.values():
            if ask.phase in (Phase.NOMINATING, Phase.NOMINATED, Phase.EVICTING):
                for pod in ask.victims:
                    owner = state.victims.get(pod)
                    assert pod in state.gone or (owner is not None and owner.ask == ask.ask)


Kind = tuple[SignatureId, bool]


def _kind(ask: Ask) -> Kind:
    """Return what equal preemptors share: their signature, and whether they claim."""
    return ask.sig, ask.claims


def _decide_ask(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """Yield the next decision about an ask that is ready to continue."""
    if ask.end:
        yield from _decide_close(state, ask)
        return
    mates = state.mates_to_evict(ask)
    victims = [*ask.victims, *mates]
    is_told = ask.node_name and victims
    text = found_message(ask.node_name, len(victims)) if is_told else ""
    yield PreemptionOpened(ask.ask, ask.pod, ask.node, pack(victims), text)
    if victims:
        beyond = [pod for pod in ask.victims if pod in ask.beyond]
        beyond += state.budgets.beyond(mates)
        asked = ask.ask, ask.pod, ask.node, pack(victims), pack(beyond)
        yield EvictAsked(*asked, claimed_for=ask.queue if ask.claims else "")


def _decide_choices(state: PreemptionState) -> Iterator[Event]:
    """Yield choices for the answered asks, in order, as long as the answers hold: a choice changes
    them for other signatures. If an ask does not get the candidate that its dry run found, its
    equals counted on that in vain and search again.
    """
    chosen: Kind | None = None
    for ask in state.in_turn():
        if not ask.found or chosen not in (None, _kind(ask)):
            continue
        could = any(one.candidates for one in ask.answers())
        yield from _decide_choice(state, ask)
        if ask.phase in (Phase.NOMINATING, Phase.ASKING_EXTENDERS):
            chosen = _kind(ask)
        elif could:
            return


def _decide_out_of_rounds(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """Yield the end of an ask that has no round left; else it stays for another dry run."""
    if ask.rounds >= state.config.rounds_max:
        yield PreemptionClosed(ask.ask, ask.pod, "")


def _decide_dry_runs(state: PreemptionState) -> Iterator[Event]:
    """Yield one dry run for all asks of a signature: one signature at a time, and more after dry
    runs without candidates, as the next ones are likely to find none either.
    """
    for ask in state.in_turn():
        if ask.phase is Phase.NEW:
            yield from _decide_out_of_rounds(state, ask)
    wanting: dict[Kind, list[Ask]] = {}
    for ask in state.in_turn():
        wanting.setdefault(_kind(ask), []).append(ask)
    most = min(max(1, state.fruitless_dry_runs), KINDS_MAX)
    for (sig, claims), (ask, *others) in islice(wanting.items(), most):
        taken, pods = pack(state.taken()), pack([other.pod for other in others])
        allowances, named = state.budgets.allowances(), state.budgets.counted_pods(state.victims)
        counted = state.spare_members(), queue_use.used(state, ask)
        yield DryRunAsked(
            *(ask.ask, ask.pod, sig, allowances, taken, pods, named), *counted, claims
        )


def _decide_choice(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """Yield the nomination of the best candidate that is still possible."""
    found = ask.answers()
    if not any(answer.candidates for answer in found):
        ends = [one.protected_until_ms for one in found if one.protected_until_ms]
        yield PreemptionClosed(ask.ask, ask.pod, message(found), min(ends, default=0))
        return
    open_choices = choices(found, state, queue_use.limits(state, ask))
    is_last = ask.rounds >= state.config.rounds_max
    if not open_choices or (_got_worse(state, ask, open_choices[0]) and not is_last):
        yield from _decide_out_of_rounds(state, ask)
        return
    best = open_choices[0]
    if ask.found[best.shard].lower:
        yield extender_victims.decide_victims_asked(ask, best.rank)
        return
    chosen = best.candidate
    place = best.shard, chosen.node, chosen.victims
    yield NominateAsked(ask.ask, ask.pod, ask.sig, *place, ask.claims)


def _got_worse(state: PreemptionState, ask: Ask, best: Choice) -> bool:
    """Return whether budgets of these victims were used since the shards were asked, or their
    groups cannot spare as many any more.
    """
    budgets, victims = state.budgets, as_numbers(best.candidate.victims)
    if best.mates and ask.spare:
        units = {state.units.of(pod) for pod in victims}
        spare = {one.gang: one.left for one in state.spare_members() if one.gang in units}
        if any(left < ask.spare.get(gang, 0) for gang, left in spare.items()):
            return True
    if best.violations <= best.candidate.violations:
        return False
    return any(
        budgets.allowance(budget) < ask.allowances.get(budget, 0)
        for pod in victims
        for budget in budgets.coverage.of(pod)
    )


def _decide_close(state: PreemptionState, ask: Ask) -> Iterator[Event]:
    """Yield the release of everything that can be released, and the end of the ask."""
    is_said = ask.phase is not Phase.READY and ask.end != SUPERSEDED and not ask.gang_ask
    number, pod, shard, nominated = ask.ask, ask.pod, ask.shard, ask.nominated
    is_whole = any(state.units.of(victim) for victim in ask.victims)
    if ask.phase is Phase.EVICTING and state.has_open_eviction(ask) and not is_whole:
        yield EvictRecalled(number)
    if nominated or not is_said:  # ends that queueing need not hear of
        yield NominationCleared(number, pod, shard)
    if is_said:
        yield PreemptionClosed(number, pod, "")


def _on_preempt_asked(state: PreemptionState, pod: PodId, event: PreemptAsked) -> None:
    """Open an ask for a pod; its open one is void."""
    before = state.asks.get(state.by_pod.get(pod, NO_ASK))
    if before is not None and before.phase in SEARCHING:
        before.follow("superseded")
        state.close(before)
    elif before is not None:
        state.finish(before, SUPERSEDED)
    state.last_ask += 1
    ask = Ask(AskId(state.last_ask), pod, event.sig, priority=event.priority)
    ask.claims, ask.queue, ask.amounts = event.claims, event.queue, event.amounts
    if pod in state.gone or pod in state.placed:
        ask.end = LEFT
    state.open(ask)


def _on_ask_decision(
    state: PreemptionState,
    event: DryRunAsked | VictimsAsked | NominateAsked | PreemptionOpened | EvictAsked,
) -> None:
    """Apply the ask's own decisions."""
    ask = state.asks[event.ask]
    match event:
        case DryRunAsked():
            _on_dry_run_asked(state, ask, event)
        case VictimsAsked():
            ask.follow("victims_asked")
        case NominateAsked():
            ask.follow("nominate_asked")
            ask.shard, ask.node, ask.nominated = event.shard, event.node, True
            ask.found, ask.allowances, ask.spare = {}, {}, {}
            state.fruitless_dry_runs = 0
            state.claim_victims(ask, as_numbers(event.victims))
        case PreemptionOpened():
            ask.follow("preemption_opened")
            state.set_due(ask, state.now_ms + state.config.victims_ms_max)
        case EvictAsked():
            ask.follow("evict_asked")
            victims = as_numbers(event.victims)
            state.claim_mates(ask, [pod for pod in victims if pod not in ask.victims])
        case _:
            assert_never(event)
    state.note(ask)


def _on_dry_run_asked(state: PreemptionState, first: Ask, event: DryRunAsked) -> None:
    _outdate(state)
    pods = as_numbers(event.others)
    asks = [first, *(state.asks[state.by_pod[pod]] for pod in pods)]
    allowances = {one.budget: one.left for one in event.budgets}
    spare = {one.gang: one.left for one in event.spare}
    for ask in asks:
        ask.follow("dry_run_asked")
        ask.rounds += 1
        ask.allowances, ask.spare, ask.found = allowances, spare, {}
        state.note(ask)
    if pods:
        state.runs[event.ask] = Run([ask.ask for ask in asks])


def _outdate(state: PreemptionState) -> None:
    """Void the answers from which no candidate was chosen. No round is lost if another one was."""
    for number in state.search_queue:
        ask = state.asks[number]
        if ask.found:
            ask.rounds -= not state.fruitless_dry_runs
            ask.found = {}
    state.fruitless_dry_runs += 1


def _on_ask_ended(state: PreemptionState, event: NominationCleared | PreemptionClosed) -> None:
    """End an ask; victims whose eviction was never sent are free again."""
    ask = state.asks.get(event.ask)
    if ask is None:
        return
    if isinstance(event, NominationCleared):
        ask.nominated = False
        if ask.phase is not Phase.READY and ask.end != SUPERSEDED and not ask.gang_ask:
            return
        is_void = ask.end == SUPERSEDED and ask.phase is not Phase.READY
        name = "superseded" if is_void else "nomination_cleared"
    else:
        name = "preemption_closed"
    if ask.phase in (Phase.NOMINATING, Phase.NOMINATED):
        state.release_victims(ask.ask, ask.victims)
    ask.follow(name)
    state.close(ask)
