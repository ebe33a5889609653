"""Replaying one journal: fold it, check it at every snapshot, and decide every record again.

Re-deciding feeds a record's inputs, time and configuration to the core's decide and compares what
it says with what was recorded, byte by byte first. What differs is reported with its position and
ends the replay of that journal: from there on the two states are not the same. It reads only.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic

from shared.events.base import Event
from shared.machine.core import Core, S, step
from shared.machine.fold import Folded, InputFeed, own_records, restore_newest, state_hash
from shared.machine.reader import JournalGap
from shared.machine.record import (
    Consumed,
    Record,
    RecordUnreadable,
    SnapshotNote,
    own_events,
    slice_events,
)
from shared.ports.bus import Bus, BusCorrupt, CutAway
from shared.ports.snapshots import SnapshotBad, SnapshotStore
from shared.replay.start_points import beginnings

Inputs = list[tuple[Consumed, list[tuple[int, Record]]]]
SHOWN_CHARACTERS = 400  # of an event: the columns of a big batch would fill the screen
UNUSABLE = (RecordUnreadable, JournalGap, CutAway, BusCorrupt)


@dataclass(frozen=True)
class Divergence:
    """A record that the core decides differently now. `index` counts the record's events; None
    stands for no such event. `failure` is what decide raised instead, if it did.
    """

    position: int
    index: int
    recorded: Event | None
    decided: Event | None
    failure: str = ""

    def __str__(self) -> str:
        now = self.failure or _shown(self.decided)
        return f"event {self.index}: recorded {_shown(self.recorded)}, decided now {now}"


def _shown(event: Event | None) -> str:
    text = str(event)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


@dataclass
class ReplayReport:
    """What the replay of one journal came to. `problems` are (position, text), in order; the
    position is that of the own record at which it showed. `unreadable`: what could not be read, of
    this journal or of another, so that the rest is not known. `reached`: it ended at the snapshot
    at which it was to end, and its state is that snapshot's.
    """

    journal: str
    start: int = 0
    stop: int = 0
    records: int = 0
    voids: int = 0
    events: int = 0
    snapshots: int = 0
    reached: bool = False
    divergence: Divergence | None = None
    unreadable: str = ""
    problems: list[tuple[int, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the journal is what its core makes of its inputs."""
        return not self.problems

    def lines(self) -> list[str]:
        """The problems, one a line, with their positions."""
        own = [(f"{self.journal} at {position}: ", text) for position, text in self.problems]
        # What cannot be read says itself where it is.
        return [text if text.startswith(where) else where + text for where, text in own]


async def replay(
    core_factory: Callable[[], Core[Any]],
    bus: Bus,
    store: SnapshotStore,
    start: int | None = None,
    redecide: bool = True,
    stop: int | None = None,
) -> ReplayReport:
    """Replay the core's journal from its beginning, or from the snapshot at `start`; to its end, or
    until the record that says what the snapshot at `stop` was of.

    A journal whose beginning is cut away is replayed from its oldest snapshot. `redecide` False
    folds only, which checks the snapshots and not the decisions.
    """
    run = _Replay(core_factory(), bus, store)
    await run.restore(start)
    if run.report.ok:
        await run.follow(redecide, stop)
    return run.report


class _Replay(Generic[S]):
    """One replay under way."""

    def __init__(self, core: Core[S], bus: Bus, store: SnapshotStore) -> None:
        self.bus, self.store = bus, store
        self.folded: Folded[S] = Folded(core)
        self.report = ReplayReport(core.journal)

    async def restore(self, start: int | None) -> None:
        """Get to where the replay begins."""
        if start is None:
            core = self.folded.core
            possible = await beginnings(self.bus, self.store, core.journal, core.sources)
            if not possible:
                text = "its beginning or its inputs' is cut away and no snapshot covers that"
                self.report.problems.append((0, text))
                return
            start = possible[0]
        if not start:
            return
        bad = restore_newest(self.folded, self.store, start)
        if self.folded.own.next != start:
            text = bad[0] if bad else "there is no snapshot"
            self.report.problems.append((start, text))
        self.report.start = start

    async def follow(self, redecide: bool, stop: int | None) -> None:
        """Record by record to the end, or to the first record that is not as it should be."""
        own, report = self.folded.own, self.report
        feed = InputFeed(self.bus, self.folded.state)
        position = own.next
        try:
            async for position, record in self._records():
                if record.snapshot is not None:
                    self._check_hash(position, record)
                    if record.snapshot.position == stop:
                        report.stop, report.reached = stop, True
                        return  # whoever begins at that snapshot counts what follows it
                    report.snapshots += 1
                report.records += 1
                inputs = await feed.inputs(record)
                if redecide and record.claim is None:
                    report.divergence = self._decide_again(position, record, inputs)
                    if report.divergence is not None:
                        report.problems.append((position, str(report.divergence)))
                        break
                else:
                    self.folded.apply(record, inputs)
                report.voids = own.voids
        except UNUSABLE as error:
            report.unreadable = str(error)
            report.problems.append((max(position, own.next), report.unreadable))
        report.stop, report.voids = own.next, own.voids

    def _records(self) -> AsyncIterator[tuple[int, Record]]:
        return own_records(self.folded, self.bus)

    def _check_hash(self, position: int, record: Record) -> None:
        """The state before this record is the one a snapshot was made of then."""
        note = record.snapshot
        assert note is not None
        body = self.folded.body((note.position, record.term, record.seq - 1))
        if state_hash(body) == note.state_hash or self._as_we_write_it(note) == body:
            return
        text = f"the state below {note.position} is not the one of the snapshot made there"
        self.report.problems.append((position, text))

    def _as_we_write_it(self, note: SnapshotNote) -> bytes:
        """The body of that snapshot, which another version may have written in another form; empty
        when it is not kept any more, or cannot be read.
        """
        try:
            body = self.store.load(self.report.journal, note.position)
            if state_hash(body) != note.state_hash:
                return b""
            kept = Folded(self.folded.core)
            kept.restore(body)
        except SnapshotBad:
            return b""
        return kept.body()

    def _decide_again(self, position: int, record: Record, inputs: Inputs) -> Divergence | None:
        """Take the step anew; None when it says what was recorded."""
        core, state = self.folded.core, self.folded.state
        self.folded.apply_causes(record, inputs)
        try:
            events = step(core, state)
        except AssertionError as error:
            return self._differs(position, record, [], f"an assertion: {error}")
        self.report.events += len(events)
        if slice_events(events) == record.slices:
            return None
        return self._differs(position, record, events)

    def _differs(
        self, position: int, record: Record, events: list[Event], failure: str = ""
    ) -> Divergence | None:
        """The first event that is not the recorded one."""
        recorded = own_events(record, self.report.journal, position)
        for index in range(max(len(recorded), len(events))):
            was = recorded[index] if index < len(recorded) else None
            now = events[index] if index < len(events) else None
            if was != now:
                return Divergence(position, index, was, now, failure)
        return Divergence(position, 0, None, None, failure) if failure else None
