"""What a shard was asked for and has not answered yet: dispatches by priority, asks by arrival.

Asks (gang offers and holds, dry runs, nominations) are few and somebody waits for each, so they go
before dispatches. Nothing here decides; deciding reads the head and its events take it away.
"""

from bisect import bisect
from collections import deque
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from shared.events.observed import ExtendersAnswered
from shared.events.permit import HoldAsked, OfferAsked
from shared.events.placement import ExtendersAsked
from shared.events.preemption import DryRunAsked, GangDryRunAsked, GangNominateAsked, NominateAsked
from shared.model.columns import I64, pack, unpack

Asked = OfferAsked | HoldAsked | DryRunAsked | NominateAsked | GangDryRunAsked | GangNominateAsked


class Work:
    """Pods of one dispatch that are not answered yet, in their order; `start` = the next one.

    `key` orders dispatches: urgent first, then higher priority, then arrival. The priority is
    queueing's: a plugin of a user may say another than the pods have.
    """

    __slots__ = ("attempt", "ids", "key", "order", "priority", "sig", "start", "urgent")

    def __init__(
        self, attempt: int, sig: int, ids: I64, urgent: bool, priority: int, order: int
    ) -> None:
        """`order` counts arrivals in this shard and makes the key unique."""
        self.attempt, self.sig, self.ids, self.start = attempt, sig, ids, 0
        self.urgent, self.order = urgent, order
        self.prioritise(priority)

    def prioritise(self, priority: int) -> None:
        """Only while it is not queued: its place follows from it."""
        self.priority = priority
        self.key = (0 if self.urgent else 1, -priority, self.order)

    def left(self) -> I64:
        """Pods not answered yet."""
        return self.ids[self.start :] if self.start else self.ids


_KEY = attrgetter("key")


class Ask:
    """One ask; `void` = its attempt was released before it was answered, so answer refused."""

    __slots__ = ("event", "void")

    def __init__(self, event: Asked, void: bool = False) -> None:
        """`event` as it came."""
        self.event, self.void = event, void

    def sigs(self) -> list[int]:
        """Signatures that must be known before this can be answered."""
        if isinstance(self.event, OfferAsked | HoldAsked | GangDryRunAsked):
            return [group.sig for group in self.event.members]
        if isinstance(self.event, GangNominateAsked):
            return [one.sig for one in self.event.nominees]
        return [self.event.sig]


class Asking:
    """A pod about which extenders are asked: it left the dispatches, and is queued all the same."""

    __slots__ = ("answer", "asked", "work")

    def __init__(
        self, asked: ExtendersAsked, work: Work, answer: ExtendersAnswered | None = None
    ) -> None:
        """`work` is of this pod alone."""
        self.asked, self.work, self.answer = asked, work, answer


