"""Attempts to schedule pods, as kube-scheduler counts them, from what queueing reads and decides.

Each function sees an event before queueing applies it, so the pods are still where the event finds
them. Times are those of queueing's steps. An attempt begins with its dispatch, and ends when the
pod is bound or waits again. Only pods that failed before, or are being tried, are kept here.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from msgspec import Struct

from muster.metrics.batches import PODS, why_dispatch_ended
from muster.metrics.histogram import Histogram, exponential
from services.queueing.core.inputs.own_events import FLUSH, IMPROVED
from services.queueing.core.preemption.asks import MADE_ROOM_FOR
from services.queueing.core.state import QueueingState
from services.queueing.core.transitions import Pod
from shared.events.base import Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import PodsAssigned, PodsGone, PodsPending
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.placement import NominationReady, Refused
from shared.events.queueing import (
    Activated,
    Dispatched,
    GangDispatched,
    GangPreemptAsked,
    Parked,
    PreemptAsked,
    Woken,
)
from shared.model.columns import as_numbers, size
from shared.model.ids import GangId, PodId, SignatureId

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
ACTIVE, BACKOFF, PARKED = "active", "backoff", "unschedulable"
ATTEMPT_S = exponential(0.001, 2, 15)
SLI_S = exponential(0.01, 2, 20)
ATTEMPTS = exponential(1, 2, 5)
ATTEMPTS_SHOWN = 15
"""A label of the SLI has the number of attempts up to this one."""
ADDED, UPDATED, DELETED = "UnschedulablePodAdd", "UnschedulablePodUpdate", "AssignedPodDelete"
FAILED, ENDED, CUT = "ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ"
WOKEN = {FLUSH: "UnschedulableTimeout", IMPROVED: "ShardImproved"}
"""Why pods wake, in kube-scheduler's words. A shard does not say which event improved it."""


class Wait(Struct, gc=False):
    """When a pod could be tried first, ms, and how many attempts failed."""

    first_ms: int
    failed: int = 0


