"""Checks that no dispatch brings a queue above its max, with all pods that are tried or have a node
counted, at every position of queueing's journal; and that what waits for a queue finds it full.
"""

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass, field

from muster.checker.inputs.facts import Facts
from muster.checker.inputs.history import ClusterHistory
from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.binding import BindFailed
from shared.events.ingest import (
    PodsAssigned,
    PodsGone,
    PodsPending,
    PodsRelabelled,
    QueuesSet,
    SignatureDefined,
)
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.placement import Refused
from shared.events.queueing import Dispatched, GangDispatched, Parked
from shared.model.cluster_objects import Queue
from shared.model.columns import unpack
from shared.model.objects import PodSpec

RULE = "queue-max"


@dataclass
class Usage:
    """The tree, and what each pod that counts uses, by pod."""

    queues: dict[str, Queue] = field(default_factory=dict)
    specs: dict[int, PodSpec] = field(default_factory=dict)
    sig_of: dict[int, int] = field(default_factory=dict)
    counted: set[int] = field(default_factory=set)
    open: dict[int, set[int]] = field(default_factory=dict)  # pods of the attempts of gangs
    refused: set[int] = field(default_factory=set)  # by a shard, and not parked since

    def over(self, spec: PodSpec, counted: Container[int] | None = None) -> str:
        """Return the queue of a pod, or one above it, that is above a max; empty if none."""
        if not self.queues or not spec.queue:
            return ""
        name = spec.queue
        if name not in self.queues:
            return f"{name}, which does not exist"
        while name:
            for resource, most in self.queues[name].max:
                used = self.used(name, resource, self.counted if counted is None else counted)
                if used > most and amount_of(spec, resource):
                    return f"{name} with {used} of {resource}, max {most}"
            name = self.queues[name].parent
        return ""

    def takes_kept(self, spec: PodSpec, counted: Container[int]) -> str:
        """Return the queue of a pod that counts, or one above it, below whose max what is
        guaranteed to others has no room any more; empty if none.
        """
        name = spec.queue
        while name in self.queues:
            below = [one for one in self.queues if self.queues[one].parent == name]
            for resource, most in self.queues[name].max:
                kept = sum(self._kept(one, resource, counted) for one in below)
                used = self.used(name, resource, counted) if kept else 0
                if used + kept > most and kept and amount_of(spec, resource):
                    return f"{name} with {used} of {resource}, max {most}, {kept} guaranteed"
            name = self.queues[name].parent
        return ""

    def _kept(self, queue: str, resource: str, counted: Container[int]) -> int:
        below = [one for one in self.queues if self.queues[one].parent == queue]
        least = dict(self.queues[queue].guaranteed).get(resource, 0)
        unused = least - self.used(queue, resource, counted) if least else 0
        return max(unused, sum(self._kept(one, resource, counted) for one in below))

    def used(self, queue: str, resource: str, counted: Container[int]) -> int:
        """Return how much of a resource these pods use in a queue."""
        return sum(
            amount_of(self.specs[sig], resource)
            for pod, sig in self.sig_of.items()
            if pod in counted and self._is_in(self.specs[sig].queue, queue)
        )

    def _is_in(self, queue: str, above: str) -> bool:
        while queue and queue != above and queue in self.queues:
            queue = self.queues[queue].parent
        return queue == above

    def learn(self, event: Event) -> None:
        """Apply an input of queueing."""
        match event:
            case QueuesSet():
                self.queues = {one.name: one for one in event.queues}
            case SignatureDefined():
                self.specs[event.sig] = event.spec
            case PodsPending():
                self.sig_of.update(dict.fromkeys(unpack(event.ids).tolist(), event.sig))
            case PodsRelabelled() | PodsAssigned():
                pods = unpack(event.ids).tolist()
                self.sig_of.update(zip(pods, unpack(event.sigs).tolist(), strict=True))
                if isinstance(event, PodsAssigned):
                    self.counted.update(pods)
            case Refused():
                self.refused.update(self.counted.intersection(unpack(event.ids).tolist()))
                self.counted -= self.refused
            case PodsGone():
                self.counted.difference_update(unpack(event.ids).tolist())
            case BindFailed() if event.reason != "foreign":
                self.counted.difference_update(unpack(event.ids).tolist())
            case GangCommitted():
                left = self.open.pop(event.attempt, set())
                self.counted -= left - set(unpack(event.ids).tolist())
            case GangReleased() | GangTimedOut():
                self.counted -= self.open.pop(event.attempt, set())
            case _:
                pass


def amount_of(spec: PodSpec, resource: str) -> int:
    """Return what a pod uses of a resource in its queue."""
    if resource == "pods":
        return 1
    if resource == "nvidia.com/gpu":
        return spec.gpu.milli * spec.gpu.count if spec.gpu is not None else 0
    return spec.request(resource)


def check(journal: Journal) -> Iterator[Problem]:
    """Yield dispatches above the max of a queue."""
    usage = Usage()
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            usage.learn(event)
        for event in step.own:
            pods: list[int] = []
            if isinstance(event, Parked):
                usage.refused.difference_update(unpack(event.ids).tolist())
            if isinstance(event, Dispatched):
                pods = unpack(event.ids).tolist()
            elif isinstance(event, GangDispatched):
                pods = [pod for part in event.members for pod in unpack(part.ids).tolist()]
                usage.open[event.attempt] = set(pods)
            usage.counted.update(pods)
            if isinstance(event, Dispatched) and event.urgent and usage.refused.issuperset(pods):
                continue  # they have been tried since before others brought the queue above its max
            for sig in sorted({usage.sig_of.get(pod, 0) for pod in pods} if usage.queues else ()):
                over = usage.over(usage.specs[sig])
                if over:
                    where = f"{journal.name} at {step.position}"
                    yield RULE, f"{where}: pod {pods[0]} brings queue {over}"


class AtEnd:
    """Which pods have no room in their queues once the mesh is at rest."""

    def __init__(self, journal: Journal, facts: Facts, history: ClusterHistory) -> None:
        """Count the pods that have a node."""
        self._usage = Usage()
        for step in journal.steps:
            for _source, _position, event in step.inputs:
                self._usage.learn(event)
        self._facts = facts
        self._placed = {
            facts.id_of.get(uid, 0)
            for uid, pod in history.pods.items()
            if pod.node and not pod.deleted
        }

    def guarded(self) -> dict[int, str]:
        """Return the queue of each pod, if any queue has a guarantee."""
        if not any(one.guaranteed for one in self._usage.queues.values()):
            return {}
        return {pod: self._usage.specs[sig].queue for pod, sig in self._usage.sig_of.items()}

    def are_over(self, pods: Collection[int]) -> bool:
        """Return whether these pods together would bring a queue of theirs above its max, or take
        what is kept of it for guarantees.
        """
        specs = {spec for pod in pods if (spec := self._facts.spec(pod)) is not None}
        counted = self._placed.union(pods)
        return any(
            self._usage.over(spec, counted) or self._usage.takes_kept(spec, counted)
            for spec in specs
        )
