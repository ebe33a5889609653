"""The work queue of a shard: dispatches by priority, tasks by arrival.

Tasks (gang offers and holds, dry runs, nominations) are few and another service waits for each, so
they come before dispatches. The queue decides nothing: `decide` reads its head and the events
remove it.
"""

from bisect import bisect
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from shared.events.observed import ExtendersAnswered
from shared.events.permit import CountsAsked, HoldAsked, OfferAsked
from shared.events.placement import ExtendersAsked
from shared.events.preemption import DryRunAsked, GangDryRunAsked, GangNominateAsked, NominateAsked
from shared.model.columns import I64, as_numbers, pack, unpack
from shared.model.ids import AttemptId, GangId, SignatureId

AskedOfShard = (
    OfferAsked | HoldAsked | DryRunAsked | NominateAsked | GangDryRunAsked | GangNominateAsked
)
TaskEvent = AskedOfShard | CountsAsked


class Batch:
    """The unanswered pods of one dispatch, in order; `start` is the next one.

    `key` orders dispatches: urgent first, then higher priority, then arrival. The priority is
    queueing's: a user's QueueSort plugin may set another than the pods'. `claims`, `borrows`: as in
    Dispatched.
    """

    __slots__ = (
        *("attempt", "borrows", "claims", "ids", "key", "order", "priority", "sig"),
        *("start", "urgent"),
    )

    def __init__(
        self,
        attempt: AttemptId,
        sig: SignatureId,
        ids: I64,
        urgent: bool,
        priority: int,
        order: int,
        claims: bool = False,
        borrows: bool = False,
    ) -> None:
        """Create a batch. `order` counts arrivals in this shard and makes the key unique."""
        self.claims, self.borrows = claims, borrows
        self.attempt, self.sig, self.ids, self.start = attempt, sig, ids, 0
        self.urgent, self.order = urgent, order
        self.prioritise(priority)

    def prioritise(self, priority: int) -> None:
        """Set the priority. Only while the batch is not queued, as its place depends on it."""
        self.priority = priority
        self.key = (0 if self.urgent else 1, -priority, self.order)

    def part(self, sig: SignatureId, ids: I64) -> "Batch":
        """Return a batch of some of its pods, which have this signature."""
        more = self.claims, self.borrows
        return Batch(self.attempt, sig, ids, self.urgent, self.priority, self.order, *more)

    def left(self) -> I64:
        """Return the pods not answered yet."""
        return self.ids[self.start :] if self.start else self.ids


_KEY = attrgetter("key")


class Turn:
    """This shard's turn for the dispatches of some signatures. `moved`: a pod was reserved."""

    __slots__ = ("batches", "moved", "number", "sigs")

    def __init__(self, number: int, sigs: frozenset[SignatureId], moved: bool = False) -> None:
        self.number, self.sigs, self.moved = number, sigs, moved
        self.batches: deque[Batch] = deque()


class Task:
    """One task. `void`: its attempt was released before the answer, so the answer is a refusal."""

    __slots__ = ("event", "void")

    def __init__(self, event: TaskEvent, void: bool = False) -> None:
        """Create a task for an event."""
        self.event, self.void = event, void

    def sigs(self) -> list[SignatureId]:
        """Return the signatures that must be known before the answer."""
        if isinstance(self.event, OfferAsked | HoldAsked | GangDryRunAsked):
            return [group.sig for group in self.event.members]
        if isinstance(self.event, GangNominateAsked):
            return [one.sig for one in self.event.nominees]
        if isinstance(self.event, CountsAsked):
            return [SignatureId(sig) for sig in as_numbers(self.event.sigs)]
        return [self.event.sig]


class ExtenderCall:
    """An open extender call about one pod. The pod left the dispatches but still counts
    as queued.
    """

    __slots__ = ("answer", "asked", "work")

    def __init__(
        self, asked: ExtendersAsked, batch: Batch, answer: ExtendersAnswered | None = None
    ) -> None:
        """Create a call; `batch` holds this pod only."""
        self.asked, self.work, self.answer = asked, batch, answer


