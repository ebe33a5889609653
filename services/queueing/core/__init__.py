"""Queueing's core: what is tried next, in which batch, at which shard; what waits, and why.

A pod is in one of the states of `services.queueing.transitions`. Modules: `intake` (ingest's
facts), `relabel` (pods that are somebody now), `answers` (shards, binding), `held` (whom
permit plugins of users refused), `gangs` and `members`, `preempting`, `gang_preempting`, `own`
(the effect of its own events), `looks` (messages that stay true), `deciding` (the step), `lanes`
(priority index), `routing` (batch and shard).

No wake-up is lost: `Sig.mask` has the shards whose *latest* answer about the signature is a
refusal. Each shard's answers come in its own journal's order, so an improvement clears the bit
exactly if it came after the refusal, whether pods were parked by then or still in flight. Pods
sleep only while all bits are set (`check` holds it), and an improvement puts them on the wake list.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from services.queueing.core import (
    answers,
    deciding,
    gang_preempting,
    gangs,
    held,
    intake,
    looks,
    members,
    moves,
    own,
    preempting,
    relabel,
)
from services.queueing.core.check import check
from services.queueing.core.config import Config, parse_config
from services.queueing.core.dump import dump, load, reindex
from services.queueing.core.state import QueueingState
from services.queueing.core.why import why
from shared.events.base import Configured, Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import (
    GangGone,
    GangSet,
    Happened,
    PodsAssigned,
    PodsGone,
    PodsPending,
    PodsRelabelled,
    SignatureDefined,
    SignatureRetired,
    SignaturesQueued,
    WorldListed,
)
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.placement import (
    Improved,
    NominationLost,
    NominationReady,
    Refused,
    Reserved,
    ShardDigest,
)
from shared.events.preemption import (
    GangPreemptionClosed,
    GangRoomMade,
    PreemptionClosed,
    PreemptionOpened,
)
from shared.events.queueing import (
    Activated,
    Confirmed,
    Dispatched,
    GangDispatched,
    GangPreemptAsked,
    GangPreemptRecalled,
    GangWaits,
    LaneFreed,
    LaneTaken,
    Parked,
    PreemptAsked,
    ReasonsAsked,
    TryFailed,
    Woken,
)
from shared.model.ids import (
    BINDING,
    INGEST,
    PERMIT,
    PREEMPTION,
    QUEUEING,
    SHARDS_MAX,
    placement,
)

__all__ = ["Config", "QueueingCore", "QueueingState", "parse_config", "why"]


def _configured(state: QueueingState, event: Configured) -> None:
    before = state.config
    state.config = parse_config(event.config.get("queueing", {}))
    if state.config.unschedulable_max_ms != before.unschedulable_max_ms:
        reindex(state)
    held.configured(state)
    for number in sorted(state.gangs):
        members.touch(state, state.gangs[number])


def _lane_freed(state: QueueingState, _event: LaneFreed) -> None:
    state.lane.gang = state.lane.priority = state.lane.until_ms = 0


def _world_listed(state: QueueingState, event: WorldListed) -> None:
    state.listing_ms = 0 if event.complete else state.now_ms


# What is not listed concerns others (Nominated), or only tells a story.
HANDLERS: dict[type[Event], Callable[[QueueingState, Any], None]] = {
    Configured: _configured,
    WorldListed: _world_listed,
    Happened: held.happened,
    SignatureDefined: intake.defined,
    SignaturesQueued: intake.queued,
    SignatureRetired: intake.retired,
    PodsPending: intake.pending,
    PodsRelabelled: relabel.relabelled,
    PodsAssigned: lambda state, event: moves.finish(state, "bound", event.ids),
    PodsGone: lambda state, event: moves.finish(state, "gone", event.ids),
    GangSet: gangs.group_set,
    GangGone: gangs.group_gone,
    Reserved: answers.reserved,
    Refused: answers.refused,
    Improved: answers.improved,
    ShardDigest: answers.digest,
    NominationReady: preempting.ready,
    NominationLost: preempting.lost,
    GangCommitted: gangs.committed,
    GangReleased: gangs.released,
    GangTimedOut: gangs.gate_closed,
    PreemptionOpened: preempting.opened,
    PreemptionClosed: preempting.closed,
    GangRoomMade: gang_preempting.room_made,
    GangPreemptionClosed: gang_preempting.closed,
    Bound: answers.bound,
    BindFailed: answers.bind_failed,
    Dispatched: own.dispatched,
    Parked: own.parked,
    TryFailed: own.try_failed,
    ReasonsAsked: looks.asked,
    Confirmed: looks.confirmed,
    Woken: own.woken,
    Activated: own.activated,
    PreemptAsked: preempting.asked,
    GangPreemptAsked: gang_preempting.asked,
    GangPreemptRecalled: gang_preempting.recalled,
    GangDispatched: gangs.dispatched,
    GangWaits: gangs.said,
    LaneTaken: gangs.lane_taken,
    LaneFreed: _lane_freed,
}


class QueueingCore:
    """The state machine; see the module's first lines."""

    journal = QUEUEING

    def __init__(self, placements: int) -> None:
        """`placements` is the number of shards (fixed for an epoch)."""
        assert 1 <= placements <= SHARDS_MAX, f"{placements} placements"
        self.placements = placements
        shards = (placement(shard) for shard in range(placements))
        self.sources: tuple[str, ...] = (INGEST, *shards, PERMIT, PREEMPTION, BINDING)

    def new(self) -> QueueingState:
        """See Core.new."""
        return QueueingState(self.sources, self.placements)

    def evolve(self, state: QueueingState, event: Event) -> None:
        """See Core.evolve."""
        handler = HANDLERS.get(type(event))
        if handler is not None:
            handler(state, event)

    def decide(self, state: QueueingState) -> Iterator[Event]:
        """See Core.decide."""
        return deciding.decide(state)

    def due_ms(self, state: QueueingState) -> int | None:
        """See Core.due_ms."""
        return deciding.due_ms(state)

    def effects(self, _state: QueueingState) -> Mapping[int, Event]:
        """Queueing asks nothing of the outside."""
        return {}

    def dump(self, state: QueueingState) -> Any:
        """See Core.dump."""
        return dump(state)

    def load(self, body: Any) -> QueueingState:
        """See Core.load."""
        state = self.new()
        load(state, body)
        return state

    def check(self, state: QueueingState) -> None:
        """See Core.check."""
        check(state)
