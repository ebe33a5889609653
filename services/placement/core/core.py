"""PlacementCore: one shard's nodes as a state machine; the maps from events to what they do."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from services.placement.core import decisions, snapshot
from services.placement.core.books import facts, identity
from services.placement.core.books.charges import mark_better
from services.placement.core.config import Config, parse_config
from services.placement.core.extenders import retries
from services.placement.core.gangs import holds, member_volumes
from services.placement.core.placing import (
    digest,
    dispatches,
    preemption_wakeups,
    sampling,
    wakeups,
)
from services.placement.core.placing.work_queue import Ask, Asked
from services.placement.core.preemption import nominations as noms
from services.placement.core.state import SOURCES, PlacementState
from services.placement.core.volumes import other_shards, reservations
from shared.events.base import Configured, Event
from shared.events.binding import BindFailed, Bound, VolumesGranted, VolumesOver
from shared.events.ingest import (
    BudgetCovers,
    BudgetGone,
    ImagesCounted,
    NamespacesSet,
    NodesGone,
    NodesSet,
    PodsAssigned,
    PodsGone,
    PodsRelabelled,
    PodsStarted,
    SignatureDefined,
    SignatureRetired,
    SignaturesQueued,
    StorageGone,
    StorageSet,
)
from shared.events.observed import ExtendersAnswered
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked, OfferAsked
from shared.events.placement import (
    CandidatesFound,
    ExtendersAsked,
    GangHeld,
    GangNominated,
    GangNominationStale,
    GangOffered,
    GangRefused,
    Improved,
    Nominated,
    NominationLost,
    NominationReady,
    NominationStale,
    PlacesFound,
    Refused,
    Released,
    Reserved,
    ShardDigest,
    VolumesBound,
    VolumesChosen,
    VolumesFailed,
)
from shared.events.preemption import (
    DryRunAsked,
    GangDryRunAsked,
    GangNominateAsked,
    NominateAsked,
    NominationCleared,
)
from shared.events.queueing import Dispatched, ReasonsAsked
from shared.model.columns import size, unpack
from shared.model.ids import placement
from shared.model.victims import Nominee

__all__ = ["Config", "PlacementCore", "PlacementState", "parse_config"]


def _configured(state: PlacementState, event: Configured) -> None:
    before, state.config = state.config, parse_config(event.config.get("placement", {}))
    sampling.configured(state)
    formulas = before.profiles, before.compatibility, before.extenders
    config = state.config
    if (config.profiles, config.compatibility, config.extenders) != formulas:
        # Refused pods may fit now, and every score changes.
        snapshot.derive(state)
        mark_better(state, state.table.ids)


def _asked(state: PlacementState, event: Asked) -> None:
    if getattr(event, "shard", state.shard) == state.shard:
        dispatches.admit_ask(state, Ask(event))


def _answered(state: PlacementState, event: CandidatesFound | Nominated | NominationStale) -> None:
    asked = identity.as_told(state, state.todo.asks.popleft())
    assert isinstance(asked, DryRunAsked | NominateAsked), f"{event} answers {asked}"
    assert (asked.ask, asked.pod) == (event.ask, event.pod), f"{event} answers {asked}"
    if isinstance(event, CandidatesFound) and isinstance(asked, DryRunAsked):
        found = len(event.series or event.candidates[:1])
        preemption_wakeups.told(state, asked.sig, helps=event.cut or found > size(asked.others))
    if isinstance(event, Nominated):
        one = Nominee(event.ask, event.pod, event.sig, event.node, event.victims)
        noms.nominate(state, one)


def _gang_answered(
    state: PlacementState, event: PlacesFound | GangNominated | GangNominationStale
) -> None:
    asked = state.todo.asks.popleft().event
    assert isinstance(asked, GangDryRunAsked | GangNominateAsked), f"{event} answers {asked}"
    assert asked.ask == event.ask, f"{event} answers {asked}"
    if isinstance(event, GangNominated):
        for one in event.nominees:
            noms.nominate(state, one, event.gang)


def _ready(state: PlacementState, event: NominationReady) -> None:
    state.nominations[event.ask].announced = True


def _lost(state: PlacementState, event: NominationLost) -> None:
    if event.refused:
        retries.room_refused(state, state.nominations[event.ask].node)
    noms.drop(state, event.ask)


def _cleared(state: PlacementState, event: NominationCleared) -> None:
    if event.shard == state.shard:
        noms.drop(state, event.ask)
        state.todo.void_nomination(event.ask)


def _volumes_bound(state: PlacementState, event: VolumesBound) -> None:
    reservations.let_go(state, unpack(event.ids).tolist())


def _volumes_failed(state: PlacementState, event: VolumesFailed) -> None:
    reservations.let_go(state, [event.pod])


HANDLERS: dict[type[Event], Callable[[PlacementState, Any], None]] = {
    Configured: _configured,
    SignatureDefined: facts.signature_defined,
    SignaturesQueued: facts.signatures_queued,
    SignatureRetired: facts.signature_retired,
    NodesSet: facts.nodes_set,
    ImagesCounted: facts.images_counted,
    StorageSet: facts.storage_set,
    StorageGone: facts.storage_gone,
    NodesGone: facts.nodes_gone,
    PodsAssigned: facts.pods_assigned,
    PodsStarted: facts.pods_started,
    PodsGone: facts.pods_gone,
    PodsRelabelled: identity.relabelled,
    NamespacesSet: identity.namespaces_set,
    BudgetCovers: facts.budget_covers,
    BudgetGone: facts.budget_gone,
    Dispatched: dispatches.dispatched,
    ReasonsAsked: wakeups.reasons_asked,
    OfferAsked: _asked,
    HoldAsked: _asked,
    DryRunAsked: _asked,
    NominateAsked: _asked,
    GangDryRunAsked: _asked,
    GangNominateAsked: _asked,
    NominationCleared: _cleared,
    GangCommitted: holds.committed,
    GangReleased: holds.released,
    GangTimedOut: holds.released,
    Bound: dispatches.bound,
    VolumesGranted: other_shards.granted,
    VolumesOver: other_shards.over,
    BindFailed: facts.bind_failed,
    Reserved: dispatches.reserved,
    ExtendersAsked: retries.asked,
    ExtendersAnswered: retries.answered,
    VolumesChosen: member_volumes.told,
    VolumesBound: _volumes_bound,
    VolumesFailed: _volumes_failed,
    Refused: dispatches.refused,
    Released: dispatches.released,
    Improved: wakeups.looked,
    ShardDigest: digest.digested,
    GangOffered: holds.answered,
    GangHeld: holds.answered,
    GangRefused: holds.answered,
    CandidatesFound: _answered,
    Nominated: _answered,
    NominationStale: _answered,
    PlacesFound: _gang_answered,
    GangNominated: _gang_answered,
    GangNominationStale: _gang_answered,
    NominationReady: _ready,
    NominationLost: _lost,
}
"""Every event that any source addresses to a shard, and the shard's own."""


