"""Checks gangs: at least minCount members or none, committed once, each from a real hold."""

from dataclasses import dataclass, field

from muster.checker.inputs.journals import Journal, Problem, Step
from shared.events.base import Event
from shared.events.ingest import PodsGone
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut, HoldAsked
from shared.events.placement import GangHeld
from shared.events.queueing import GangDispatched
from shared.model.columns import unpack


@dataclass
class Gangs:
    """Attempts, holds and outcomes in permit's journal, with the violations found."""

    tries: dict[tuple[int, int], GangDispatched] = field(default_factory=dict)
    held: dict[tuple[int, int], dict[int, int]] = field(default_factory=dict)
    ended: dict[tuple[int, int], str] = field(default_factory=dict)
    committed: dict[int, dict[int, int]] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    asked: set[tuple[int, int]] = field(default_factory=set)
    in_turns: set[int] = field(default_factory=set)  # attempts
    problems: list[Problem] = field(default_factory=list)

    def blame(self, rule: str, position: int, text: str) -> None:
        """Add a violation."""
        self.problems.append((rule, f"permit/0 at {position}: {text}"))


def replay(journal: Journal) -> Gangs:
    """Replay permit's whole journal."""
    books = Gangs()
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            _consume(books, event, step)
        for event in step.own:
            _decide(books, event, step)
    return books


def _consume(books: Gangs, event: Event, step: Step) -> None:
    match event:
        case GangDispatched():
            key = (event.gang, event.attempt)
            if key in books.tries:
                books.blame("one-attempt", step.position, f"gang {key} dispatched twice")
            books.tries[key] = event
            _check_members(books, event, step)
        case GangHeld():
            columns = zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True)
            held = books.held.setdefault((event.gang, event.attempt), {})
            for pod, node in columns:
                if pod in held:
                    books.blame("gang-held-once", step.position, f"pod {pod} is held twice")
                held[pod] = node
        case PodsGone():
            books.gone.update(unpack(event.ids).tolist())
        case _:
            pass


def _check_members(books: Gangs, event: GangDispatched, step: Step) -> None:
    pods = [pod for part in event.members for pod in unpack(part.ids).tolist()]
    if len(pods) != len(set(pods)):
        books.blame("gang-members", step.position, f"gang {event.gang}: a member counted twice")
    if len(set(pods)) < event.min_count:
        books.blame(
            "gang-members", step.position, f"gang {event.gang} sent with {len(set(pods))} members"
        )


def _decide(books: Gangs, event: Event, step: Step) -> None:
    match event:
        case HoldAsked():
            key = (event.gang, event.attempt)
            books.asked.add(key)
            if event.turn:
                books.in_turns.add(event.attempt)
            if key in books.ended:
                books.blame("one-outcome", step.position, f"gang {key}: hold after its end")
        case GangCommitted():
            _commit(books, event, step)
        case GangReleased():
            _end(books, event.gang, event.attempt, "released", step)
        case GangTimedOut():
            _end(books, event.gang, event.attempt, "timed out", step)
        case _:
            pass


def _end(books: Gangs, gang: int, attempt: int, how: str, step: Step) -> None:
    before = books.ended.get((gang, attempt))
    if before == "committed" or (before is not None and how == "committed"):
        books.blame(
            "one-outcome", step.position, f"gang {gang} attempt {attempt}: {how} after {before}"
        )
    books.ended[(gang, attempt)] = how


def _commit(books: Gangs, event: GangCommitted, step: Step) -> None:
    key = (event.gang, event.attempt)
    _end(books, event.gang, event.attempt, "committed", step)
    wanted, held = books.tries.get(key), books.held.get(key, {})
    columns = list(zip(unpack(event.ids).tolist(), unpack(event.nodes).tolist(), strict=True))
    distinct = {pod for pod, _node in columns}
    if wanted is None or len(distinct) < wanted.min_count:
        books.blame(
            "gang-whole", step.position, f"gang {event.gang} committed with {len(distinct)} pods"
        )
    if wanted is not None:
        _check_parts(books, wanted, distinct, step)
        _check_growth(books, wanted, distinct, step)
    for pod, node in columns:
        if held.get(pod) != node:
            books.blame("gang-held", step.position, f"gang {event.gang}: pod {pod} is not held")
        if pod in books.gone:
            books.blame("gang-whole", step.position, f"gang {event.gang}: pod {pod} was gone")
    leaf_of: dict[int, int] = {}
    if wanted is not None and wanted.tree:
        for leaf, part in zip(wanted.leaves, wanted.members, strict=True):
            leaf_of.update(dict.fromkeys(unpack(part.ids).tolist(), leaf))
    for pod, node in columns:
        books.committed.setdefault(leaf_of.get(pod, event.gang), {})[pod] = node


def _check_parts(books: Gangs, wanted: GangDispatched, pods: set[int], step: Step) -> None:
    """Add a violation for each part of the gang of which too few members start."""
    for one in wanted.minimums:
        parts = [unpack(part.ids).tolist() for part in wanted.members if part.sig in one.sigs]
        count = sum(pod in pods for ids in parts for pod in ids)
        if count < one.least:
            text = f"gang {wanted.gang} committed with {count} of {one.least} members of a part"
            books.blame("gang-parts", step.position, text)


def _check_growth(books: Gangs, wanted: GangDispatched, pods: set[int], step: Step) -> None:
    """Add a violation for members above minCount that start although others wait for theirs. Those
    that are held in turns start as they were held; parts may need more.
    """
    if not wanted.minimum_only or wanted.minimums or wanted.attempt in books.in_turns:
        return
    most = max(1, wanted.min_count) + len(books.gone.intersection(unpack(wanted.placed).tolist()))
    if len(pods) > most:
        text = f"gang {wanted.gang} committed with {len(pods)} pods, not {most}: others wait"
        books.blame("minimums-first", step.position, text)


def at_rest(books: Gangs) -> None:
    """Add a violation for every attempt without an end."""
    for key in sorted(set(books.tries) - set(books.ended)):
        books.blame("one-outcome", -1, f"gang {key[0]} attempt {key[1]} never ended")
