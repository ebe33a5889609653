"""The machine's rules as a small model, explored in every interleaving, loss and crash.

Two owners contend for one journal and read another (which holds a void record itself). Appends may
land and be acknowledged, land unacknowledged, be lost, or land late. Every reachable state is
checked; then each rule is dropped in turn, and a violation must be found: rules that could be
dropped without one would not be rules.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import pytest

Rule = Literal[
    "none",
    "readers skip void records",
    "the own fold skips void records",
    "the position is checked",
    "a failed append is followed by a fresh claim",
    "cursors are in the record",
    "effects wait for the acknowledgement",
    "snapshots are of acknowledged state",
    "a claim folds everything before it",
    "a claim that others came before folds again",
]

CLAIM, VALUE = 0, 1
SOURCE = ((CLAIM, -1, "-"), (VALUE, 0, "a"), (CLAIM, -1, "-"), (VALUE, 0, "void"), (VALUE, 2, "b"))
TRUTH = ("a", "b")


class Entry(NamedTuple):
    """A record of the contended journal: a claim, or a step that consumed the source up to `to`."""

    kind: int
    owner: int
    term: int
    to: int
    value: str


class Owner(NamedTuple):
    """The memory of one process."""

    phase: Literal["off", "claiming", "running", "appending"] = "off"
    term: int = -1
    next: int = 0
    cursor: int = 0
    folded: tuple[str, ...] = ()
    pending: Entry | None = None


class State(NamedTuple):
    """Everything: the journal, appends that may land late, owners, snapshots, effects shown."""

    journal: tuple[Entry, ...]
    late: tuple[Entry, ...]
    owners: tuple[Owner, ...]
    snapshot: tuple[int, int, tuple[str, ...]] | None
    shown: frozenset[Entry]
    claims: int


def read_source(cursor: int, rule: Rule) -> tuple[int, str] | None:
    """Return the next valid value at or after the cursor, and the cursor after it."""
    term = -1
    for position, (kind, of, value) in enumerate(SOURCE):
        if kind == CLAIM:
            term = position
        elif position >= cursor and (of == term or rule == "readers skip void records"):
            return position + 1, value
    return None


def fold(journal: tuple[Entry, ...], rule: Rule, start: int = 0) -> Iterator[Entry]:
    """Yield the valid steps of the journal."""
    term = -1
    for position, entry in enumerate(journal):
        if entry.kind == CLAIM:
            term = position
        elif (entry.term == term or rule == "the own fold skips void records") and (
            position >= start
        ):
            yield entry


def recover(state: State, position: int, rule: Rule) -> Iterator[Owner]:
    """A new owner's memory for a claim at `position`: from a snapshot, or from the start. It folds
    before it claims, and keeps that if its claim lands just there.
    """
    journal = state.journal[:position]
    if rule == "a claim folds everything before it":
        journal = journal[:-1]
    bases: list[tuple[int, int, tuple[str, ...]]] = [(0, 0, ())]
    if state.snapshot is not None and state.snapshot[0] <= position:
        bases.append(state.snapshot)
    for base, cursor, folded in bases:
        for entry in fold(journal, rule, base):
            cursor, folded = entry.to, (*folded, entry.value)
        if rule == "cursors are in the record":
            cursor = 0
        yield Owner("running", position, position + 1, cursor, folded)


def landed(state: State, entry: Entry) -> State:
    """Return the state after an append to the present end: this bus cannot refuse."""
    return state._replace(journal=(*state.journal, entry))


def put(state: State, which: int, owner: Owner) -> State:
    """Return the state with one owner replaced."""
    owners = list(state.owners)
    owners[which] = owner
    return state._replace(owners=tuple(owners))


def acknowledged(state: State, which: int, position: int, rule: Rule) -> Iterator[State]:
    """Yield the states after the bus answered with a position."""
    owner = state.owners[which]
    entry = owner.pending
    assert entry is not None
    if entry.kind == CLAIM:
        looked = owner._replace(phase="running", term=position, next=position + 1, pending=None)
        if position == owner.term or rule == "a claim that others came before folds again":
            yield put(state, which, looked)
        else:
            yield from (put(state, which, new) for new in recover(state, position, rule))
        return
    between = state.journal[owner.next : position]
    if rule != "the position is checked" and any(e.kind == CLAIM for e in between):
        yield put(state, which, Owner())
        return
    after = owner._replace(
        phase="running",
        next=position + 1,
        cursor=entry.to,
        folded=(*owner.folded, entry.value),
        pending=None,
    )
    yield put(state, which, after)._replace(shown=state.shown | {entry})


def unknown(state: State, which: int, rule: Rule) -> State:
    """Return the state after a failed append: the memory is dropped, unless that rule is off."""
    owner = state.owners[which]
    if rule == "a failed append is followed by a fresh claim" and owner.phase == "appending":
        return put(state, which, owner._replace(phase="running", pending=None))
    return put(state, which, Owner())


def resolve(state: State, which: int, rule: Rule) -> Iterator[State]:
    """Yield every end of an append in flight; a crash is among the unknown ones."""
    entry = state.owners[which].pending
    assert entry is not None
    done = landed(state, entry)
    yield from acknowledged(done, which, len(state.journal), rule)
    yield unknown(done, which, rule)
    yield unknown(state, which, rule)
    if len(state.late) < 1:
        yield unknown(state._replace(late=(*state.late, entry)), which, rule)


def run(state: State, which: int, rule: Rule) -> Iterator[State]:
    """Yield the states after a running owner consumes and sends, takes a snapshot, or crashes."""
    owner = state.owners[which]
    found = read_source(owner.cursor, rule)
    if found is not None:
        entry = Entry(VALUE, which, owner.term, found[0], found[1])
        sent = put(state, which, owner._replace(phase="appending", pending=entry))
        if rule == "effects wait for the acknowledgement":
            sent = sent._replace(shown=sent.shown | {entry})
        if rule == "snapshots are of acknowledged state":
            sent = sent._replace(snapshot=(owner.next, found[0], (*owner.folded, found[1])))
        yield sent
    yield state._replace(snapshot=(owner.next, owner.cursor, owner.folded))
    yield put(state, which, Owner())


def successors(state: State, rule: Rule) -> Iterator[State]:
    """Yield the states after every possible step."""
    for entry in state.late:
        yield landed(state._replace(late=()), entry)
    for which, owner in enumerate(state.owners):
        if owner.phase == "off" and state.claims:
            claim = Entry(CLAIM, which, -1, 0, "-")
            for looked in recover(state, len(state.journal), rule):
                claiming = looked._replace(phase="claiming", pending=claim)
                yield put(state, which, claiming)._replace(claims=state.claims - 1)
        elif owner.pending is not None:
            yield from resolve(state, which, rule)
        elif owner.phase == "running":
            yield from run(state, which, rule)


def broken(state: State) -> str | None:
    """Return the property that a state violates, by the true rules, whatever rules the owners
    follow.
    """
    valid = list(fold(state.journal, "none"))
    values = tuple(entry.value for entry in valid)
    if values != TRUTH[: len(values)]:
        return f"consumed {values}: not each valid input exactly once, in order"
    unseen = [entry for entry in state.shown if entry not in valid]
    if unseen:
        return f"effect of {unseen[0]} was shown, but no valid record demands it"
    for owner in state.owners:
        in_force = [p for p, e in enumerate(state.journal) if e.kind == CLAIM][-1:]
        if owner.phase == "running" and [owner.term] == in_force and owner.folded != values:
            return f"owner holds {owner.folded}, its journal says {values}"
    return None


def explore(rule: Rule, claims: int) -> tuple[int, str | None]:
    """Return the number of reachable states, and the first violation."""
    start = State((), (), (Owner(), Owner()), None, frozenset(), claims)
    seen, stack = {start}, [start]
    while stack:
        state = stack.pop()
        problem = broken(state)
        if problem is not None:
            return len(seen), problem
        for following in successors(state, rule):
            if following not in seen and len(following.journal) <= 5:
                seen.add(following)
                stack.append(following)
    return len(seen), None


def test_every_interleaving_of_two_owners_keeps_exactly_once_and_fencing() -> None:
    states, problem = explore("none", claims=3)
    assert problem is None
    assert states > 5_000, "the model does not reach what it should"


@pytest.mark.parametrize(
    "rule",
    [
        "readers skip void records",
        "the own fold skips void records",
        "the position is checked",
        "a failed append is followed by a fresh claim",
        "cursors are in the record",
        "effects wait for the acknowledgement",
        "snapshots are of acknowledged state",
        "a claim folds everything before it",
        "a claim that others came before folds again",
    ],
)
def test_each_rule_is_needed(rule: Rule) -> None:
    _states, problem = explore(rule, claims=3)
    assert problem is not None, f"no violation without: {rule}"
