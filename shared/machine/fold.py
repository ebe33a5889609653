"""Folding a journal: how an owner recovers, and how a replay gets to any position.

A record first applies, by reference, the input events it consumed (at the times of the turns that
consumed them), then what it received, then its own events. Folding never decides. It starts from
the newest snapshot that can be read, and falls back to the one before, at worst to the journal's
start.
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
from shared.ports.bus import Bus, JournalName
from shared.ports.snapshots import SnapshotBad, SnapshotMeta, SnapshotStore

SNAPSHOT_VERSION = 2
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError)
"""What a core's load comes to when a later version wrote the dump."""
Inputs = list[tuple[Consumed, list[tuple[int, Record]]]]
"""What a record consumed: the valid records of each range, with their positions."""


class NeedsReset(Exception):
    """The journal cannot be folded: its start is cut away and no snapshot is usable."""


class _Body(msgspec.Struct, frozen=True):
    """A snapshot's content: the machine's part, and the core's dump."""

    position: int
    term: int
    seq: int
    now_ms: int
    cursors: dict[str, tuple[int, int]]
    core: Any


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(_Body)


class Folded(Generic[S]):
    """A state and the position of the journal it is the fold of."""

    def __init__(self, core: Core[S]) -> None:
        """The empty fold, at the journal's start."""
        self.core = core
        self.state: S = core.new()
        self.own = Reader(core.journal, Cursor())

    def apply(self, record: Record, inputs: Inputs) -> None:
        """Apply the valid own record that was read last."""
        self.apply_causes(record, inputs)
        for event in own_events(record, self.core.journal, self.own.next - 1):
            self.core.evolve(self.state, event)

    def apply_causes(self, record: Record, inputs: Inputs) -> None:
        """Apply everything that the record's own events were decided from, and not those."""
        apply_inputs(self.core, self.state, inputs, record.time_ms)
        if record.claim is not None:
            self.core.evolve(self.state, Configured(record.claim.config))
        for event in received_of(record, self.core.journal, self.own.next - 1):
            self.core.evolve(self.state, event)

    def body(self, own: tuple[int, int, int] | None = None) -> bytes:
        """The snapshot body: canonical bytes of the whole state. `own` is the position, term and
        sequence number it was taken at, where the reader has gone on without a change of state.
        """
        state = self.state
        cursors = {name: (at.next, at.term) for name, at in state.cursors.items()}
        position, term, seq = own or (self.own.next, self.own.term, self.own.seq)
        return _encoder.encode(
            _Body(position, term, seq, state.now_ms, cursors, self.core.dump(state))
        )

    def restore(self, body: bytes) -> None:
        """Become what `body` was made of. Raises SnapshotBad when it cannot be read."""
        try:
            saved = _decoder.decode(body)
            state = self.core.load(saved.core)
        except _UNREADABLE as error:
            raise SnapshotBad(f"{self.core.journal}: cannot be read: {error}") from error
        self.state = state
        self.state.now_ms = saved.now_ms
        self.state.cursors = {
            name: Cursor(*saved.cursors.get(name, (0, -1))) for name in self.core.sources
        }
        self.own = Reader(self.core.journal, Cursor(saved.position, saved.term), saved.seq)


def state_hash(body: bytes) -> str:
    """The fingerprint that snapshots and replays compare."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def begin_step(state: MachineState, now_ms: int) -> None:
    """The step's time; it never runs backwards within a journal."""
    state.now_ms = max(state.now_ms, now_ms)


def apply_inputs(core: Core[S], state: S, inputs: Inputs, now_ms: int) -> int:
    """Apply consumed records in order, each range at its time, and come to the step's time;
    returns how many events they held for this reader.
    """
    count = 0
    for consumed, records in inputs:
        begin_step(state, now_ms if consumed.time_ms < 0 else consumed.time_ms)
        cursor = state.cursors[consumed.journal]
        for position, record in records:
            cursor.next = position + 1
            cursor.term = position if record.claim is not None else record.term
            for event in events_for(record, consumed.journal, position, core.journal):
                core.evolve(state, event)
                count += 1
        cursor.next = consumed.stop
    begin_step(state, now_ms)
    return count


class InputFeed:
    """Re-reads consumed ranges of the source journals, in order, a buffer at a time."""

    def __init__(self, bus: Bus, state: MachineState) -> None:
        """Start where the state's cursors stand."""
        self._bus = bus
        self._readers = {name: Reader(name, at) for name, at in state.cursors.items()}
        self._ahead: dict[str, list[tuple[int, bytes]]] = {name: [] for name in state.cursors}

    async def take(self, consumed: Consumed) -> list[tuple[int, Record]]:
        """The valid records of one consumed range. Raises RecordUnreadable when it is not whole."""
        reader = self._readers[consumed.journal]
        if consumed.start != reader.next:
            raise RecordUnreadable(
                f"{consumed.journal}: consumed from {consumed.start}, cursor is at {reader.next}"
            )
        found: list[tuple[int, Record]] = []
        while reader.next < consumed.stop:
            ahead = self._ahead[consumed.journal]
            if not ahead:
                ahead = await self._bus.read(JournalName(consumed.journal), reader.next)
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
        """Everything one own record consumed."""
        return [(part, await self.take(part)) for part in record.consumed]


def restore_newest(folded: Folded[S], store: SnapshotStore, below: int | None = None) -> list[str]:
    """Restore the newest usable snapshot (at a position <= `below`); returns what was wrong with
    newer ones, and with those that are not listed.
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
    folded: Folded[S], bus: Bus, stop: int | None = None
) -> AsyncIterator[tuple[int, Record]]:
    """Valid records of the own journal from the fold's position up to `stop` (or the end)."""
    journal = JournalName(folded.core.journal)
    first, end = await bus.bounds(journal)
    stop = end if stop is None else stop
    folded.own.check_end(end)
    if folded.own.next < first:
        raise NeedsReset(
            f"{journal}: records below {first} are cut away and no snapshot covers them; "
            "run 'muster reset'"
        )
    while folded.own.next < stop:
        batch = await bus.read(journal, folded.own.next)
        if not batch:
            raise RecordUnreadable(f"{journal}: ends at {folded.own.next}, expected {stop}")
        for position, payload in batch:
            if position >= stop:
                return
            record = folded.own.accept(position, payload)
            if record is not None:
                yield position, record


async def fold(
    core: Core[S], bus: Bus, store: SnapshotStore, stop: int | None = None
) -> tuple[Folded[S], list[str]]:
    """The state below `stop` (default: the journal's end), and the snapshots that were unusable."""
    folded = Folded(core)
    bad = restore_newest(folded, store, stop)
    try:
        await fold_on(folded, bus, stop)
    except NeedsReset as error:
        if bad:
            raise NeedsReset(f"{error}; what is wrong with them: {'; '.join(bad)}") from error
        raise
    return folded, bad


async def fold_on(folded: Folded[S], bus: Bus, stop: int | None = None) -> None:
    """Fold what was written since, below `stop` (default: the journal's end)."""
    feed = InputFeed(bus, folded.state)
    async for _position, record in own_records(folded, bus, stop):
        folded.apply(record, await feed.inputs(record))