class Attempts:
    """The counts. Those of results are by result and profile, those of queues by queue and event,
    the SLI is by attempts, and `ended` counts dispatches by why they have no more pods.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self.results: Counter[tuple[str, str]] = Counter()
        self.incoming: Counter[tuple[str, str]] = Counter()
        self.durations_s: dict[tuple[str, str], Histogram] = defaultdict(
            partial(Histogram, ATTEMPT_S)
        )
        self.sli_s: dict[str, Histogram] = defaultdict(partial(Histogram, SLI_S))
        self.attempts = Histogram(ATTEMPTS)
        self.batches = Histogram(PODS)
        self.ended: Counter[str] = Counter()
        self.preemptions = 0
        self._began_ms: dict[PodId, int] = {}
        self._waits: dict[PodId, Wait] = {}
        self._gangs: dict[GangId, list[PodId]] = {}
        self.handlers: dict[type[Event], Callable[[Any, Any], None]] = {
            PodsPending: self._pending,
            PodsAssigned: self._assigned,
            PodsGone: self._gone,
            Dispatched: self._dispatched,
            Parked: self._parked,
            Refused: self._refused,
            Bound: self._bound,
            BindFailed: self._bind_failed,
            GangDispatched: self._gang_dispatched,
            GangCommitted: self._gang_committed,
            GangReleased: self._gang_released,
            GangTimedOut: self._gang_released,
            NominationReady: self._nominated,
            Woken: self._woken,
            Activated: self._activated,
            PreemptAsked: self._preempt_asked,
            GangPreemptAsked: self._gang_preempt_asked,
        }

    # ------------------------------------------------------------------ queues

    def _pending(self, state: QueueingState, event: PodsPending) -> None:
        queue = PARKED if event.gated or event.gang or event.sig in state.gates else ACTIVE
        ids, pods = as_numbers(event.ids), state.pods
        if ids and min(ids) >= pods.top:
            self.incoming[queue, ADDED] += len(ids)
            return
        for pod in ids:
            code = pods.state_of(pod)
            if code is Pod.UNKNOWN:
                self.incoming[queue, ADDED] += 1
            elif code is Pod.GATED and queue is ACTIVE:
                self.incoming[queue, UPDATED] += 1
                self._waits[pod] = Wait(state.now_ms)

    def _woken(self, _state: QueueingState, event: Woken) -> None:
        queue = BACKOFF if event.until_ms else ACTIVE
        self.incoming[queue, WOKEN.get(event.reason, event.reason)] += size(event.ids)

    def _activated(self, state: QueueingState, event: Activated) -> None:
        first = as_numbers(event.ids)[0] - state.pods.base
        is_early = int(state.pods.until_ms[first]) > state.now_ms
        self.incoming[ACTIVE, CUT if is_early else ENDED] += size(event.ids)

    def _nominated(self, state: QueueingState, event: NominationReady) -> None:
        if state.pods.state_of(event.pod) in MADE_ROOM_FOR:
            self.incoming[ACTIVE, DELETED] += 1

    # ------------------------------------------------------------------ attempts

    def _dispatched(self, state: QueueingState, event: Dispatched) -> None:
        self.batches.add(size(event.ids))
        self.ended[why_dispatch_ended(state, event)] += 1
        began = dict.fromkeys(as_numbers(event.ids), state.now_ms)
        if event.urgent:  # leftovers of another shard continue their attempt
            began |= {pod: self._began_ms[pod] for pod in began.keys() & self._began_ms.keys()}
        self._began_ms |= began

    def _gang_dispatched(self, state: QueueingState, event: GangDispatched) -> None:
        pods = [pod for part in event.members for pod in as_numbers(part.ids)]
        self._gangs[event.gang] = pods
        self._began_ms |= dict.fromkeys(pods, state.now_ms)

    def _gang_committed(self, _state: QueueingState, event: GangCommitted) -> None:
        self._gangs.pop(event.gang, None)

    def _parked(self, state: QueueingState, event: Parked) -> None:
        pods = as_numbers(event.ids)
        if pods and state.pods.state_of(pods[0]) in (Pod.READY, Pod.LEFTOVER):
            self._failed(state, pods, UNSCHEDULABLE, PARKED)

    def _refused(self, state: QueueingState, event: Refused) -> None:
        if event.error:
            pods = (pod for pod in as_numbers(event.ids) if self._is_tried(state, event, pod))
            self._failed(state, pods, ERROR, BACKOFF)

    def _is_tried(self, state: QueueingState, event: Refused, pod: PodId) -> bool:
        pods = state.pods
        is_in_flight = pods.state_of(pod) is Pod.IN_FLIGHT
        return is_in_flight and pods.attempt_at[pod - pods.base] == event.attempt

    def _gang_released(self, state: QueueingState, event: GangReleased | GangTimedOut) -> None:
        gang = state.gangs.get(event.gang)
        if gang is None or gang.attempt != event.attempt:
            return
        tried = self._gangs.pop(event.gang, [])
        pods = [pod for pod in tried if state.pods.state_of(pod) is Pod.GANG_IN_FLIGHT]
        if not (isinstance(event, GangReleased) and event.stale):
            self._failed(state, pods, UNSCHEDULABLE, PARKED)

    def _bind_failed(self, state: QueueingState, event: BindFailed) -> None:
        pods = as_numbers(event.ids)
        if event.reason in ("gone", "foreign"):
            self._forget(pods)
            return
        for pod, plugin in zip(pods, event.plugins or ("",) * len(pods), strict=True):
            if state.pods.state_of(pod) in (Pod.RESERVED, Pod.IN_FLIGHT, Pod.GANG_IN_FLIGHT):
                self._failed(
                    state,
                    [pod],
                    UNSCHEDULABLE if plugin else ERROR,
                    PARKED if plugin in state.config.wakes else BACKOFF,
                )

    def _failed(self, state: QueueingState, pods: Iterable[PodId], result: str, queue: str) -> None:
        """Count a failed attempt of each of these pods, which go to a queue."""
        table, now_ms = state.pods, state.now_ms
        for pod in pods:
            row = pod - table.base
            wait = self._waits.get(pod)
            if wait is None:
                before = int(table.refusals[row])
                wait = self._waits[pod] = Wait(table.order_ms_at[row], before)
            wait.failed += 1
            spent_ms = now_ms - self._began_ms.pop(pod, now_ms)
            self._end(state, table.sig_at[row], result, spent_ms)
            self.incoming[queue, FAILED] += 1

    def _bound(self, state: QueueingState, event: Bound) -> None:
        """Count bound pods; a fact may have shown the bind already. Pods of a batch mostly share
        all that is counted, so they are counted together.
        """
        now_ms = state.now_ms
        for (sig, began_ms, first_ms, failed), count in Counter(self._ends(state, event)).items():
            self._end(state, sig, SCHEDULED, now_ms - began_ms, count)
            attempts = 1 + failed
            self.attempts.add(attempts, count)
            label = str(attempts) if attempts < ATTEMPTS_SHOWN else f"{ATTEMPTS_SHOWN}+"
            self.sli_s[label].add((now_ms - first_ms) / 1000, count)

    def _ends(
        self, state: QueueingState, event: Bound
    ) -> Iterator[tuple[SignatureId, int, int, int]]:
        """Yield the signature of each pod, when its attempt began and when it could be tried first,
        ms, and how many attempts failed. Nothing is known of pods that the table has dropped.
        """
        table, now_ms = state.pods, state.now_ms
        began_ms, waits, base = self._began_ms, self._waits, table.base
        rows_max, refusals = table.top - base, memoryview(cast(Any, table.refusals))
        for pod in as_numbers(event.ids):
            row = pod - base
            began, wait = began_ms.pop(pod, now_ms), waits.pop(pod, None) if waits else None
            if not 0 <= row < rows_max:
                continue
            if wait is None:
                yield table.sig_at[row], began, table.order_ms_at[row], refusals[row]
            else:
                yield table.sig_at[row], began, wait.first_ms, wait.failed

    def _end(
        self, state: QueueingState, number: SignatureId, result: str, spent_ms: int, count: int = 1
    ) -> None:
        sig = state.sigs.get(number)
        key = result, "" if sig is None else sig.scheduler
        self.results[key] += count
        self.durations_s[key].add(spent_ms / 1000, count)

    def _assigned(self, state: QueueingState, event: PodsAssigned) -> None:
        """Forget pods that others bound."""
        began_ms, waits = self._began_ms, self._waits
        if began_ms or waits:
            pods = (pod for pod in as_numbers(event.ids) if pod in began_ms or pod in waits)
            self._forget(pod for pod in pods if state.pods.state_of(pod) < Pod.RESERVED)

    def _gone(self, _state: QueueingState, event: PodsGone) -> None:
        self._forget(as_numbers(event.ids))

    def _forget(self, pods: Iterable[PodId]) -> None:
        for pod in pods:
            self._began_ms.pop(pod, None)
            self._waits.pop(pod, None)

    # ---------------------------------------------------------------- preemption

    def _preempt_asked(self, _state: QueueingState, event: PreemptAsked) -> None:
        self.preemptions += 1 + size(event.others)

    def _gang_preempt_asked(self, _state: QueueingState, _event: GangPreemptAsked) -> None:
        self.preemptions += 1
