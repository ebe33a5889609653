"""Counts over a run's journals: times, messages, batches, gangs and preemptions.

It only reads and counts: muster/checker/brute_force.py checks, muster/explain/summary.py shows.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from shared.events.base import Event
from shared.events.binding import BindFailed, Bound, PreBindFailed, VolumesTaken
from shared.events.ingest import (
    GangSet,
    PodsGone,
    PodsNamed,
    PodsPending,
    PodsRelabelled,
    SignaturesQueued,
)
from shared.events.permit import GangCommitted, GangTimedOut
from shared.events.placement import GangHeld, Refused, Reserved, VolumesFailed
from shared.events.preemption import EvictAsked, PreemptionOpened
from shared.events.queueing import (
    Confirmed,
    Dispatched,
    GangDispatched,
    GangWaits,
    Parked,
    QuotaReached,
    TryFailed,
)
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import own_events
from shared.model.columns import size, split, unpack
from shared.model.ids import NO_GANG, GangId, JournalName, SignatureId
from shared.ports.bus import Bus


class PodFacts(Struct):
    """One pod in the journals. Times are those of the records, ms. `answered_ms`: bound, or told
    why it waits, for the first time. `device_masks`: of a pod with GPUs, by the nodes that were
    reserved for it; shards' journals are read in turn, so the newest one read need not count.
    """

    uid: str
    seen_ms: int
    bound_ms: int = -1
    answered_ms: int = -1
    node: int = 0
    device_masks: dict[int, int] = {}
    gang: GangId = NO_GANG

    @property
    def device_mask(self) -> int:
        """Return the devices on the node that the pod has; 0 if none are known."""
        return self.device_masks.get(self.node, 0)


class Tally:
    """Follows all journals of a run through one bus client."""

    def __init__(self, bus: Bus, journals: Sequence[JournalName]) -> None:
        """Read nothing before `catch_up`."""
        self._bus = bus
        self._readers = [Reader(name, Cursor()) for name in journals]
        self._now_ms = 0
        self.pods: dict[int, PodFacts] = {}
        self.gone: set[int] = set()
        self.messages: dict[int, str] = {}
        self.gates: dict[int, str] = {}  # signature -> reason of the user's preEnqueue plugin
        self.gated: dict[int, int] = {}  # gated pod -> its signature
        self.gang_keys: dict[int, str] = {}
        self.roots: dict[int, int] = {}  # PodGroup -> the root of its tree
        self.gang_messages: dict[int, str] = {}
        self.gangs_tried: set[int] = set()
        self.gangs_committed: set[int] = set()
        self.gangs_timed_out: set[int] = set()
        self.batches: Counter[int] = Counter()
        self.preemptions = 0
        self.victims = 0
        self.victims_beyond_budget = 0
        self.refusals = 0
        self.first_ms = -1
        self.last_bound_ms = -1
        self.records = 0
        self.bytes = 0
        self.voids = 0
        self._apply: dict[type[Event], Callable[[Any], None]] = {
            PodsNamed: self._named,
            SignaturesQueued: self._queued,
            PodsPending: self._pending,
            PodsRelabelled: self._relabelled,
            PodsGone: lambda event: self.gone.update(unpack(event.ids).tolist()),
            GangSet: self._gang_set,
            Dispatched: self._dispatched,
            Parked: self._parked,
            Confirmed: self._parked,
            TryFailed: self._parked,
            QuotaReached: self._parked,
            GangWaits: self._gang_waits,
            GangDispatched: lambda event: self.gangs_tried.add(event.gang),
            Reserved: self._devices,
            GangHeld: self._devices,
            Refused: self._refused,
            BindFailed: self._not_bound,
            PreBindFailed: lambda event: self.messages.__setitem__(event.pod, event.reason),
            VolumesTaken: self._taken,
            VolumesFailed: lambda event: self.messages.__setitem__(event.pod, event.reason),
            GangCommitted: lambda event: self.gangs_committed.add(event.gang),
            GangTimedOut: lambda event: self.gangs_timed_out.add(event.gang),
            PreemptionOpened: self._preempts,
            EvictAsked: self._evicts,
            Bound: self._bound,
        }

    async def catch_up(self) -> None:
        """Read every journal to its present end."""
        for reader in self._readers:
            while batch := await self._bus.read(reader.journal, reader.next):
                self.bytes += sum(len(payload) for _, payload in batch)
                self.records += len(batch)
                for position, record in reader.accept_all(batch):
                    self._now_ms = record.time_ms
                    for event in own_events(record, reader.journal, position):
                        apply = self._apply.get(type(event))
                        if apply is not None:
                            apply(event)
        self.voids = sum(reader.voids for reader in self._readers)

    def by_uid(self) -> dict[str, int]:
        """Return pod numbers by uid."""
        return {pod.uid: number for number, pod in self.pods.items()}

    def message(self, number: int) -> str:
        """Return the last message about the pod or its gang; empty if there is none."""
        gang = self.pods[number].gang
        if gang in self.roots:
            return self.gang_messages.get(self.roots[gang], "")
        if gang and gang not in self.gangs_committed:
            return self.gang_messages.get(gang, "")
        return self.messages.get(number, "")

    def gate(self, number: int) -> str:
        """Return which user's plugin gates the pod, and why; empty if none does."""
        return self.gates.get(self.gated.get(number, 0), "")

    def _queued(self, event: SignaturesQueued) -> None:
        self.gates.update(zip(unpack(event.sigs).tolist(), event.gates, strict=True))

    def _gated(self, number: int, sig: SignatureId) -> None:
        if self.gates.get(sig):
            self.gated[number] = sig
        else:
            self.gated.pop(number, None)

    def _named(self, event: PodsNamed) -> None:
        if self.first_ms < 0:
            self.first_ms = self._now_ms
        for number, uid in zip(unpack(event.ids).tolist(), split(event.uids), strict=True):
            if number not in self.pods:
                self.pods[number] = PodFacts(uid, self._now_ms)

    def _pending(self, event: PodsPending) -> None:
        if event.gang:
            for number in unpack(event.ids).tolist():
                if number in self.pods:
                    self.pods[number].gang = event.gang
        for number in unpack(event.ids).tolist() if self.gates else ():
            self._gated(number, event.sig)

    def _relabelled(self, event: PodsRelabelled) -> None:
        if self.gates:
            columns = unpack(event.ids).tolist(), unpack(event.sigs).tolist()
            for number, sig in zip(*columns, strict=True):
                self._gated(number, sig)

    def _gang_set(self, event: GangSet) -> None:
        self.gang_keys[event.gang] = event.key
        self.roots.pop(event.gang, None)
        if event.root:
            self.roots[event.gang] = event.root

    def _dispatched(self, event: Dispatched) -> None:
        self.batches[len(unpack(event.ids))] += 1

    def _parked(self, event: Parked | Confirmed | TryFailed | QuotaReached) -> None:
        for number in unpack(event.ids).tolist():
            self.messages[number] = event.message
            self._answered(number)

    def _answered(self, number: int) -> None:
        pod = self.pods.get(number)
        if pod is not None and not 0 <= pod.answered_ms <= self._now_ms:
            pod.answered_ms = self._now_ms

    def _taken(self, event: VolumesTaken) -> None:
        """Keep the message only if there is none: journals are read in turn, so queueing's may be
        newer.
        """
        self.messages.setdefault(event.pod, event.reason)

    def _gang_waits(self, event: GangWaits) -> None:
        self.gang_messages[event.gang] = event.message

    def _devices(self, event: Reserved | GangHeld) -> None:
        if event.devices:
            columns = (unpack(one).tolist() for one in (event.ids, event.nodes, event.devices))
            for number, node, mask in zip(*columns, strict=True):
                if number in self.pods:
                    self.pods[number].device_masks[node] = mask

    def _refused(self, event: Refused) -> None:
        self.refusals += len(unpack(event.ids))

    def _not_bound(self, event: BindFailed) -> None:
        if event.texts:
            self.messages.update(zip(unpack(event.ids).tolist(), event.texts, strict=True))

    def _preempts(self, event: PreemptionOpened) -> None:
        self.preemptions += 1

    def _evicts(self, event: EvictAsked) -> None:
        self.victims += size(event.victims)
        self.victims_beyond_budget += size(event.beyond)

    def _bound(self, event: Bound) -> None:
        self.last_bound_ms = max(self.last_bound_ms, self._now_ms)
        columns = unpack(event.ids).tolist(), unpack(event.nodes).tolist()
        for number, node in zip(*columns, strict=True):
            pod = self.pods.get(number)
            if pod is None:
                continue
            pod.node = node
            if pod.bound_ms < 0:
                pod.bound_ms = self._now_ms
                self._answered(number)
