"""One decide call: what was asked is answered, dispatches are placed, bounded by work units.

Units are about microseconds and depend on the state alone, never on caches, so that the same
inputs are cut into the same steps on every machine.
"""

from collections.abc import Iterator

import numpy as np

from services.placement.core.books.charges import compiled
from services.placement.core.books.identity import as_told
from services.placement.core.extenders import gang_members, questions, retries
from services.placement.core.gangs import holds, member_volumes, places
from services.placement.core.placing import digest, sampling, wakeups
from services.placement.core.placing.answers import refuse, reserve, reserve_one
from services.placement.core.placing.cycle import place, place_there
from services.placement.core.placing.unsupported import obstacle
from services.placement.core.placing.work_queue import Work
from services.placement.core.preemption import dry_run, nominations, post_filter
from services.placement.core.state import PlacementState
from services.placement.core.volumes import reservations
from shared.events.base import Event
from shared.events.permit import HoldAsked, OfferAsked
from shared.events.placement import (
    CandidatesFound,
    ExtendersAsked,
    GangHeld,
    GangNominated,
    GangNominationStale,
    GangOffered,
    GangRefused,
    Nominated,
    NominationStale,
    PlacesFound,
    Refused,
    Released,
    Reserved,
)
from shared.events.preemption import DryRunAsked, GangDryRunAsked, GangNominateAsked
from shared.model.columns import I64, pack
from shared.scheduling.table.layout import Held

LOOKS_MAX = 8
DISPATCH_UNITS = 60
NODES_PER_UNIT = 50
REFUSAL_UNITS = 300
ASK_UNITS = 1_000
NOMINATE_UNITS = 200
DRY_RUN_UNITS_PER_NODE = 4
DRY_RUN_UNITS_PER_POD = 50
PLACE_UNITS = 1_000  # the next place of a gang

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
)


def decide(state: PlacementState) -> Iterator[Event]:
    """The step's events; each is applied before the next is asked for."""
    if state.failed:
        yield Released(pack(sorted(state.failed)))
    if state.choices_to_tell:
        yield from member_volumes.news(state)
    if state.volume_waits:
        yield from reservations.news(state)
    if state.nominations:
        yield from questions.promise_refused(state)
        yield from nominations.news(state)
    todo = state.todo
    units = state.config.slice_units
    while units > 0 and _can_answer(state):
        event = answer(state)
        units -= _ask_units(state, event)
        yield event
    dispatch_units = DISPATCH_UNITS + len(state.nodes) // NODES_PER_UNIT
    worked = False  # asks never keep dispatches waiting altogether
    while todo.can_place() and (units > dispatch_units or not worked):
        worked = True
        units -= dispatch_units
        placed = place_next(state, max(1, units))
        units -= len(placed.ids) >> 3 if isinstance(placed, Reserved) else REFUSAL_UNITS
        yield placed
    if state.nominations:
        yield from nominations.news(state)
    if state.refused and (state.better or retries.due(state)):
        yield wakeups.improved(state)
    for sig in sorted(state.looks)[:LOOKS_MAX]:
        yield wakeups.look(state, sig)
    if digest.due_ms(state) == state.now_ms:
        yield digest.shard_digest(state)


def _can_answer(state: PlacementState) -> bool:
    """Whether something is asked that need not wait for extenders."""
    if not state.todo.asks or state.todo.judging is not None:
        return False
    return not (state.config.extenders and gang_members.must_wait(state))


def due_ms(state: PlacementState) -> int | None:
    """Now while there is something to decide, else when the digest is due."""
    if _can_answer(state) or state.todo.can_place() or state.looks or state.choices_to_tell:
        return state.now_ms
    due_ms = digest.due_ms(state)
    if state.volume_waits:
        over_ms = reservations.due_ms(state)
        if over_ms is not None:
            due_ms = over_ms if due_ms is None else min(due_ms, over_ms)
    if state.again:
        again_ms = min(state.again.values())
        due_ms = again_ms if due_ms is None else min(due_ms, again_ms)
    return due_ms


