"""Checks that nothing borrows before what claims: no pod or gang is dispatched above a guarantee
while a single pod that is new, and not refused by any shard, is within one. And no single pod that
borrows takes what is guaranteed to others below a max.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from muster.checker.inputs.journals import Journal, Problem
from muster.checker.quotas import Usage, amount_of
from shared.events.base import Event
from shared.events.ingest import PodsAssigned, PodsGone, PodsPending, SignaturesQueued
from shared.events.placement import Refused
from shared.events.queueing import Dispatched, GangDispatched, PreemptAsked
from shared.model.columns import unpack
from shared.model.objects import PodSpec

RULE, KEPT = "guarantee-first", "guarantee-kept"


@dataclass
class _Order:
    """What is used, and which single pods are new: neither tried nor gated so far."""

    usage: Usage = field(default_factory=Usage)
    new: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)  # room was asked for them, and may count
    refused: set[int] = field(default_factory=set)  # signatures
    gated: set[int] = field(default_factory=set)  # signatures

    def learn(self, event: Event) -> None:
        """Apply an input of queueing."""
        self.usage.learn(event)
        match event:
            case PodsPending():
                pods = unpack(event.ids).tolist()
                if event.gang or event.gated:
                    self.new.difference_update(pods)
                else:
                    self.new.update(pods)
            case PodsGone() | PodsAssigned():
                self.new.difference_update(unpack(event.ids).tolist())
            case Refused():
                self.refused.add(event.sig)
            case SignaturesQueued():
                gates = zip(unpack(event.sigs).tolist(), event.gates, strict=True)
                self.gated.update(sig for sig, gate in gates if gate)
            case _:
                pass

    def is_within(self, spec: PodSpec, used_by: set[int]) -> bool:
        """Return whether one more pod is within what its queue is guaranteed."""
        queues, within = self.usage.queues, list[bool]()
        for resource in ("pods", "nvidia.com/gpu", *dict(spec.requests)):
            amount, name = amount_of(spec, resource), spec.queue
            while amount and name in queues:
                least = dict(queues[name].guaranteed).get(resource)
                if least is not None:
                    used = self.usage.used(name, resource, used_by)
                    within.append(used + amount <= least)
                    break
                name = queues[name].parent
        return bool(within) and all(within)

    def has_guarantees(self) -> bool:
        """Return whether any queue has a guarantee."""
        return any(one.guaranteed for one in self.usage.queues.values())

    def claiming_pod(self) -> int:
        """Return a pod that claims and can be tried; 0 if there is none."""
        usage = self.usage
        used_by = usage.counted | usage.refused | self.asked
        seen: set[int] = set()
        for pod in sorted(self.new):
            sig = usage.sig_of[pod]
            if sig in seen or sig in self.refused or sig in self.gated:
                continue
            seen.add(sig)
            spec = usage.specs[sig]
            if self.is_within(spec, used_by) and not usage.over(spec, used_by | {pod}):
                return pod
        return 0

    def borrower(self, pods: list[int]) -> int:
        """Return the first of these dispatched pods that borrows, 0 if none does; those before it
        count as used from then on.
        """
        for pod in pods:
            spec = self.usage.specs[self.usage.sig_of[pod]]
            if spec.queue and not self.is_within(spec, self.usage.counted - {pod}):
                return pod
            self.usage.counted.add(pod)
        return 0


def check(journal: Journal) -> Iterator[Problem]:
    """Yield dispatches that borrow before what claims."""
    order = _Order()
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            order.learn(event)
        for event in step.own:
            pods = _pods_of(event)
            order.new.difference_update(pods)
            if isinstance(event, PreemptAsked):
                order.asked.update(pods)
            if not isinstance(event, Dispatched | GangDispatched):
                continue
            pod, where = 0, f"{journal.name} at {step.position}"
            if order.has_guarantees() and not getattr(event, "urgent", False):
                pod = order.borrower(pods if isinstance(event, Dispatched) else pods[:1])
                other = order.claiming_pod() if pod else 0
                if other:
                    yield RULE, f"{where}: pod {pod} borrows before pod {other}"
            usage = order.usage
            usage.counted.update(pods)
            if pod and isinstance(event, Dispatched):
                taken = usage.takes_kept(usage.specs[usage.sig_of[pod]], usage.counted)
                if taken:
                    yield KEPT, f"{where}: pod {pod} borrows what queue {taken}"
            if isinstance(event, GangDispatched):
                order.usage.open[event.attempt] = set(pods)


def _pods_of(event: Event) -> list[int]:
    """Return the pods that an event of queueing names."""
    if isinstance(event, GangDispatched):
        return [pod for part in event.members for pod in unpack(part.ids).tolist()]
    found: list[int] = unpack(getattr(event, "ids", b"")).tolist()
    if isinstance(event, PreemptAsked):
        found += [event.pod, *unpack(event.others).tolist()]
    return found
