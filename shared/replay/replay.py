"""Replays one journal: folds it, checks it at every snapshot, and decides every record again.

Re-deciding gives a record's inputs, time and configuration to the core's decide and compares the
result with the recorded events, byte by byte first. A difference is reported with its position and
ends the replay of that journal: from there on the two states differ.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic

from shared.events.base import Event
from shared.machine.core import Core, S, step
from shared.machine.fold import (
    SNAPSHOT_VERSION,
    Folded,
    InputFeed,
    own_records,
    restore_newest,
    state_hash,
)
from shared.machine.reader import JournalGap
from shared.machine.record import (
    Consumed,
    Record,
    RecordUnreadable,
    SnapshotNote,
    own_events,
    slice_events,
)
from shared.model.ids import START, JournalName, Position
from shared.ports.bus import Bus, BusCorrupt, CutAway
from shared.ports.snapshots import SnapshotBad, SnapshotStore
from shared.replay.start_points import beginnings

Inputs = list[tuple[Consumed, list[tuple[Position, Record]]]]
SHOWN_CHARACTERS = 400  # of an event: the columns of a large batch would fill the screen
UNUSABLE = (RecordUnreadable, JournalGap, CutAway, BusCorrupt)


@dataclass(frozen=True)
class Divergence:
    """A record that the core decides differently now. `index` counts the record's events; None
    means no such event. `failure`: the error that decide raised instead.
    """

    position: Position
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
    """The result of replaying one journal. `problems` are (position, text), in order; the position
    is that of the own record at which it showed. `unreadable`: an error in this journal or another,
    so that the rest is unknown. `reached`: it ended at the `stop` snapshot, with its state.
    """

    journal: JournalName
    start: Position = START
    stop: Position = START
    records: int = 0
    voids: int = 0
    events: int = 0
    snapshots: int = 0
    reached: bool = False
    divergence: Divergence | None = None
    unreadable: str = ""
    problems: list[tuple[Position, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return whether the journal equals what its core decides from its inputs."""
        return not self.problems

    def lines(self) -> list[str]:
        """Return the problems with their positions, one per line."""
        problems = [(f"{self.journal} at {position}: ", text) for position, text in self.problems]
        # An unreadable record's error has its own position.
        return [text if text.startswith(where) else where + text for where, text in problems]


async def replay(
    core_factory: Callable[[], Core[Any]],
    bus: Bus,
    store: SnapshotStore,
    start: Position | None = None,
    redecide: bool = True,
    stop: Position | None = None,
) -> ReplayReport:
    """Replay the core's journal from its beginning, or from the snapshot at `start`; to its end, or
    until the record with the hash of the snapshot at `stop`.

    A journal whose beginning was cut is replayed from its oldest snapshot. `redecide` False only
    folds, which checks the snapshots but not the decisions.
    """
    run = _Replay(core_factory(), bus, store)
    await run.restore(start)
    if run.report.ok:
        await run.follow(redecide, stop)
    return run.report


class _Replay(Generic[S]):
    """One running replay."""

    def __init__(self, core: Core[S], bus: Bus, store: SnapshotStore) -> None:
        self.bus, self.store = bus, store
        self.folded: Folded[S] = Folded(core)
        self.report = ReplayReport(core.journal)

    async def restore(self, start: Position | None) -> None:
        """Restore the state at which the replay begins."""
        if start is None:
            core = self.folded.core
            possible = await beginnings(self.bus, self.store, core.journal, core.sources)
            if not possible:
                text = "its beginning or its inputs' is cut away and no snapshot covers that"
                self.report.problems.append((START, text))
                return
            start = possible[0]
        if not start:
            return
        bad = restore_newest(self.folded, self.store, start)
        if self.folded.own_reader.next != start:
            text = bad[0] if bad else "there is no snapshot"
            self.report.problems.append((start, text))
        self.report.start = start

    async def follow(self, redecide: bool, stop: Position | None) -> None:
        """Replay record by record to the end, or to the first difference."""
        reader, report = self.folded.own_reader, self.report
        feed = InputFeed(self.bus, self.folded.state)
        position = reader.next
        try:
            async for position, record in self._records():
                note = record.snapshot
                if note is not None:
                    is_comparable = note.version == SNAPSHOT_VERSION
                    if is_comparable:
                        self._check_hash(position, record)
                    if note.position == stop:
                        report.stop, report.reached = stop, True
                        return  # the piece that begins at that snapshot counts what follows it
                    report.snapshots += is_comparable
                report.records += 1
                inputs = await feed.inputs(record)
                if redecide and record.claim is None:
                    report.divergence = self._decide_again(position, record, inputs)
                    if report.divergence is not None:
                        report.problems.append((position, str(report.divergence)))
                        break
                else:
                    self.folded.apply(record, inputs)
                report.voids = reader.voids
        except UNUSABLE as error:
            report.unreadable = str(error)
            report.problems.append((max(position, reader.next), report.unreadable))
        report.stop, report.voids = reader.next, reader.voids

    def _records(self) -> AsyncIterator[tuple[Position, Record]]:
        return own_records(self.folded, self.bus)

    def _check_hash(self, position: Position, record: Record) -> None:
        """Check that the state before this record has the recorded hash of a snapshot."""
        note = record.snapshot
        assert note is not None
        body = self.folded.body((note.position, record.term, record.seq - 1))
        if state_hash(body) == note.state_hash or self._as_we_write_it(note) == body:
            return
        text = f"the state below {note.position} is not the one of the snapshot made there"
        self.report.problems.append((position, text))

    def _as_we_write_it(self, note: SnapshotNote) -> bytes:
        """Return the body of that snapshot, re-encoded, as another version may have written it
        differently; empty if it is not kept or unreadable.
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

    def _decide_again(
        self, position: Position, record: Record, inputs: Inputs
    ) -> Divergence | None:
        """Decide the step again; return None if it equals the record."""
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
        self, position: Position, record: Record, events: list[Event], failure: str = ""
    ) -> Divergence | None:
        """Return the first event that differs from the recorded one."""
        recorded = own_events(record, self.report.journal, position)
        for index in range(max(len(recorded), len(events))):
            was = recorded[index] if index < len(recorded) else None
            now = events[index] if index < len(events) else None
            if was != now:
                return Divergence(position, index, was, now, failure)
        return Divergence(position, 0, None, None, failure) if failure else None