class PlacementCore:
    """One shard of `placements`. Holds nothing but which shard it is."""

    def __init__(self, shard: int, placements: int = 1) -> None:
        """`shard` counts from 0."""
        assert 0 <= shard < placements, f"shard {shard} of {placements}"
        self.shard, self.placements = shard, placements
        self.journal = placement(shard)
        self.sources = SOURCES

    def new(self) -> PlacementState:
        """An empty shard."""
        return PlacementState(self.shard, self.placements)

    def evolve(self, state: PlacementState, event: Event) -> None:
        """Apply one event."""
        HANDLERS[type(event)](state, event)

    def decide(self, state: PlacementState) -> Iterator[Event]:
        """The step's decisions."""
        return decisions.decide(state)

    def due_ms(self, state: PlacementState) -> int | None:
        """When there is something to decide without new input."""
        return decisions.due_ms(state)

    def effects(self, state: PlacementState) -> Mapping[int, Event]:
        """Questions that extenders have not answered yet."""
        todo = state.todo
        asked = todo.judging
        if todo.asking is not None and todo.is_asking():
            asked = todo.asking.asked
        return {} if asked is None else {asked.ask: asked}

    def dump(self, state: PlacementState) -> Any:
        """What is true, canonical."""
        return snapshot.dump(state)

    def load(self, body: Any) -> PlacementState:
        """What is true, and from it what is derived."""
        return snapshot.load(self.shard, self.placements, body)

    def check(self, state: PlacementState) -> None:
        """Recompute everything derived and compare."""
        snapshot.check(state)
