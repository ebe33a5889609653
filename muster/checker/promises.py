"""Promises that extenders refuse: as soon as they do not leave a pod the node whose victims have
left for it, the node is promised no more, and nobody goes for the pod there again for five minutes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.ingest import PodsAssigned, PodsGone, PodsRelabelled
from shared.events.observed import ExtendersAnswered
from shared.events.placement import (
    ExtendersAsked,
    Nominated,
    NominationLost,
    NominationReady,
    Reserved,
)
from shared.events.preemption import NominationCleared
from shared.events.queueing import Dispatched
from shared.model.columns import unpack

RULE = "refused-promise"
AGAIN_MS = 300_000


@dataclass
class _Books:
    """One shard's promises by pod, those whose victims have left, the question that is open, and
    when extenders refused a pod's signature the room on a node.
    """

    promised: dict[int, Nominated] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
    asked: ExtendersAsked | None = None
    refused_ms: dict[tuple[int, int], int] = field(default_factory=dict)

    def over(self, pods: Iterable[int]) -> None:
        """Nothing is promised to these, whatever extenders say of them."""
        for pod in pods:
            self.promised.pop(pod, None)
            self.ready.discard(pod)

    def unasked(self, pods: Iterable[int]) -> None:
        """What was asked about one of these is void."""
        if self.asked is not None and self.asked.pod in pods:
            self.asked = None


def check(journal: Journal) -> Iterator[Problem]:
    """What is wrong in a shard's journal."""
    books = _Books()
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            _consume(books, event)
        refused = [one for event in step.received for one in _refused(books, event)]
        for event in step.own:
            for text in _decide(books, event, step.record.time_ms):
                yield RULE, f"{journal.name} at {step.position}: {text}"
        for one in refused:
            if books.promised.get(one.pod) is one:
                text = f"pod {one.pod} keeps node {one.node}, which extenders refuse it"
                yield RULE, f"{journal.name} at {step.position}: {text}"


def _consume(books: _Books, event: Event) -> None:
    match event:
        case NominationCleared():
            books.over([event.pod])
        case PodsAssigned() | PodsGone():
            pods = set(unpack(event.ids).tolist())
            books.over(pods)
            books.unasked(pods)
        case PodsRelabelled() | Dispatched():
            books.unasked(set(unpack(event.ids).tolist()))
        case _:
            pass


def _refused(books: _Books, event: Event) -> Iterator[Nominated]:
    """The promise that this answer refuses."""
    asked = books.asked
    if not isinstance(event, ExtendersAnswered) or asked is None or asked.ask != event.ask:
        return
    one = books.promised.get(asked.pod)
    if one is None or asked.pod not in books.ready or event.error:
        return
    if one.node in unpack(asked.nodes) and one.node not in unpack(event.nodes):
        yield one


def _decide(books: _Books, event: Event, now_ms: int) -> Iterator[str]:
    match event:
        case ExtendersAsked():
            books.asked = event if event.gang < 0 else books.asked
        case Nominated():
            books.over([event.pod])
            books.promised[event.pod] = event
            since_ms = books.refused_ms.get((event.sig, event.node), now_ms - AGAIN_MS)
            if now_ms < since_ms + AGAIN_MS:
                yield f"others go for pod {event.pod} on node {event.node}, refused it just now"
        case NominationReady():
            books.ready.add(event.pod)
        case NominationLost():
            if event.refused and books.asked is not None:
                key = books.asked.sig, books.promised[event.pod].node
                books.refused_ms[key] = now_ms
            books.over([event.pod])
        case Reserved():
            books.over(unpack(event.ids).tolist())
        case _:
            pass
