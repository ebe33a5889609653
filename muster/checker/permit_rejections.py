"""Checks pods that a user's Permit plugin rejected.

Such a pod is tried again for an event that the plugin names, after five minutes, or when the pod
itself changes; for nothing else. An event counts if queueing read it after the rejected attempt
began; queueing's journal shows the order. A pod that need not wait leaves backoff in time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import Happened, NodesGone, NodesSet, PodsAssigned, PodsGone, PodsPending
from shared.events.placement import NominationReady
from shared.events.queueing import Activated, Dispatched, Woken
from shared.model.columns import unpack

RULE = "held"
STAY_MS = 300_000
LATE_RECORDS = 20  # large facts span several records
STEP_EVENTS_FULL = 500  # a step with so many decisions may leave some to the next
BACKOFF_MS = 60_000  # longer than any backoff plus the time between two owners
A_POD_LEFT = "Pod/Delete"


@dataclass
class PermitRejections:
    """Pods in flight and rejected pods, as queueing's journal shows them.

    `tried`: pod -> kinds of events since its attempt began. `waits`: pod -> (plugin, since ms).
    `due`: pod -> the event that must wake it. `backs_off`: pod -> latest end of its backoff, ms.
    """

    wakes: dict[str, set[str]] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    tried: dict[int, set[str]] = field(default_factory=dict)
    waits: dict[int, tuple[str, int]] = field(default_factory=dict)
    due: dict[int, str] = field(default_factory=dict)
    backs_off: dict[int, int] = field(default_factory=dict)

    def on_happened(self, kind: str, but: int = 0) -> None:
        """Count a cluster event for all pods but one."""
        for pod, kinds in self.tried.items():
            if pod != but:
                kinds.add(kind)
        for pod, (plugin, _since_ms) in self.waits.items():
            if pod != but and kind in self.wakes.get(plugin, ()):
                self.due[pod] = kind

    def read(self, event: Event, now_ms: int) -> None:
        """Apply an event that queueing reads."""
        match event:
            case Happened():
                for kind in event.kinds:
                    self.on_happened(kind)
            case BindFailed():
                self._failed(event, now_ms)
            case PodsPending():
                if event.gang:
                    self.members.update(unpack(event.ids).tolist())
                self._forget(event.ids)
            case PodsGone() | PodsAssigned() | Bound():
                self._forget(event.ids)
                for pod in unpack(event.ids).tolist():
                    self.tried.pop(pod, None)
            case NominationReady():
                self.forget(event.pod)
            case _:
                pass

    def _failed(self, event: BindFailed, now_ms: int) -> None:
        """Apply the failures one by one: each frees a place, which is an event to the next pod."""
        ids = unpack(event.ids).tolist()
        for pod, plugin in zip(ids, event.plugins or ("",) * len(ids), strict=True):
            is_known = pod in self.tried and plugin in self.wakes and pod not in self.members
            kinds = self.tried.pop(pod, set())
            if is_known and self.wakes[plugin] & kinds:
                self.backs_off[pod] = now_ms + BACKOFF_MS
            elif is_known:
                self.waits[pod] = plugin, now_ms
            if event.reason not in ("gone", "foreign"):
                self.on_happened(A_POD_LEFT, but=pod)

    def decided(self, event: Event, now_ms: int) -> Iterator[Problem]:
        """Apply queueing's own event; yield violations."""
        match event:
            case Dispatched():
                for pod in unpack(event.ids).tolist():
                    if pod in self.waits:
                        yield RULE, f"pod {pod}: tried while it waits for {self.waits[pod][0]}"
                    self.tried[pod] = set()
            case Woken():
                for pod in unpack(event.ids).tolist():
                    if pod in self.waits and pod not in self.due:
                        yield RULE, f"pod {pod}: woken for {event.reason}, not for its plugin"
            case Activated():
                for pod in unpack(event.ids).tolist():
                    if pod in self.waits and self.waits[pod][1] + STAY_MS > now_ms:
                        yield RULE, f"pod {pod}: waits for {self.waits[pod][0]}, is tried early"
            case _:
                return
        self._forget(event.ids)

    def late(self, now_ms: int) -> Iterator[Problem]:
        """Yield pods that should have left backoff by now."""
        late = [pod for pod, until_ms in self.backs_off.items() if until_ms < now_ms]
        for pod in late:
            yield RULE, f"pod {pod}: waits, though it had what it waits for"
            self.forget(pod)

    def asleep(self) -> Iterator[Problem]:
        """Yield pods that should have been woken by the end of a step."""
        for pod, kind in self.due.items():
            yield RULE, f"pod {pod}: {kind} happened, and it is not tried again"
        self.due.clear()

    def _forget(self, ids: bytes) -> None:
        for pod in unpack(ids).tolist():
            self.forget(pod)

    def forget(self, pod: int) -> None:
        """Forget a pod that waits no longer."""
        self.waits.pop(pod, None)
        self.due.pop(pod, None)
        self.backs_off.pop(pod, None)


def check(queueing: Journal, ingest: Journal) -> Iterator[Problem]:
    """Yield the violations in both journals."""
    yield from _cluster_events(ingest)
    yield from _waits(queueing)


def _cluster_events(journal: Journal) -> Iterator[Problem]:
    """Check that ingest announces every event that a plugin waits for."""
    wakes: set[str] = set()
    nodes: set[int] = set()
    unannounced: dict[str, int] = {}
    for entry in journal.entries:
        if entry.record.claim is not None:
            wakes = set(entry.record.claim.config.get("ingest", {}).get("wakes", ()))
        for event in entry.events() if wakes else ():
            for kind in _kinds(event, nodes) & wakes:
                unannounced.setdefault(kind, entry.position)
            if isinstance(event, Happened):
                unannounced = {
                    kind: at for kind, at in unannounced.items() if kind not in event.kinds
                }
        for kind, at in unannounced.items():
            if at + LATE_RECORDS <= entry.position:
                yield RULE, f"{journal.name} at {at}: {kind} happened, and is not announced"
                return


def _kinds(event: Event, nodes: set[int]) -> set[str]:
    match event:
        case NodesSet():
            ids = set(unpack(event.ids).tolist())
            kinds = {"Node/Add" if ids - nodes else "", "Node/Update" if ids & nodes else ""}
            nodes.update(ids)
            return kinds
        case NodesGone():
            return {"Node/Delete"}
        case PodsGone():
            return {A_POD_LEFT}
        case PodsAssigned():
            return {"Pod/Add"}
        case _:
            return set()


def _waits(journal: Journal) -> Iterator[Problem]:
    books = PermitRejections()
    for step in journal.steps:
        if step.record.claim is not None:
            config: dict[str, Any] = step.record.claim.config.get("queueing", {})
            books.wakes = {name: set(kinds) for name, kinds in config.get("wakes", {}).items()}
        if not books.wakes and not books.waits:
            continue
        now_ms = step.record.time_ms
        for _source, _position, event in step.inputs:
            books.read(event, now_ms)
        yield from books.late(now_ms)
        for event in step.own:
            yield from books.decided(event, now_ms)
        if len(step.own) < STEP_EVENTS_FULL:
            yield from books.asleep()
