"""Queueing's core: what is tried next, in which batch, at which shard; what waits, and why.

A pod is in one of the states of `services.queueing.core.transitions`. `inputs` has what events do
to the queue, `decisions` the step that says what is dispatched, and each package beside this file
what belongs to one concern.

No wake-up is lost: `Sig.mask` has the shards whose *latest* answer about the signature is a
refusal. Each shard's answers come in its own journal's order, so an improvement clears the bit
exactly if it came after the refusal, whether pods were parked by then or still in flight. Pods
sleep only while all bits are set (`check` holds it), and an improvement puts them on the wake list.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from services.queueing.core import decisions
from services.queueing.core.check import check
from services.queueing.core.config import Config, parse_config
from services.queueing.core.gangs import attempts, members, preemption
from services.queueing.core.inputs import answers, own_events, world
from services.queueing.core.pods import moves, relabel
from services.queueing.core.preemption import asks
from services.queueing.core.snapshot import dump, load, reindex
from services.queueing.core.state import QueueingState
from services.queueing.core.waiting import message_refresh, permit_rejections
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
from shared.model.ids import BINDING, INGEST, PERMIT, PREEMPTION, QUEUEING, SHARDS_MAX, placement

__all__ = ["Config", "QueueingCore", "QueueingState", "parse_config", "why"]


def _configured(state: QueueingState, event: Configured) -> None:
    before = state.config
    state.config = parse_config(event.config.get("queueing", {}))
    if state.config.unschedulable_max_ms != before.unschedulable_max_ms:
        reindex(state)
    permit_rejections.configured(state)
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
    Happened: permit_rejections.happened,
    SignatureDefined: world.defined,
    SignaturesQueued: world.queued,
    SignatureRetired: world.retired,
    PodsPending: world.pending,
    PodsRelabelled: relabel.relabelled,
    PodsAssigned: lambda state, event: moves.finish(state, "bound", event.ids),
    PodsGone: lambda state, event: moves.finish(state, "gone", event.ids),
    GangSet: attempts.group_set,
    GangGone: attempts.group_gone,
    Reserved: answers.reserved,
    Refused: answers.refused,
    Improved: answers.improved,
    ShardDigest: answers.digest,
    NominationReady: asks.ready,
    NominationLost: asks.lost,
    GangCommitted: attempts.committed,
    GangReleased: attempts.released,
    GangTimedOut: attempts.gate_closed,
    PreemptionOpened: asks.opened,
    PreemptionClosed: asks.closed,
    GangRoomMade: preemption.room_made,
    GangPreemptionClosed: preemption.closed,
    Bound: answers.bound,
    BindFailed: answers.bind_failed,
    Dispatched: own_events.dispatched,
    Parked: own_events.parked,
    TryFailed: own_events.try_failed,
    ReasonsAsked: message_refresh.asked,
    Confirmed: message_refresh.confirmed,
    Woken: own_events.woken,
    Activated: own_events.activated,
    PreemptAsked: asks.asked,
    GangPreemptAsked: preemption.asked,
    GangPreemptRecalled: preemption.recalled,
    GangDispatched: attempts.dispatched,
    GangWaits: attempts.said,
    LaneTaken: attempts.lane_taken,
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
        return decisions.decide(state)

    def due_ms(self, state: QueueingState) -> int | None:
        """See Core.due_ms."""
        return decisions.due_ms(state)

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