class Todo:
    """Both queues, and what waits for a signature that ingest's journal has not shown us yet."""

    def __init__(self) -> None:
        """Nothing to do."""
        self.works: deque[Work] = deque()  # by key; nearly all come in that order
        self.asks: deque[Ask] = deque()
        self.unknown: dict[int, list[Work | Ask]] = {}
        self.arrivals = 0
        self.asking: Asking | None = None
        self.judging: ExtendersAsked | None = None
        """A gang's member that extenders think about: meanwhile nothing is answered or placed."""

    def is_asking(self) -> bool:
        """Whether extenders think about a pod that is no member of a gang."""
        return self.asking is not None and self.asking.answer is None

    def can_place(self) -> bool:
        """Whether there is a pod to decide about; while extenders think there is none."""
        if self.judging is not None:
            return False
        if self.asking is not None:
            return self.asking.answer is not None
        return bool(self.works)

    def ask(self, asked: ExtendersAsked) -> None:
        """Extenders are asked about the head's next pod, or about the same pod once more."""
        if self.asking is not None:
            work = self.asking.work
        else:
            head = self.take(asked.attempt, pack([asked.pod]))
            pods = unpack(pack([asked.pod]))
            work = Work(head.attempt, head.sig, pods, head.urgent, head.priority, head.order)
        self.asking = Asking(asked, work)

    def ask_anew(self, ids: I64) -> None:
        """These pods are others than before: what extenders say of one of them is void."""
        asking = self.asking
        if asking is not None and asking.asked.pod in ids.tolist():
            self.asking = None
            self.add(asking.work)

    def answered(self, answer: ExtendersAnswered) -> None:
        """What extenders said; a pod that is not wanted any more was not waited for."""
        if self.asking is not None and self.asking.asked.ask == answer.ask:
            self.asking.answer = answer

    def add(self, work: Work) -> None:
        """Queue a dispatch of a known signature."""
        works = self.works
        if works and works[-1].key > work.key:
            works.insert(bisect(works, work.key, key=_KEY), work)
        else:
            works.append(work)

    def reorder(self, orders: Mapping[int, int]) -> None:
        """Dispatches of these signatures go by other priorities."""
        for work in self.works:
            work.prioritise(orders.get(work.sig, work.priority))
        self.works = deque(sorted(self.works, key=_KEY))

    def head(self) -> Work:
        """The dispatch whose turn it is."""
        return self.works[0]

    def take(self, attempt: int, ids: bytes) -> Work:
        """The head was answered for its first pods `ids`; it leaves when nothing is left."""
        if self.asking is not None:
            return self._take_asked(attempt, ids)
        work = self.head()
        count = len(ids) >> 3
        stop = work.start + count
        same = (
            count > 0 and work.attempt == attempt and work.ids[work.start : stop].tobytes() == ids
        )
        assert same, (
            f"attempt {attempt} answered out of turn: the head is attempt {work.attempt} "
            f"(sig {work.sig}) with {len(work.left())} pods left"
        )
        work.start = stop
        if stop == len(work.ids):
            self.works.popleft()
        return work

    def _take_asked(self, attempt: int, ids: bytes) -> Work:
        assert self.asking is not None
        work, self.asking = self.asking.work, None
        same = work.attempt == attempt and work.ids.tobytes() == ids
        assert same, f"attempt {attempt} answered while extenders judge one of {work.attempt}"
        return work

    def drop(self, ids: I64) -> None:
        """These pods are no longer wanted here, wherever they wait."""
        gone = np.sort(ids)
        self.works = deque(work for work in self.works if _without(work, gone))
        if self.asking is not None and not _without(self.asking.work, gone):
            self.asking = None
        for sig, waiting in sorted(self.unknown.items()):
            left = [one for one in waiting if isinstance(one, Ask) or _without(one, gone)]
            if left:
                self.unknown[sig] = left
            else:
                del self.unknown[sig]

    def void(self, gang: int, attempt: int) -> None:
        """The attempt was released: its asks not answered yet are to be refused."""
        for ask in self._all_asks():
            event = ask.event
            if isinstance(event, OfferAsked | HoldAsked):
                ask.void = ask.void or (event.gang, event.attempt) == (gang, attempt)

    def void_nomination(self, ask_id: int) -> None:
        """The nomination was cleared before it was made: answer stale."""
        for ask in self._all_asks():
            if isinstance(ask.event, NominateAsked) and ask.event.ask == ask_id:
                ask.void = True
            if isinstance(ask.event, GangNominateAsked):
                ask.void |= any(one.ask == ask_id for one in ask.event.nominees)

    def queued(self) -> Iterator[I64]:
        """Pods of every dispatch that waits here, dispatch by dispatch."""
        if self.asking is not None:
            yield self.asking.work.left()
        for work in self.works:
            yield work.left()
        for _sig, waiting in sorted(self.unknown.items()):
            yield from (one.left() for one in waiting if isinstance(one, Work))

    def _all_asks(self) -> Iterator[Ask]:
        yield from self.asks
        for _sig, waiting in sorted(self.unknown.items()):
            yield from (one for one in waiting if isinstance(one, Ask))

    def dump(self) -> list[object]:
        """Plain values, in the order of work."""
        return [
            self.arrivals,
            [dump_work(work) for work in self.works],
            [dump_ask(ask) for ask in self.asks],
            [
                [sig, [dump_work(o) if isinstance(o, Work) else dump_ask(o) for o in waiting]]
                for sig, waiting in sorted(self.unknown.items())
            ],
        ]


def _without(work: Work, gone: I64) -> bool:
    """Take sorted ids out of a dispatch; False when nothing of it is left."""
    left = work.left()
    at = np.searchsorted(gone, left)
    hit = gone[np.minimum(at, len(gone) - 1)] == left
    if hit.any():
        work.ids, work.start = left[~hit], 0
    return len(work.ids) > work.start


def dump_work(work: Work) -> list[object]:
    """Plain values of one dispatch."""
    fields = [work.attempt, work.sig, pack(work.left()), work.urgent, work.priority, work.order]
    return ["work", *fields]


def dump_ask(ask: Ask) -> list[object]:
    """Plain values of one ask."""
    return ["ask", ask.event, ask.void]


def dump_asking(asking: Asking) -> list[object]:
    """Plain values of what extenders are asked."""
    return [asking.asked, dump_work(asking.work), asking.answer]


def load_asking(body: list[Any]) -> Asking:
    """Inverse of dump_asking."""
    asked, work, answer = body
    said = None if answer is None else msgspec.convert(answer, ExtendersAnswered)
    return Asking(msgspec.convert(asked, ExtendersAsked), _load_work(work), said)


def load_todo(body: list[Any]) -> Todo:
    """Inverse of `Todo.dump`."""
    arrivals, works, asks, unknown = body
    todo = Todo()
    todo.arrivals = arrivals
    for one in works:
        todo.add(_load_work(one))
    todo.asks.extend(_load_ask(one) for one in asks)
    for sig, waiting in unknown:
        todo.unknown[sig] = [
            _load_work(one) if one[0] == "work" else _load_ask(one) for one in waiting
        ]
    return todo


def _load_work(body: list[Any]) -> Work:
    _tag, attempt, sig, ids, urgent, priority, order = body
    return Work(attempt, sig, unpack(ids), urgent, priority, order)


def _load_ask(body: list[Any]) -> Ask:
    _tag, event, void = body
    return Ask(msgspec.convert(event, Asked), void)
