"""One decide call: answers tasks and places dispatched pods, bounded by work units.

A unit is about a microsecond. Units depend on the state only, never on caches, so the same inputs
are cut into the same steps on every machine.
"""

from collections.abc import Iterator

from services.placement.core.books.identity import with_latest_sigs
from services.placement.core.extenders import gang_members, questions
from services.placement.core.gangs import holds, kept_places, member_choices, places
from services.placement.core.placing import digest, turns, wakeups
from services.placement.core.placing.cycle import decide_cycle
from services.placement.core.preemption import nomination_news, post_filter, validation
from services.placement.core.state import PlacementState
from services.placement.core.volumes import reservations
from shared.events.base import Event
from shared.events.permit import CountsAsked, HoldAsked, OfferAsked
from shared.events.placement import (
    CandidatesFound,
    CountsChanged,
    ExtendersAsked,
    GangHeld,
    GangNominated,
    GangNominationStale,
    GangOffered,
    GangRefused,
    Nominated,
    NominationStale,
    PlacesFound,
    Released,
    Reserved,
    RulesCounted,
)
from shared.events.preemption import DryRunAsked, GangDryRunAsked, GangNominateAsked
from shared.model.columns import pack

LOOKS_MAX = 8
DISPATCH_UNITS = 60
NODES_PER_UNIT = 50
REFUSAL_UNITS = 300
ASK_UNITS = 1_000
NOMINATE_UNITS = 200
DRY_RUN_UNITS_PER_NODE = 4
DRY_RUN_UNITS_PER_POD = 50
PLACE_UNITS = 1_000  # one more place of a gang

Answer = (
    ExtendersAsked
    | GangOffered
    | GangHeld
    | GangRefused
    | CandidatesFound
    | Nominated
    | NominationStale
    | PlacesFound
    | GangNominated
    | GangNominationStale
    | RulesCounted
)


def decide(state: PlacementState) -> Iterator[Event]:
    """Yield the step's events; each is applied before the next is decided."""
    if state.failed:
        yield Released(pack(sorted(state.failed)))
    if state.choices_to_report:
        yield from member_choices.decide_volumes_chosen(state)
    if state.volume_waits:
        yield from reservations.decide_volume_outcomes(state)
    if state.nominations:
        yield from questions.decide_promise_refused(state)
        yield from nomination_news.decide_nomination_news(state)
    work_queue = state.work_queue
    units = state.config.slice_units
    while units > 0 and work_queue.tasks and _can_do_task(state):
        event = decide_task(state)
        units -= _task_units(state, event)
        yield event
    dispatch_units = DISPATCH_UNITS + len(state.nodes) // NODES_PER_UNIT
    worked = False  # tasks never block dispatches completely
    while work_queue.can_place() and (units > dispatch_units or not worked):
        worked = True
        units -= dispatch_units
        if turns.must_wait(state):
            yield turns.decide_turn_asked(state)
            continue
        placed = decide_cycle(state, max(1, units))
        units -= len(placed.ids) >> 3 if isinstance(placed, Reserved) else REFUSAL_UNITS
        yield placed
    if turns.is_over(state):
        yield turns.decide_turn_ended(state)
    if state.counts_changed:
        yield CountsChanged(state.shard)
    if state.nominations:
        yield from nomination_news.decide_nomination_news(state)
    if wakeups.are_due(state):
        yield wakeups.decide_improved(state)
    for sig in sorted(state.reasons_wanted)[:LOOKS_MAX]:
        yield wakeups.decide_reasons(state, sig)
    if digest.due_ms(state) == state.now_ms:
        yield digest.decide_shard_digest(state)


def _can_do_task(state: PlacementState) -> bool:
    """Return whether the first task need not wait for extenders."""
    if state.work_queue.member_call is not None:
        return False
    return not (state.config.extenders and gang_members.must_wait(state))


def due_ms(state: PlacementState) -> int | None:
    """Return now while there is something to decide, else when the digest is due, ms."""
    if (
        (state.work_queue.tasks and _can_do_task(state))
        or state.work_queue.can_place()
        or state.reasons_wanted
        or state.choices_to_report
        or turns.is_over(state)
        or state.counts_changed
    ):
        return state.now_ms
    due_ms = digest.due_ms(state)
    if state.volume_waits:
        over_ms = reservations.due_ms(state)
        if over_ms is not None:
            due_ms = over_ms if due_ms is None else min(due_ms, over_ms)
    if state.kept_places:
        end_ms = kept_places.due_ms(state)
        if end_ms is not None:
            due_ms = end_ms if due_ms is None else min(due_ms, end_ms)
    if state.extender_retry_ms:
        again_ms = min(state.extender_retry_ms.values())
        due_ms = again_ms if due_ms is None else min(due_ms, again_ms)
    return due_ms


def _task_units(state: PlacementState, event: Answer) -> int:
    """Return the work units of an answer."""
    if isinstance(event, Nominated | NominationStale):
        return NOMINATE_UNITS
    if isinstance(event, CandidatesFound):
        nodes, pods = len(state.nodes), len(event.series)
        return ASK_UNITS + DRY_RUN_UNITS_PER_NODE * nodes + DRY_RUN_UNITS_PER_POD * pods
    if isinstance(event, PlacesFound):
        nodes, pods = len(state.nodes), len(event.places)
        return ASK_UNITS + DRY_RUN_UNITS_PER_NODE * nodes + PLACE_UNITS * pods
    if isinstance(event, GangNominated):
        return NOMINATE_UNITS * len(event.nominees)
    return ASK_UNITS


def decide_task(state: PlacementState) -> Answer:
    """Return the answer to the first task, or the question that extenders must answer first."""
    task = state.work_queue.tasks[0]
    event = with_latest_sigs(state, task)
    if isinstance(event, OfferAsked):
        question = None if task.void else gang_members.decide_question(state, event)
        return question or holds.decide_offer(state, event, task.void)
    if isinstance(event, HoldAsked):
        return holds.decide_hold(state, event, task.void)
    if isinstance(event, CountsAsked):
        return turns.decide_counts(state, event)
    if isinstance(event, DryRunAsked):
        return post_filter.decide_candidates(state, event)
    if isinstance(event, GangDryRunAsked):
        return places.decide_places(state, event)
    if isinstance(event, GangNominateAsked):
        return places.decide_gang_nomination(state, event, task.void)
    return validation.decide_nomination(state, event, task.void)