def _ask_units(state: PlacementState, event: Answer) -> int:
    """What an answer costs."""
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


def answer(state: PlacementState) -> Answer:
    """The answer to the first ask, or what extenders are asked before."""
    ask = state.todo.asks[0]
    event = as_told(state, ask)
    if isinstance(event, OfferAsked):
        question = None if ask.void else gang_members.question(state, event)
        return question or holds.offer(state, event, ask.void)
    if isinstance(event, HoldAsked):
        return holds.hold(state, event, ask.void)
    if isinstance(event, DryRunAsked):
        return post_filter.dry_run(state, event)
    if isinstance(event, GangDryRunAsked):
        return places.dry_run(state, event)
    if isinstance(event, GangNominateAsked):
        return places.nominate(state, event, ask.void)
    return dry_run.nominate(state, event, ask.void)


def place_next(state: PlacementState, most: int) -> Reserved | Refused | ExtendersAsked:
    """Place or refuse whose turn it is, or ask extenders about it."""
    if state.todo.asking is not None:
        return questions.conclude(state)
    return place_head(state, state.todo.head(), most)


def place_head(state: PlacementState, work: Work, most: int) -> Reserved | Refused | ExtendersAsked:
    """Place or refuse the head's next pods, `most` at a time."""
    ids = work.left()
    if work.sig not in state.specs or obstacle(state, work.sig):
        return refuse(state, work, ids, None)
    if state.config.extenders and questions.concerned(state, work.sig):
        return questions.ask(state, work)
    held: Held | None = None
    if state.nominations:
        ids = _until_nominated(state, ids)
        pod = int(ids[0])
        if pod in state.nominated and state.tree is None:
            event = _on_nominated_node(state, work, ids)
            if event is not None:
                return event
        held = nominations.held_against(state, state.specs[work.sig].priority, pod)
    if state.tree is not None:
        return _sampled(state, work, ids[:1], held)
    count = min(len(ids), most) if state.config.batch else 1
    if reservations.chooses(state, work.sig):
        count = 1  # what one gets, the next one finds taken
    if count == 1 and state.config.batch:
        pick = state.kernel.place_one(state.table, compiled(state, work.sig), held)
        return (
            refuse(state, work, ids, held) if pick is None else reserve_one(state, work, ids, pick)
        )
    picks = place(state, state.table, work.sig, count, held)
    placed = len(picks.rows)
    if placed:
        return reserve(state, work, ids[:placed], picks)
    return refuse(state, work, ids if state.config.batch else ids[:1], held)


def _sampled(state: PlacementState, work: Work, ids: I64, held: Held | None) -> Reserved | Refused:
    """Place or refuse one pod by a search that may end early."""
    ask = state.nominated.get(int(ids[0]))
    nominated = None if ask is None else state.table.row_of(state.nominations[ask].node)
    found = sampling.place(state, work.sig, held, nominated)
    if found.pick is None:
        return refuse(state, work, ids, held, found.examined)
    return reserve_one(state, work, ids, found.pick, found.examined)


def _until_nominated(state: PlacementState, ids: I64) -> I64:
    """The pods before the first nominated one; that one alone when it is first."""
    if not state.nominated:
        return ids
    if int(ids[0]) in state.nominated:
        return ids[:1]
    own = np.isin(ids, np.array(sorted(state.nominated), np.int64))
    if not own.any():
        return ids
    return ids[: int(np.argmax(own))]


def _on_nominated_node(state: PlacementState, work: Work, ids: I64) -> Reserved | None:
    """The nominated node is tried alone first, as kube-scheduler does."""
    pod = int(ids[0])
    node = state.nominations[state.nominated[pod]].node
    row = state.table.row_of(node)
    if row is None:
        return None
    held = nominations.held_by(
        nominations.on(state, node), state, state.specs[work.sig].priority, pod
    )
    picks = place_there(state.table, compiled(state, work.sig), row, held)
    return reserve(state, work, ids, picks) if len(picks.rows) else None
