"""Queueing's core: what is tried next, in which batch, at which shard; what waits, and why.

A pod is in one of the states of `services.queueing.core.transitions`. `scheduling_queue` has its
way from pending to dispatched, `inputs` the handlers of other events, `decisions` the decisions of
a step, and each package beside this file one concern.

No wake-up is lost: `Sig.mask` has the shards whose *latest* answer about the signature is a
refusal. Each shard's answers come in its own journal's order, so an improvement clears the bit
exactly if it came after the refusal, whether pods were parked or in flight by then. Pods sleep only
while all bits are set (`check` tests it), and an improvement puts them on the wake list.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from services.queueing.core import decisions, scheduling_queue
from services.queueing.core.check import check
from services.queueing.core.config import Config
from services.queueing.core.derived import derive, reindex
from services.queueing.core.gangs import attempts, members, preemption
from services.queueing.core.inputs import answers, own_events, world
from services.queueing.core.pods import moves, relabel
from services.queueing.core.preemption import asks
from services.queueing.core.preemption.asks import lives
from services.queueing.core.state import QueueingState
from services.queueing.core.waiting import message_refresh, permit_rejections
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
from shared.machine.saved import load, save
from shared.model.ids import (
    BINDING,
    INGEST,
    PERMIT,
    PREEMPTION,
    QUEUEING,
    SHARDS_MAX,
    JournalName,
    placement,
)
from shared.model.options import read_options


def _on_configured(state: QueueingState, event: Configured) -> None:
    before = state.config
    state.config = read_options("queueing", event.config, Config)
    if state.config.unschedulable_max_ms != before.unschedulable_max_ms:
        reindex(state)
    permit_rejections.on_configured(state)
    for number in sorted(state.gangs):
        members.touch(state, state.gangs[number])


def _on_pods_assigned(state: QueueingState, event: PodsAssigned) -> None:
    moves.finish(state, "bound", event.ids)


def _on_pods_gone(state: QueueingState, event: PodsGone) -> None:
    moves.finish(state, "gone", event.ids)


def _on_lane_freed(state: QueueingState, _event: LaneFreed) -> None:
    state.lane.gang = state.lane.priority = state.lane.until_ms = 0


def _on_world_listed(state: QueueingState, event: WorldListed) -> None:
    state.listing_ms = 0 if event.complete else state.now_ms


# Events without a handler concern other services (Nominated) or are for people only.
HANDLERS: dict[type[Event], Callable[[QueueingState, Any], None]] = {
    Configured: _on_configured,
    WorldListed: _on_world_listed,
    Happened: permit_rejections.on_happened,
    SignatureDefined: world.on_signature_defined,
    SignaturesQueued: world.on_signatures_queued,
    SignatureRetired: world.on_signature_retired,
    PodsPending: world.on_pods_pending,
    PodsRelabelled: relabel.on_pods_relabelled,
    PodsAssigned: _on_pods_assigned,
    PodsGone: _on_pods_gone,
    GangSet: attempts.on_gang_set,
    GangGone: attempts.on_gang_gone,
    Reserved: answers.on_reserved,
    Refused: answers.on_refused,
    Improved: answers.on_improved,
    ShardDigest: answers.on_shard_digest,
    NominationReady: asks.on_nomination_ready,
    NominationLost: asks.on_nomination_lost,
    GangCommitted: attempts.on_gang_committed,
    GangReleased: attempts.on_gang_released,
    GangTimedOut: attempts.on_gang_timed_out,
    PreemptionOpened: asks.on_preemption_opened,
    PreemptionClosed: asks.on_preemption_closed,
    GangRoomMade: preemption.on_gang_room_made,
    GangPreemptionClosed: preemption.on_gang_preemption_closed,
    Bound: answers.on_bound,
    BindFailed: answers.on_bind_failed,
    Dispatched: scheduling_queue.on_dispatched,
    Parked: own_events.on_parked,
    TryFailed: own_events.on_try_failed,
    ReasonsAsked: message_refresh.on_reasons_asked,
    Confirmed: message_refresh.on_confirmed,
    Woken: own_events.on_woken,
    Activated: own_events.on_activated,
    PreemptAsked: asks.on_preempt_asked,
    GangPreemptAsked: preemption.on_gang_preempt_asked,
    GangPreemptRecalled: preemption.on_gang_preempt_recalled,
    GangDispatched: attempts.on_gang_dispatched,
    GangWaits: attempts.on_gang_waits,
    LaneTaken: attempts.on_lane_taken,
    LaneFreed: _on_lane_freed,
}


class QueueingCore:
    """Queueing's state machine; see the module docstring."""

    journal = QUEUEING

    def __init__(self, placements: int) -> None:
        """`placements`: the number of shards (fixed for an epoch)."""
        assert 1 <= placements <= SHARDS_MAX, f"{placements} placements"
        self.placements = placements
        shards = (placement(shard) for shard in range(placements))
        self.sources: tuple[JournalName, ...] = (INGEST, *shards, PERMIT, PREEMPTION, BINDING)

    def new(self) -> QueueingState:
        """Return the state before any event."""
        return QueueingState(self.sources, self.placements)

    def evolve(self, state: QueueingState, event: Event) -> None:
        """Apply one event."""
        handler = HANDLERS.get(type(event))
        if handler is not None:
            handler(state, event)

    def decide(self, state: QueueingState) -> Iterator[Event]:
        """Yield the step's decisions; see decisions.py."""
        return decisions.decide(state)

    def due_ms(self, state: QueueingState) -> int | None:
        """Return when there is something to decide without new input, ms."""
        return decisions.due_ms(state)

    def effects(self, _state: QueueingState) -> Mapping[int, Event]:
        """Return nothing: queueing has no effects."""
        return {}

    def dump(self, state: QueueingState) -> Any:
        """Return canonical plain values."""
        return save(state, asks={pod: ask for pod, ask in state.asks.items() if lives(state, pod)})

    def load(self, body: Any) -> QueueingState:
        """Restore what `dump` returned."""
        return derive(load(self.new(), body))

    def check(self, state: QueueingState) -> None:
        """Check every counter and index; see check.py."""
        check(state)
