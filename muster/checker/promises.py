"""Checks nominations that extenders refuse.

If extenders refuse a pod the node whose victims have left for it, the nomination ends at once, and
for five minutes no victim is chosen on that node for pods of that signature.
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
RETRY_MS = 300_000


@dataclass
class _Books:
    """One shard's nominations by pod, the pods whose victims have left, the open extender call, and
    (signature, node) -> when extenders refused the node, ms.
    """

    promised: dict[int, Nominated] = field(default_factory=dict)
    ready: set[int] = field(default_factory=set)
    asked: ExtendersAsked | None = None
    refused_ms: dict[tuple[int, int], int] = field(default_factory=dict)

    def end(self, pods: Iterable[int]) -> None:
        """End the nominations of these pods."""
        for pod in pods:
            self.promised.pop(pod, None)
            self.ready.discard(pod)

    def void_call(self, pods: Iterable[int]) -> None:
        """Void the open call if it is about one of these pods."""
        if self.asked is not None and self.asked.pod in pods:
            self.asked = None


def check(journal: Journal) -> Iterator[Problem]:
    """Yield the violations in a shard's journal."""
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
            books.end([event.pod])
        case PodsAssigned() | PodsGone():
            pods = set(unpack(event.ids).tolist())
            books.end(pods)
            books.void_call(pods)
        case PodsRelabelled() | Dispatched():
            books.void_call(set(unpack(event.ids).tolist()))
        case _:
            pass


def _refused(books: _Books, event: Event) -> Iterator[Nominated]:
    """Yield the nomination that this answer refuses."""
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
            books.end([event.pod])
            books.promised[event.pod] = event
            since_ms = books.refused_ms.get((event.sig, event.node), now_ms - RETRY_MS)
            if now_ms < since_ms + RETRY_MS:
                yield f"others go for pod {event.pod} on node {event.node}, refused it just now"
        case NominationReady():
            books.ready.add(event.pod)
        case NominationLost():
            if event.refused and books.asked is not None:
                key = books.asked.sig, books.promised[event.pod].node
                books.refused_ms[key] = now_ms
            books.end([event.pod])
        case Reserved():
            books.end(unpack(event.ids).tolist())
        case _:
            pass
