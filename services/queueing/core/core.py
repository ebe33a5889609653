"""Queueing's core: what is tried next, in which batch, at which shard; what waits, and why.

A pod is in one of the states of `services.queueing.core.transitions`. `scheduling_queue` has its
way from pending to dispatched, `inputs` the handlers of other events, `decisions` the decisions of
a step, and each package beside this file one concern.

No wake-up is lost: `Sig.mask` has the shards whose *latest* answer about the signature is a
refusal. Each shard's answers come in its own journal's order, so an improvement clears the bit
exactly if it came after the refusal, whether pods were parked or in flight by then. Pods sleep only
while all bits are set (`check` tests it), and an improvement puts them on the wake list.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from services.queueing.core import decisions, scheduling_queue
from services.queueing.core.check import check
from services.queueing.core.config import Config
from services.queueing.core.derived import derive, reindex
from services.queueing.core.gangs import (
    attempts,
    below_minimum,
    kept_places,
    members,
    preemption,
    provisioning,
)
from services.queueing.core.inputs import answers, own_events, world
from services.queueing.core.pods import moves, relabel
from services.queueing.core.preemption import asks
from services.queueing.core.preemption.asks import lives
from services.queueing.core.queues import charges, held
from services.queueing.core.state import QueueingState
from services.queueing.core.waiting import backoff, message_refresh, permit_rejections
from shared.events.base import Configured, Event
from shared.events.ingest import (
    PodsAssigned,
    PodsGone,
    WorldListed,
)
from shared.events.queueing import (
    LaneFreed,
)
from shared.machine.core import Core
from shared.machine.handlers import handlers
from shared.machine.saved import load, save
from shared.model.columns import as_numbers, unpack
from shared.model.ids import (
    BINDING,
    INGEST,
    NO_GANG,
    PERMIT,
    PREEMPTION,
    QUEUEING,
    SHARDS_MAX,
    EffectId,
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
    if state.quota is not None:
        charges.recharge(state, as_numbers(event.ids), unpack(event.sigs).tolist())


def _on_pods_gone(state: QueueingState, event: PodsGone) -> None:
    fallen = members.count_ended(state, event) if state.bound_members else ()
    moves.finish(state, "gone", event.ids)
    if state.charged:
        charges.release(state, as_numbers(event.ids))
    for gang in fallen:
        moves.regroup(state, gang)


def _on_lane_freed(state: QueueingState, _event: LaneFreed) -> None:
    state.lane.gang, state.lane.priority, state.lane.until_ms = NO_GANG, 0, 0


def _on_world_listed(state: QueueingState, event: WorldListed) -> None:
    state.listing_ms = 0 if event.complete else state.now_ms


# Events without a handler concern other services (Nominated) or are for people only.
HANDLERS = handlers(
    sys.modules[__name__],
    *(scheduling_queue, answers, own_events, world, attempts, members, preemption),
    *(below_minimum, kept_places),
    *(relabel, asks, backoff, message_refresh, permit_rejections, provisioning, held),
)


class QueueingCore(Core[QueueingState]):
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

    def effects(self, _state: QueueingState) -> Mapping[EffectId, Event]:
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
