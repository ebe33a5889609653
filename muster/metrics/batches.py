"""Why batches end: dispatches of queueing to a shard, and searches of a shard for a node.

Both reasons follow from a decision and the state before it. They are computed once for each batch.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from muster.metrics.histogram import Histogram, exponential
from services.placement.core.state import PlacementState
from services.placement.core.volumes import reservations
from services.queueing.core.gangs import members
from services.queueing.core.state import QueueingState
from services.queueing.core.transitions import Pod
from shared.events.base import Event
from shared.events.placement import Refused, Reserved
from shared.events.queueing import Dispatched
from shared.model.columns import ID_BYTES, size
from shared.model.ids import NO_ATTEMPT, AttemptId

PODS = exponential(1, 2, 16)
ALL = "all"
FULL, SLICE, PRIORITY = "full", "slice", "priority"


def why_dispatch_ended(state: QueueingState, event: Dispatched) -> str:
    """Return why no more pods of the signature are in this dispatch."""
    sig, pods, count = state.sigs[event.sig], state.pods, size(event.ids)
    first = int.from_bytes(event.ids[:ID_BYTES], "little") - pods.base
    if pods.state_at[first] == Pod.NOMINATED:
        return "nominated"
    waiting = sig.leftovers[pods.attempt_at[first]].live if event.urgent else sig.fifo.live
    if count == waiting:
        return ALL
    shard, config = state.shards[event.shard], state.config
    if count == config.max_batch:
        return "max_batch"
    if count == max(1, config.credit_units - shard.units - state.fixed_units(sig, event.shard)):
        return "credits"
    if event.urgent:
        return "shards"
    ids, seqs = sig.fifo.oldest(pods, count + 1)
    gang = members.first_ready(state)
    if gang is not None and gang.priority >= sig.priority and seqs[0] < gang.seq < seqs[count]:
        return "gang"
    waited_ms = pods.order_ms_at[int(ids[count]) - pods.base] - pods.order_ms_at[first]
    is_younger = waited_ms > config.reorder_window_ms
    return "order" if is_younger or config.strict_order else "shards"


class Searches:
    """The searches of one shard: how many pods each placed, and how many ended for each reason."""

    def __init__(self) -> None:
        """Start at zero."""
        self.pods = Histogram(PODS)
        self.ended: Counter[str] = Counter()
        self._cut = NO_ATTEMPT
        self.handlers: dict[type[Event], Callable[[Any, Any], None]] = {
            Reserved: self._reserved,
            Refused: self._refused,
        }

    def _reserved(self, state: PlacementState, event: Reserved) -> None:
        self._note_next(event.attempt, SLICE)
        self.pods.add(size(event.ids))
        reason = _why_search_ended(state, event)
        if reason:
            self.ended[reason] += 1
        else:
            self._cut = event.attempt

    def _refused(self, _state: PlacementState, event: Refused) -> None:
        if event.attempt:
            self._note_next(event.attempt, FULL)

    def _note_next(self, attempt: AttemptId, reason: str) -> None:
        """Count the search that was cut: the next decision, about this attempt, says why."""
        if self._cut:
            self.ended[reason if self._cut == attempt else PRIORITY] += 1
            self._cut = NO_ATTEMPT


def _why_search_ended(state: PlacementState, event: Reserved) -> str:
    """Return why the search placed no more pods; empty if the next decision says why."""
    work_queue, nominated = state.work_queue, state.nomination_of_pod
    if work_queue.extender_call is not None:
        return "extenders"
    batch = work_queue.head()
    after = batch.start + size(event.ids)
    if after == len(batch.ids):
        return ALL
    if state.tree is not None:
        return "sampling"
    if nominated and {batch.ids.item(batch.start), batch.ids.item(after)} & nominated.keys():
        return "nominated"
    if not state.config.batch:
        return "off"
    return "volumes" if reservations.chooses(state, event.sig) else ""