class WorkQueue:
    """Both queues, the dispatches that wait for a turn or have one (turns.py), and the dispatches
    and tasks that wait for a signature from ingest's journal.
    """

    def __init__(self) -> None:
        """Create an empty queue."""
        self.batches: deque[Batch] = deque()  # by key; nearly all arrive in that order
        self.tasks: deque[Task] = deque()
        self.waiting: deque[Batch] = deque()
        self.turn: Turn | None = None
        self.unknown: dict[SignatureId, list[Batch | Task]] = {}
        self.arrivals = 0
        self.extender_call: ExtenderCall | None = None
        self.member_call: ExtendersAsked | None = None
        """The open call about a gang's member. Meanwhile no task is answered and no pod placed."""

    def has_open_call(self) -> bool:
        """Return whether a call about a single pod is open."""
        return self.extender_call is not None and self.extender_call.answer is None

    def can_place(self) -> bool:
        """Return whether there is a pod to decide about; never while a call is open."""
        if self.member_call is not None:
            return False
        if self.extender_call is not None:
            return self.extender_call.answer is not None
        return bool(self.batches or self.has_turn())

    def open_call(self, asked: ExtendersAsked) -> None:
        """Open a call about the head's next pod, or about the same pod again."""
        if self.extender_call is not None:
            batch = self.extender_call.work
        else:
            head = self.pop(asked.attempt, pack([asked.pod]))
            pods = unpack(pack([asked.pod]))
            batch = head.part(head.sig, pods)
        self.extender_call = ExtenderCall(asked, batch)

    def void_call(self, ids: I64) -> None:
        """Void the open call if it is about one of these changed pods."""
        call = self.extender_call
        if call is not None and call.asked.pod in ids.tolist():
            self.extender_call = None
            self.add(call.work)

    def close_call(self, answer: ExtendersAnswered) -> None:
        """Close the call with its answer; the answer about an unwanted pod is ignored."""
        if self.extender_call is not None and self.extender_call.asked.ask == answer.ask:
            self.extender_call.answer = answer

    def add(self, batch: Batch) -> None:
        """Queue a dispatch of a known signature."""
        works = self.batches
        if works and works[-1].key > batch.key:
            works.insert(bisect(works, batch.key, key=_KEY), batch)
        else:
            works.append(batch)

    def reorder(self, orders: Mapping[SignatureId, int]) -> None:
        """Reorder the dispatches of these signatures by new priorities."""
        for batch in (*self.batches, *self.waiting):
            batch.prioritise(orders.get(batch.sig, batch.priority))
        self.batches = deque(sorted(self.batches, key=_KEY))

    def has_turn(self) -> bool:
        """Return whether dispatches have the turn now. They come first: other shards wait."""
        return self.turn is not None and bool(self.turn.batches)

    def _first(self) -> deque[Batch]:
        turn = self.turn
        return turn.batches if turn is not None and turn.batches else self.batches

    def head(self) -> Batch:
        """Return the next dispatch: the first by key, but none that borrows before one that
        claims.
        """
        batches = self._first()
        if batches[0].borrows and any(batch.claims for batch in batches):
            return next(batch for batch in batches if not batch.borrows)
        return batches[0]

    def set_aside(self, sigs: Collection[SignatureId]) -> None:
        """Let the dispatches of these signatures wait for a turn."""
        self.waiting += [batch for batch in self.batches if batch.sig in sigs]
        self.batches = deque(batch for batch in self.batches if batch.sig not in sigs)

    def begin_turn(self, number: int, sigs: frozenset[SignatureId]) -> None:
        """Begin the turn for the waiting dispatches of these signatures."""
        self.turn = Turn(number, sigs)
        chosen = sorted((one for one in self.waiting if one.sig in sigs), key=_KEY)
        self.turn.batches = deque(chosen)
        self.waiting = deque(one for one in self.waiting if one.sig not in sigs)

    def split(self, split: Callable[[Batch], list[Batch]]) -> None:
        """Replace dispatches by others. Those with another signature need another turn."""
        self.batches = deque(new for old in self.batches for new in split(old))
        places = [self.waiting] if self.turn is None else [self.waiting, self.turn.batches]
        for place in places:
            found = [(old, new) for old in place for new in split(old)]
            place.clear()
            for old, new in found:
                if new.sig == old.sig:
                    place.append(new)
                else:
                    self.add(new)

    def pop(self, attempt: AttemptId, ids: bytes) -> Batch:
        """Remove the first pods `ids` of the head; return the head. An empty head
        leaves the queue.
        """
        if self.extender_call is not None:
            return self._pop_call(attempt, ids)
        batch = self.head()
        count = len(ids) >> 3
        stop = batch.start + count
        same = (
            count > 0
            and batch.attempt == attempt
            and batch.ids[batch.start : stop].tobytes() == ids
        )
        assert same, (
            f"attempt {attempt} answered out of turn: the head is attempt {batch.attempt} "
            f"(sig {batch.sig}) with {len(batch.left())} pods left"
        )
        batch.start = stop
        if stop == len(batch.ids):
            self._first().remove(batch)
        return batch

    def _pop_call(self, attempt: AttemptId, ids: bytes) -> Batch:
        assert self.extender_call is not None
        batch, self.extender_call = self.extender_call.work, None
        same = batch.attempt == attempt and batch.ids.tobytes() == ids
        assert same, f"attempt {attempt} answered while extenders judge one of {batch.attempt}"
        return batch

    def drop(self, ids: I64) -> None:
        """Remove pods wherever they wait."""
        dropped = np.sort(ids)
        self.batches = deque(batch for batch in self.batches if _without(batch, dropped))
        if self.waiting:
            self.waiting = deque(batch for batch in self.waiting if _without(batch, dropped))
        if self.turn is not None:
            kept = [batch for batch in self.turn.batches if _without(batch, dropped)]
            self.turn.batches = deque(kept)
        if self.extender_call is not None and not _without(self.extender_call.work, dropped):
            self.extender_call = None
        for sig, waiting in sorted(self.unknown.items()):
            left = [one for one in waiting if isinstance(one, Task) or _without(one, dropped)]
            if left:
                self.unknown[sig] = left
            else:
                del self.unknown[sig]

    def void(self, gang: GangId, attempt: AttemptId) -> None:
        """Void the tasks of a released attempt, so that they are refused."""
        for task in self._all_tasks():
            event = task.event
            if isinstance(event, OfferAsked | HoldAsked):
                task.void = task.void or (event.gang, event.attempt) == (gang, attempt)

    def void_nomination(self, ask_id: int) -> None:
        """Void a nomination that was cleared before it was made: the answer is stale."""
        for task in self._all_tasks():
            if isinstance(task.event, NominateAsked) and task.event.ask == ask_id:
                task.void = True
            if isinstance(task.event, GangNominateAsked):
                task.void |= any(one.ask == ask_id for one in task.event.nominees)

    def queued(self) -> Iterator[I64]:
        """Yield the pods of each waiting dispatch."""
        if self.extender_call is not None:
            yield self.extender_call.work.left()
        for batch in (*self.batches, *self.waiting, *self._in_turn()):
            yield batch.left()
        for _sig, waiting in sorted(self.unknown.items()):
            yield from (one.left() for one in waiting if isinstance(one, Batch))

    def _in_turn(self) -> Iterable[Batch]:
        return () if self.turn is None else self.turn.batches

    def _all_tasks(self) -> Iterator[Task]:
        yield from self.tasks
        for _sig, waiting in sorted(self.unknown.items()):
            yield from (one for one in waiting if isinstance(one, Task))

    def dump(self) -> list[object]:
        """Return plain values, in the order of work."""
        return [
            self.arrivals,
            [_dump_batch(batch) for batch in self.batches],
            [_dump_task(task) for task in self.tasks],
            [
                [sig, [_dump_batch(o) if isinstance(o, Batch) else _dump_task(o) for o in waiting]]
                for sig, waiting in sorted(self.unknown.items())
            ],
            None if self.extender_call is None else _dump_call(self.extender_call),
            self.member_call,
            *self._dump_turns(),
        ]

    def _dump_turns(self) -> list[object]:
        if not self.waiting and self.turn is None:
            return []
        turn = None if self.turn is None else _dump_turn(self.turn)
        return [[_dump_batch(batch) for batch in self.waiting], turn]

    @classmethod
    def load(cls, saved: list[Any]) -> "WorkQueue":
        """Restore what `dump` returned."""
        found = cls()
        found.arrivals, works, asks, unknown, extender_call, member_call, *turns = saved
        for one in works:
            found.add(_load_work(one))
        found.tasks.extend(_load_ask(one) for one in asks)
        for sig, waiting in unknown:
            found.unknown[sig] = [
                _load_work(one) if one[0] == "work" else _load_ask(one) for one in waiting
            ]
        found.extender_call = None if extender_call is None else _load_call(extender_call)
        found.member_call = msgspec.convert(member_call, ExtendersAsked | None)
        if turns:
            waiting, turn = turns
            found.waiting.extend(_load_work(one) for one in waiting)
            found.turn = None if turn is None else _load_turn(turn)
        return found


