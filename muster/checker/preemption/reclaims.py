"""Checks what preemptors take from other queues: no queue falls below its guarantee, only pods that
stay within theirs claim, and only what others borrow is claimed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.checker.books import SYSTEM_PRIORITY
from muster.checker.inputs.journals import Journal, Problem
from muster.checker.quotas import Usage, amount_of
from shared.events.base import Event
from shared.events.binding import EvictionFailed
from shared.events.ingest import (
    PodsAssigned,
    PodsGone,
    PodsRelabelled,
    QueuesSet,
    SignatureDefined,
)
from shared.events.placement import (
    GangNominationStale,
    Nominated,
    NominationLost,
    NominationStale,
)
from shared.events.preemption import (
    EvictAsked,
    EvictRecalled,
    GangNominateAsked,
    GangPreemptionClosed,
    NominateAsked,
    NominationCleared,
    PreemptionClosed,
)
from shared.events.queueing import Dispatched, GangDispatched, PreemptAsked
from shared.model.cluster_objects import Queue
from shared.model.columns import unpack
from shared.model.objects import PodSpec


def _chain(queues: dict[str, Queue], name: str) -> list[str]:
    found: list[str] = []
    while name in queues:
        found.append(name)
        name = queues[name].parent
    return found


@dataclass
class Running:
    """The tree, and the pods that run, as preemption's journal shows them. `leaving`: victims, with
    their asks. `of_gangs`: the asks of members, by that of the gang.
    """

    queues: dict[str, Queue] = field(default_factory=dict)
    specs: dict[int, PodSpec] = field(default_factory=dict)
    pods: dict[int, PodSpec] = field(default_factory=dict)
    leaving: dict[int, int] = field(default_factory=dict)
    of_gangs: dict[int, list[int]] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def learn(self, event: Event) -> None:
        """Apply an input."""
        match event:
            case QueuesSet():
                self.queues = {one.name: one for one in event.queues}
            case SignatureDefined():
                self.specs[event.sig] = event.spec
            case PodsAssigned() | PodsRelabelled():
                known = self.pods if isinstance(event, PodsRelabelled) else None
                columns = unpack(event.ids).tolist(), unpack(event.sigs).tolist()
                for pod, sig in zip(*columns, strict=True):
                    if pod not in self.gone and (known is None or pod in known):
                        self.pods[pod] = self.specs[sig]
            case PodsGone():
                for pod in unpack(event.ids).tolist():
                    self.gone.add(pod)
                    self.pods.pop(pod, None)
                    self.leaving.pop(pod, None)
            case EvictionFailed():
                for pod in unpack(event.ids).tolist():
                    self.leaving.pop(pod, None)
            case GangNominationStale():
                self.forget_gang(event.ask)
            case NominationStale():
                self.forget(event.ask)
            case Nominated():
                self.forget(event.ask)
                self.leaving.update(dict.fromkeys(unpack(event.victims).tolist(), event.ask))
            case _:
                pass

    def forget(self, ask: int) -> None:
        """Note an ask that ended: victims that are not evicted stay."""
        self.leaving = {pod: by for pod, by in self.leaving.items() if by != ask}

    def forget_gang(self, ask: int) -> None:
        """Note the same of a gang's ask."""
        for one in self.of_gangs.pop(ask, []):
            self.forget(one)

    def used(self, name: str, resource: str, without: Sequence[int]) -> int:
        """Return what runs in a queue and below it, without pods that leave, and these."""
        return sum(
            amount_of(spec, resource)
            for pod, spec in self.pods.items()
            if pod not in without
            and pod not in self.leaving
            and name in _chain(self.queues, spec.queue)
        )

    def below(self, theirs: str, ours: str) -> list[str]:
        """Return the queues of a chain that are not in the other."""
        shared = _chain(self.queues, ours)
        return [name for name in _chain(self.queues, theirs) if name not in shared]

    def harm(self, spec: PodSpec, victims: Sequence[int], claims: bool) -> Iterator[Problem]:
        """Yield what is wrong with these victims of a preemptor."""
        is_system = not spec.queue and spec.priority >= SYSTEM_PRIORITY
        if not self.queues or is_system:
            return
        specs = [(pod, self.pods[pod]) for pod in victims if pod in self.pods]
        for name in sorted({one for _pod, it in specs for one in self.below(it.queue, spec.queue)}):
            for resource, least in self.queues[name].guaranteed:
                taken = self.used(name, resource, ()) - self.used(name, resource, victims)
                if taken and self.used(name, resource, victims) < least:
                    text = f"queue {name} falls below its {least} of {resource} by {list(victims)}"
                    yield "guarantee-kept", text
        for pod, it in specs:
            if it.priority >= spec.priority and not (claims and self._borrows(it, spec)):
                yield "claimed-borrower", f"victim {pod} is of no queue that borrows"

    def _borrows(self, theirs: PodSpec, spec: PodSpec) -> bool:
        """Return whether the pod's queues use more than their guarantees of something that the
        preemptor asks for, and do not share its guarantee.
        """
        below, ours = self.below(theirs.queue, spec.queue), _chain(self.queues, spec.queue)
        shared = _chain(self.queues, theirs.queue)
        guarantors: dict[str, str] = {}
        for name in ours:
            for resource, _least in self.queues[name].guaranteed:
                if amount_of(spec, resource):
                    guarantors.setdefault(resource, name)
        if not set(guarantors.values()).difference(shared):
            return False
        return bool(below) and all(
            any(
                self.used(name, one, ()) > dict(self.queues[name].guaranteed).get(one, 0)
                for one in ("pods", "nvidia.com/gpu", *dict(spec.requests))
                if amount_of(spec, one)
            )
            for name in below
        )


