"""PlacementCore: one shard's nodes as a state machine, with a handler for each event."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.msgpack import decode, encode

from services.placement.core import decisions
from services.placement.core.books import devices, facts, identity
from services.placement.core.books.charges import mark_improved
from services.placement.core.config import Config
from services.placement.core.derived import check, derive, derive_loaded, held
from services.placement.core.extenders import retries
from services.placement.core.gangs import holds, kept_places, member_choices
from services.placement.core.placing import (
    digest,
    dispatches,
    preemption_wakeups,
    sampling,
    turns,
    wakeups,
)
from services.placement.core.placing.work_queue import AskedOfShard, Task
from services.placement.core.preemption import nominations
from services.placement.core.state import SOURCES, PlacementState
from services.placement.core.volumes import other_shards, reservations
from shared.events.base import Configured, Event
from shared.events.permit import HoldAsked
from shared.events.placement import (
    CandidatesFound,
    GangNominated,
    GangNominationStale,
    Nominated,
    NominationLost,
    NominationReady,
    NominationStale,
    PlacesFound,
    VolumesBound,
    VolumesFailed,
)
from shared.events.preemption import (
    DryRunAsked,
    GangDryRunAsked,
    GangNominateAsked,
    NominateAsked,
    NominationCleared,
)
from shared.machine.core import Core
from shared.machine.handlers import handlers
from shared.machine.saved import load, save
from shared.model.columns import size, unpack
from shared.model.ids import EffectId, JournalName, placement
from shared.model.options import read_options
from shared.model.preemption.victims import Nominee


def _on_configured(state: PlacementState, event: Configured) -> None:
    before, state.config = state.config, read_options("placement", event.config, Config)
    sampling.configure(state)
    formulas = before.profiles, before.release(), before.extenders
    config = state.config
    if (config.profiles, config.release(), config.extenders) != formulas:
        # Refused pods may fit now, and every score changes.
        derive(state)
        mark_improved(state, state.table.ids)


def _on_task(state: PlacementState, event: AskedOfShard) -> None:
    if getattr(event, "shard", state.shard) == state.shard:
        if isinstance(event, HoldAsked):
            turns.note_counts(state, event.counts)
        dispatches.admit_task(state, Task(event))


def _on_preemption_answer(
    state: PlacementState, event: CandidatesFound | Nominated | NominationStale
) -> None:
    asked = identity.with_latest_sigs(state, state.work_queue.tasks.popleft())
    assert isinstance(asked, DryRunAsked | NominateAsked), f"{event} answers {asked}"
    assert (asked.ask, asked.pod) == (event.ask, event.pod), f"{event} answers {asked}"
    if isinstance(event, CandidatesFound) and isinstance(asked, DryRunAsked):
        found = len(event.series or event.candidates[:1])
        preemption_wakeups.note_whether_preemption_helps(
            state, asked.sig, helps=event.cut or found > size(asked.others)
        )
    if isinstance(event, Nominated):
        one = Nominee(event.ask, event.pod, event.sig, event.node, event.victims)
        nominations.nominate(state, one, claims=event.claims)


def _on_gang_preemption_answer(
    state: PlacementState, event: PlacesFound | GangNominated | GangNominationStale
) -> None:
    asked = state.work_queue.tasks.popleft().event
    assert isinstance(asked, GangDryRunAsked | GangNominateAsked), f"{event} answers {asked}"
    assert asked.ask == event.ask, f"{event} answers {asked}"
    if isinstance(event, GangNominated):
        nominations.end_kept(state, event.gang, nominations.GANG_PLACED)
        for one in event.nominees:
            nominations.nominate(state, one, event.gang)


def _on_nomination_ready(state: PlacementState, event: NominationReady) -> None:
    state.nominations[event.ask].announced = True


def _on_nomination_lost(state: PlacementState, event: NominationLost) -> None:
    if event.refused:
        retries.note_room_refused(state, state.nominations[event.ask].node)
    nominations.drop(state, event.ask)


def _on_nomination_cleared(state: PlacementState, event: NominationCleared) -> None:
    if event.shard == state.shard:
        nominations.drop(state, event.ask)
        state.work_queue.void_nomination(event.ask)


def _on_volumes_bound(state: PlacementState, event: VolumesBound) -> None:
    reservations.end_waits(state, unpack(event.ids).tolist())


def _on_volumes_failed(state: PlacementState, event: VolumesFailed) -> None:
    reservations.end_waits(state, [event.pod])


HANDLERS = handlers(
    sys.modules[__name__],
    *(facts, identity, dispatches, turns, wakeups, digest, retries, reservations, other_shards),
    *(holds, kept_places, member_choices, devices),
)
"""A handler for every event addressed to a shard, and for the shard's own."""


class PlacementCore(Core[PlacementState]):
    """The core of one of `placements` shards. It holds only the shard's number."""

    def __init__(self, shard: int, placements: int = 1) -> None:
        """`shard` counts from 0."""
        assert 0 <= shard < placements, f"shard {shard} of {placements}"
        self.shard, self.placements = shard, placements
        self.journal = placement(shard)
        self.sources: tuple[JournalName, ...] = SOURCES

    def new(self) -> PlacementState:
        """Return an empty shard."""
        return PlacementState(self.shard, self.placements)

    def evolve(self, state: PlacementState, event: Event) -> None:
        """Apply one event to the state."""
        HANDLERS[type(event)](state, event)

    def decide(self, state: PlacementState) -> Iterator[Event]:
        """Yield the step's decisions."""
        return decisions.decide(state)

    def due_ms(self, state: PlacementState) -> int | None:
        """Return when there is something to decide without new input, ms."""
        return decisions.due_ms(state)

    def effects(self, state: PlacementState) -> Mapping[EffectId, Event]:
        """Return the open extender calls by effect number."""
        work_queue = state.work_queue
        asked = work_queue.member_call
        if work_queue.extender_call is not None and work_queue.has_open_call():
            asked = work_queue.extender_call.asked
        return {} if asked is None else {asked.ask: asked}

    def dump(self, state: PlacementState) -> Any:
        """Return the true part of the state, in canonical form."""
        return save(state, holds=held(state))

    def load(self, body: Any) -> PlacementState:
        """Restore the true part of the state and derive the rest."""
        return derive_loaded(load(self.new(), body))

    def check(self, state: PlacementState) -> None:
        """Check that everything derived equals what is recomputed."""
        body = encode(self.dump(state), order="deterministic")
        check(state, self.load(decode(body)))
