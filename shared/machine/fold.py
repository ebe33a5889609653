"""Folding a journal: how an owner recovers, and how a replay reaches any position.

A record first applies, by reference, the input events it consumed (at the times of the turns that
consumed them), then what it received, then its own events. Folding never decides. It starts from
the newest readable snapshot, else the one before, else the journal's start.
"""

import hashlib
from collections.abc import AsyncIterator
from typing import Any, Generic

import msgspec

from shared.events.base import Configured
from shared.machine.core import Core, Cursor, MachineState, S
from shared.machine.reader import LOST, Reader
from shared.machine.record import (
    Consumed,
    Record,
    RecordUnreadable,
    events_for,
    own_events,
    received_of,
)
from shared.model.ids import START, JournalName, Position
from shared.ports.bus import Bus
from shared.ports.snapshots import SnapshotBad, SnapshotMeta, SnapshotStore

SNAPSHOT_VERSION = 4
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError)
"""The errors of a core's `load` for a dump of a later version."""
Inputs = list[tuple[Consumed, list[tuple[Position, Record]]]]
"""The inputs of a record: the valid records of each consumed range, with their positions."""


class NeedsReset(Exception):
    """The journal cannot be folded: its start was cut and no snapshot is usable."""


class _Body(msgspec.Struct, frozen=True):
    """The content of a snapshot: the machine's part and the core's dump."""

    position: Position
    term: int
    seq: int
    now_ms: int
    cursors: dict[JournalName, tuple[Position, int]]
    core: Any


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(_Body)


class Folded(Generic[S]):
    """A state, and the journal position of which it is the fold."""

    def __init__(self, core: Core[S]) -> None:
        """Create the empty fold, at the journal's start."""
        self.core = core
        self.state: S = core.new()
        self.own_reader = Reader(core.journal, Cursor())

    def apply(self, record: Record, inputs: Inputs) -> None:
        """Apply the valid own record that was read last."""
        self.apply_causes(record, inputs)
        for event in own_events(record, self.core.journal, Position(self.own_reader.next - 1)):
            self.core.evolve(self.state, event)

    def apply_causes(self, record: Record, inputs: Inputs) -> None:
        """Apply the inputs of the record's own events, but not the events."""
        apply_inputs(self.core, self.state, inputs, record.time_ms)
        if record.claim is not None:
            self.core.evolve(self.state, Configured(record.claim.config))
        for event in received_of(record, self.core.journal, Position(self.own_reader.next - 1)):
            self.core.evolve(self.state, event)

    def body(self, own_position: tuple[Position, int, int] | None = None) -> bytes:
        """Return the snapshot body: canonical bytes of the whole state. `own_position`: the
        position, term and sequence number of the state, if the reader has advanced without changing
        it.
        """
        state = self.state
        cursors = {name: (at.next, at.term) for name, at in state.cursors.items()}
        position, term, seq = own_position or (
            self.own_reader.next,
            self.own_reader.term,
            self.own_reader.seq,
        )
        return _encoder.encode(
            _Body(position, term, seq, state.now_ms, cursors, self.core.dump(state))
        )

    def restore(self, body: bytes) -> None:
        """Restore what `body` returned. Raises SnapshotBad if it is unreadable."""
        try:
            saved = _decoder.decode(body)
            state = self.core.load(saved.core)
        except _UNREADABLE as error:
            raise SnapshotBad(f"{self.core.journal}: cannot be read: {error}") from error
        self.state = state
        self.state.now_ms = saved.now_ms
        self.state.cursors = {
            name: Cursor(*saved.cursors.get(name, (START, -1))) for name in self.core.sources
        }
        self.own_reader = Reader(self.core.journal, Cursor(saved.position, saved.term), saved.seq)


def state_hash(body: bytes) -> str:
    """Return the hash that snapshots and replays compare."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def begin_step(state: MachineState, now_ms: int) -> None:
    """Set the step's time; it never runs backwards within a journal."""
    state.now_ms = max(state.now_ms, now_ms)


def apply_inputs(core: Core[S], state: S, inputs: Inputs, now_ms: int) -> int:
    """Apply consumed records in order, each range at its time, and set the step's time; return the
    number of events for this reader.
    """
    count = 0
    for consumed, records in inputs:
        begin_step(state, now_ms if consumed.time_ms < 0 else consumed.time_ms)
        cursor = state.cursors[consumed.journal]
        for position, record in records:
            cursor.next = Position(position + 1)
            cursor.term = position if record.claim is not None else record.term
            for event in events_for(record, consumed.journal, position, core.journal):
                core.evolve(state, event)
                count += 1
        cursor.next = consumed.stop
    begin_step(state, now_ms)
    return count