def check_victims(journal: Journal, specs: Mapping[int, PodSpec]) -> Iterator[Problem]:
    """Yield choices of victims in preemption's journal that take a guarantee, or claim others'."""
    books = Running()
    for step in journal.steps:
        where = f"{journal.name} at {step.position}"
        for _source, _position, event in step.inputs:
            books.learn(event)
        for event in step.own:
            match event:
                case NominateAsked():
                    victims = unpack(event.victims).tolist()
                    for rule, text in books.harm(specs[event.sig], victims, event.claims):
                        yield rule, f"{where}: ask {event.ask}: {text}"
                    books.leaving.update(dict.fromkeys(victims, event.ask))
                case GangPreemptionClosed():
                    books.forget_gang(event.ask)
                case GangNominateAsked():
                    of_gang = books.of_gangs.setdefault(event.ask, [])
                    of_gang += [one.ask for one in event.nominees]
                    for one in event.nominees:
                        victims = unpack(one.victims).tolist()
                        for rule, text in books.harm(specs[one.sig], victims, False):
                            yield rule, f"{where}: ask {one.ask}: {text}"
                        books.leaving.update(dict.fromkeys(victims, one.ask))
                case EvictAsked():
                    victims = unpack(event.victims).tolist()
                    books.leaving.update(dict.fromkeys(victims, event.ask))
                case PreemptionClosed() | EvictRecalled() | NominationCleared():
                    books.forget(event.ask)
                case _:
                    pass


def check_claims(journal: Journal) -> Iterator[Problem]:
    """Yield asks in queueing's journal that claim more than a guarantee."""
    usage, claiming = Usage(), dict[int, int]()
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            usage.learn(event)
            if isinstance(event, PodsGone | PodsAssigned):
                for pod in unpack(event.ids).tolist():
                    claiming.pop(pod, None)
            elif isinstance(event, PreemptionClosed | NominationLost):
                claiming.pop(event.pod, None)
        for event in step.own:
            match event:
                case Dispatched():
                    pods = unpack(event.ids).tolist()
                case GangDispatched():
                    pods = [pod for part in event.members for pod in unpack(part.ids).tolist()]
                    usage.open[event.attempt] = set(pods)
                case PreemptAsked() if event.claims:
                    asked = [event.pod, *unpack(event.others).tolist()]
                    claiming.update(dict.fromkeys(asked, event.sig))
                    beyond = _beyond(usage, usage.specs[event.sig], claiming)
                    if beyond:
                        where = f"{journal.name} at {step.position}: pod {event.pod}"
                        yield "claim-within-guarantee", f"{where} claims, and queue {beyond}"
                    continue
                case _:
                    continue
            usage.counted.update(pods)
            for pod in pods:
                claiming.pop(pod, None)


def _beyond(usage: Usage, spec: PodSpec, claiming: dict[int, int]) -> str:
    """Return the queue that uses more than it is guaranteed of what the pod asks for, with all that
    claim; of each resource the first one of its chain that guarantees it counts.
    """
    seen: set[str] = set()
    for name in _chain(usage.queues, spec.queue):
        for resource, least in usage.queues[name].guaranteed:
            if resource in seen or not amount_of(spec, resource):
                continue
            seen.add(resource)
            used = sum(
                amount_of(usage.specs[sig], resource)
                for pod, sig in (claiming | usage.sig_of).items()
                if (pod in usage.counted or pod in claiming)
                and name in _chain(usage.queues, usage.specs[sig].queue)
            )
            if used > least:
                return f"{name} uses {used} of {resource}, guaranteed {least}"
    return "" if seen else f"{spec.queue} has no guarantee"
