"""The safety rules of queueing, checked at every event by an observer that knows only events."""

from services.queueing.core.transitions import Pod
from shared.events.base import Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import PodsAssigned, PodsGone, PodsPending, SignaturesQueued
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.placement import Improved, NominationLost, NominationReady, Refused, Reserved
from shared.events.preemption import PreemptionClosed
from shared.events.queueing import Activated, Dispatched, GangDispatched, Parked, Woken
from shared.model.columns import unpack

PRIORITIES = (0, 0, 5, 9)
FLUSH_MS = 30_000
ACTIVE = (Pod.READY, Pod.LEFTOVER, Pod.NOMINATED, Pod.IN_FLIGHT, Pod.GANG_IN_FLIGHT)


def ids_of(column: bytes) -> list[int]:
    found: list[int] = unpack(column).tolist()
    return found


class Observer:
    """The safety rules, over what queueing has consumed and decided."""

    def __init__(self, shards: int) -> None:
        self.all = (1 << shards) - 1
        self.open: dict[int, int] = {}  # pod -> attempt
        self.over: set[int] = set()
        self.has_node: set[int] = set()
        self.nominated: set[int] = set()
        self.refused: dict[int, int] = {}
        self.attempts: set[int] = set()
        self.ages: dict[int, int] = {}  # of pods: when they came or failed; unknown of some
        self.now = 0
        self.failed_ms: dict[int, int] = {}  # when each was refused by everybody last
        self.orders = {sig: PRIORITIES[sig % 4] for sig in range(1, 5)}
        self.gang_of: dict[int, int] = {}
        self.bound: set[int] = set()
        self.gone: set[int] = set()
        self.deleted: set[int] = set()

    def _ends(self, event: Event) -> None:
        match event:
            case PodsPending():
                self.gang_of.update(dict.fromkeys(ids_of(event.ids), event.gang))
            case PodsGone() | BindFailed(reason="gone"):
                self.gone.update(ids_of(event.ids))
                if isinstance(event, PodsGone):
                    self.deleted.update(ids_of(event.deleted))
            case PodsAssigned() | Bound() | BindFailed(reason="foreign"):
                self.bound.update(pod for pod in ids_of(event.ids) if pod in self.gang_of)

    def _ages(self, event: Event) -> None:
        """Update the pods' ages; 0: unknown. Gangs have other rules, and only the core knows which
        failures count.
        """
        match event:
            case PodsPending():
                for pod in ids_of(event.ids):
                    self.now += 1
                    self.ages.setdefault(pod, self.now if not event.gang else 0)
                    if event.gang:
                        self.ages[pod] = 0
            case BindFailed():
                self.ages.update(dict.fromkeys(ids_of(event.ids), 0))
            case PreemptionClosed() | NominationLost():
                self.ages[event.pod] = 0

    def consumed(self, event: Event) -> None:
        self._ages(event)
        self._ends(event)
        match event:
            case Reserved() | Refused():
                for pod in ids_of(event.ids):
                    if self.open.get(pod) == event.attempt:
                        del self.open[pod]
                        if isinstance(event, Reserved):
                            self.has_node.add(pod)
                if isinstance(event, Refused) and event.error:
                    self.ages.update(dict.fromkeys(ids_of(event.ids), 0))
                elif isinstance(event, Refused):
                    mask = self.refused.get(event.sig, 0)
                    self.refused[event.sig] = mask | 1 << event.shard
            case Improved():
                for sig in ids_of(event.sigs):
                    self.refused[sig] = self.refused.get(sig, 0) & ~(1 << event.shard)
            case PodsGone() | PodsAssigned() | Bound():
                for pod in ids_of(event.ids):
                    self.open.pop(pod, None)
                    self.over.add(pod)
            case BindFailed():
                for pod in ids_of(event.ids):
                    self.open.pop(pod, None)
                    self.has_node.discard(pod)
                    if event.reason not in ("abandoned", "refused"):
                        self.over.add(pod)
            case GangCommitted():
                for pod in ids_of(event.ids):
                    if self.open.get(pod) == event.attempt:
                        del self.open[pod]
                        self.has_node.add(pod)
                for pod in [pod for pod in self.open if self.open[pod] == event.attempt]:
                    del self.open[pod]
            case GangReleased() | GangTimedOut():
                for pod in [pod for pod in self.open if self.open[pod] == event.attempt]:
                    del self.open[pod]
            case NominationReady():
                self.nominated.add(event.pod)
            case SignaturesQueued():
                self.orders.update(zip(ids_of(event.sigs), ids_of(event.orders), strict=True))

    def decided(self, state, event: Event) -> None:
        """Check a decided event before it is applied."""
        match event:
            case Dispatched():
                self._tried(event.attempt, ids_of(event.ids))
                if not (event.urgent and set(ids_of(event.ids)) & self.nominated):
                    self._priority(state, event)
                if not event.urgent:
                    self._age(state, event)
            case Activated():
                self._left_backoff(state, ids_of(event.ids))
            case Woken() if event.reason == "unschedulable timeout":
                for pod in ids_of(event.ids):
                    stayed_ms = state.now_ms - self.failed_ms[pod]
                    assert stayed_ms > state.config.unschedulable_max_ms, f"pod {pod} is early"
            case Parked():
                for pod in ids_of(event.ids):
                    self.now += 1
                    if state.pods.state_of(pod) in (Pod.READY, Pod.LEFTOVER):
                        self.failed_ms[pod] = state.now_ms
                        if self.ages[pod]:
                            self.ages[pod] = self.now
            case GangDispatched():
                self._tried(
                    event.attempt, [pod for part in event.members for pod in ids_of(part.ids)]
                )

    def stayed(self, state) -> None:
        """Check after every step that no pod has been unschedulable for too long."""
        most_ms = state.config.unschedulable_max_ms + FLUSH_MS
        if state.config.looks_per_s:
            most_ms += 1_000 * (1 + len(state.sigs) // state.config.looks_per_s)
        for pod in (*in_state(state, Pod.PARKED), *in_state(state, Pod.PREEMPTING)):
            assert state.now_ms - self.failed_ms[pod] < most_ms, f"pod {pod} is forgotten"

    def runs(self, state) -> None:
        """Check that exactly the members that have a node count for a gang that is not committed,
        and since its start perhaps those that finished.
        """
        running = [self.gang_of[pod] for pod in self.bound - self.gone]
        finished = [self.gang_of[pod] for pod in (self.bound & self.gone) - self.deleted]
        table = state.pods
        running += [int(table.gang[pod - table.base]) for pod in in_state(state, Pod.RESERVED)]
        for number, gang in state.gangs.items():
            least = running.count(number)
            most = least + gang.started * finished.count(number)
            assert gang.committed or least <= gang.running <= most, f"gang {number}"

    def _left_backoff(self, state, pods: list[int]) -> None:
        """Check that the backoffs of these pods have ended, or that one was cut short for the next
        pod and its equals while nothing else was to be tried.
        """
        table, now_ms = state.pods, state.now_ms
        until_ms = {pod: int(table.until_ms[pod - table.base]) for pod in pods}
        if all(at_ms <= now_ms for at_ms in until_ms.values()):
            return
        assert not any(in_state(state, code) for code in ACTIVE), "a backoff is cut while others go"

        def place(pod: int) -> tuple[int, int, int]:
            row = pod - table.base
            order = self.orders[int(table.sig[row])]
            return int(table.until_ms[row]) // 1_000, -order, int(table.seq[row])

        waiting = [
            pod for pod in in_state(state, Pod.BACKOFF) if not table.errors[pod - table.base]
        ]
        first = min(waiting, key=place)
        assert pods[0] == first, f"pod {first} was next, not {pods[0]}"
        assert set(pods).issubset(waiting), "a backoff after an error is cut"
        assert len({int(table.sig[pod - table.base]) for pod in pods}) == 1, "not equals"
        if state.config.strict_order or state.config.max_batch == 1:
            assert len(pods) == 1, "more than one at a time"

    def _tried(self, attempt: int, pods: list[int]) -> None:
        assert attempt not in self.attempts, "an attempt's number is never used twice"
        self.attempts.add(attempt)
        for pod in pods:
            assert pod not in self.open, f"pod {pod} is in two open attempts"
            assert pod not in self.over, f"pod {pod} is tried after its end"
            assert pod not in self.has_node, f"pod {pod} is tried while it has a node"
            self.open[pod] = attempt

    def _priority(self, state, event: Dispatched) -> None:
        free = state.free_mask()
        waiting = {int(state.pods.sig[pod - state.pods.base]) for pod in in_state(state, Pod.READY)}
        for sig in waiting:
            if self.orders[sig] > self.orders[event.sig]:
                usable = free & ~self.refused.get(sig, 0)
                assert not usable, f"signature {sig} was passed by {event.sig} of lower priority"

    def _age(self, state, event: Dispatched) -> None:
        """Check that the next pod arrived, or failed last, before all others of its order."""
        free, first = state.free_mask(), ids_of(event.ids)[0]
        for pod in in_state(state, Pod.READY):
            sig = int(state.pods.sig[pod - state.pods.base])
            usable = free & ~self.refused.get(sig, 0)
            if usable and self.orders[sig] == self.orders[event.sig] and self.ages[pod]:
                assert self.ages[first] <= self.ages[pod], f"pod {pod} was passed by {first}"


def in_state(state, code: Pod) -> list[int]:
    found: list[int] = state.pods.in_state(code).tolist()
    return found