class InputFeed:
    """Reads consumed ranges of the source journals again, in order, a buffer at a time."""

    def __init__(self, bus: Bus, state: MachineState) -> None:
        """Start at the state's cursors."""
        self._bus = bus
        self._readers = {name: Reader(name, at) for name, at in state.cursors.items()}
        self._ahead: dict[str, list[tuple[Position, bytes]]] = {name: [] for name in state.cursors}

    async def read(self, consumed: Consumed) -> list[tuple[Position, Record]]:
        """Return the valid records of one consumed range. Raises RecordUnreadable if it is not
        complete.
        """
        reader = self._readers[consumed.journal]
        if consumed.start != reader.next:
            raise RecordUnreadable(
                f"{consumed.journal}: consumed from {consumed.start}, cursor is at {reader.next}"
            )
        found: list[tuple[Position, Record]] = []
        while reader.next < consumed.stop:
            ahead = self._ahead[consumed.journal]
            if not ahead:
                ahead = await self._bus.read(consumed.journal, reader.next)
                if not ahead:
                    reached = f"ends at {reader.next}, but went up to {consumed.stop}"
                    raise RecordUnreadable(f"{consumed.journal}: {reached} {LOST}")
                ahead.reverse()
                self._ahead[consumed.journal] = ahead
            position, payload = ahead.pop()
            record = reader.accept(position, payload)
            if record is not None:
                found.append((position, record))
        return found

    async def inputs(self, record: Record) -> Inputs:
        """Return all inputs of one own record."""
        return [(part, await self.read(part)) for part in record.consumed]


def restore_newest(
    folded: Folded[S], store: SnapshotStore, below: Position | None = None
) -> list[str]:
    """Restore the newest usable snapshot (at a position <= `below`); return the errors of newer
    ones, and of snapshots that are not listed.
    """
    bad = store.damaged(folded.core.journal)
    for meta in store.list(folded.core.journal):
        if below is not None and meta.position > below:
            continue
        try:
            _restore(folded, store, meta)
            return bad
        except SnapshotBad as error:
            bad.append(str(error))
    return bad


def _restore(folded: Folded[S], store: SnapshotStore, meta: SnapshotMeta) -> None:
    where = f"{meta.journal} at {meta.position}"
    if meta.version != SNAPSHOT_VERSION:
        raise SnapshotBad(f"{where}: snapshot version {meta.version}")
    body = store.load(meta.journal, meta.position)
    if state_hash(body) != meta.state_hash:
        raise SnapshotBad(f"{where}: snapshot does not match its hash")
    folded.restore(body)


async def own_records(
    folded: Folded[S], bus: Bus, stop: Position | None = None
) -> AsyncIterator[tuple[Position, Record]]:
    """Yield the valid records of the own journal from the fold's position up to `stop` (or the
    end).
    """
    journal = folded.core.journal
    first, end = await bus.bounds(journal)
    stop = end if stop is None else stop
    folded.own_reader.check_end(end)
    if folded.own_reader.next < first:
        raise NeedsReset(
            f"{journal}: records below {first} are cut away and no snapshot covers them; "
            "run 'muster reset'"
        )
    while folded.own_reader.next < stop:
        batch = await bus.read(journal, folded.own_reader.next)
        if not batch:
            raise RecordUnreadable(f"{journal}: ends at {folded.own_reader.next}, expected {stop}")
        for position, payload in batch:
            if position >= stop:
                return
            record = folded.own_reader.accept(position, payload)
            if record is not None:
                yield position, record


async def fold(
    core: Core[S], bus: Bus, store: SnapshotStore, stop: Position | None = None
) -> tuple[Folded[S], list[str]]:
    """Return the state below `stop` (default: the journal's end), and the unusable snapshots."""
    folded = Folded(core)
    bad = restore_newest(folded, store, stop)
    try:
        await fold_on(folded, bus, stop)
    except NeedsReset as error:
        if bad:
            raise NeedsReset(f"{error}; what is wrong with them: {'; '.join(bad)}") from error
        raise
    return folded, bad


async def fold_on(folded: Folded[S], bus: Bus, stop: Position | None = None) -> None:
    """Fold the records since then, below `stop` (default: the journal's end)."""
    feed = InputFeed(bus, folded.state)
    async for _position, record in own_records(folded, bus, stop):
        folded.apply(record, await feed.inputs(record))