def _without(batch: Batch, dropped: I64) -> bool:
    """Remove sorted ids from a dispatch; return False if none is left."""
    left = batch.left()
    at = np.searchsorted(dropped, left)
    hit = dropped[np.minimum(at, len(dropped) - 1)] == left
    if hit.any():
        batch.ids, batch.start = left[~hit], 0
    return len(batch.ids) > batch.start


def _dump_batch(batch: Batch) -> list[object]:
    """Return plain values of one dispatch."""
    fields = [
        batch.attempt,
        batch.sig,
        pack(batch.left()),
        batch.urgent,
        batch.priority,
        batch.order,
    ]
    standing = [batch.claims, batch.borrows] if batch.claims or batch.borrows else []
    return ["work", *fields, *standing]


def _dump_task(task: Task) -> list[object]:
    """Return plain values of one task."""
    return ["ask", task.event, task.void]


def _dump_turn(turn: Turn) -> list[object]:
    """Return plain values of a turn."""
    batches = [_dump_batch(batch) for batch in turn.batches]
    return [turn.number, sorted(turn.sigs), turn.moved, batches]


def _load_turn(body: list[Any]) -> Turn:
    number, sigs, moved, batches = body
    turn = Turn(number, frozenset(sigs), moved)
    turn.batches.extend(_load_work(one) for one in batches)
    return turn


def _dump_call(call: ExtenderCall) -> list[object]:
    """Return plain values of one extender call."""
    return [call.asked, _dump_batch(call.work), call.answer]


def _load_call(body: list[Any]) -> ExtenderCall:
    """Restore what `dump_call` returned."""
    asked, work, answer = body
    answered = None if answer is None else msgspec.convert(answer, ExtendersAnswered)
    return ExtenderCall(msgspec.convert(asked, ExtendersAsked), _load_work(work), answered)


def _load_work(body: list[Any]) -> Batch:
    _tag, attempt, sig, ids, urgent, priority, order, *standing = body
    return Batch(attempt, sig, unpack(ids), urgent, priority, order, *standing)


def _load_ask(body: list[Any]) -> Task:
    _tag, event, void = body
    return Task(msgspec.convert(event, TaskEvent), void)
