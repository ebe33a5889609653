"""The record: one atomic step of one journal, and its wire form.

A record holds the inputs a step consumed (by reference), what it received from outside (whole), and
what it decided (events, in slices by addressee). All of it is appended at once or not at all, so
processing is exactly once without transactions between journals.

Wire form: two bytes of format version, crc32 of the rest (little-endian), msgpack. The crc turns a
flipped bit into a loud halt at its position instead of a silent divergence.
"""

import zlib
from collections.abc import Sequence
from types import GenericAlias
from typing import Any

import msgspec
from msgspec import Struct

from shared.events import EVENTS, Observation
from shared.events.base import Event
from shared.model.ids import JournalName, Position, service_of

FORMAT = b"M1"
RECORD_FORMAT_VERSION = 1
"""The version in a claim: under a newer version's claim any field may have another meaning."""
NEWER = "written by a newer version; use that version to read it"


class RecordUnreadable(Exception):
    """An unusable record: flipped bits, unknown events, or a newer format."""


class Consumed(Struct, frozen=True, gc=False, array_like=True):
    """Records [start, stop) of another journal, applied at `time_ms` (-1: the record's time)."""

    journal: JournalName
    start: Position
    stop: Position
    time_ms: int = -1


class Slice(Struct, frozen=True, gc=False, array_like=True):
    """Consecutive events with the same addressees; `body` is a msgpack list of events."""

    to: tuple[str, ...]
    body: bytes


class Claim(Struct, frozen=True):
    """Ownership from this record's position on. `nonce` distinguishes two starts of one owner."""

    owner: str
    nonce: str
    version: int
    config: dict[str, Any] = {}
    epoch: int = 1


class SnapshotNote(Struct, frozen=True):
    """The hash of the folded state below `position`, checked again by every replay that writes
    snapshots of the same `version`.
    """

    position: Position
    state_hash: str
    version: int = 2  # of older records, which do not say it


class Record(Struct, frozen=True, omit_defaults=True):
    """One step. `term`: the position of its claim (-1 in the claim's own record). `seq`: counts the
    term's records from 1. `time_ms`: the step's time. `consumed` is in the order of application;
    earlier turns that decided nothing come first, with their own times.
    """

    term: int
    seq: int
    time_ms: int
    consumed: tuple[Consumed, ...] = ()
    received: bytes = b""
    slices: tuple[Slice, ...] = ()
    claim: Claim | None = None
    snapshot: SnapshotNote | None = None


_encoder = msgspec.msgpack.Encoder()
_record = msgspec.msgpack.Decoder(Record)
_received = msgspec.msgpack.Decoder(tuple[Observation, ...])
_events: dict[str, msgspec.msgpack.Decoder[Any]] = {
    name: msgspec.msgpack.Decoder(GenericAlias(tuple, (union, ...)))
    for name, union in EVENTS.items()
}


class RecordCache:
    """The last records, by their payload's address: services of one process get the same bytes, one
    after the other, and delayed ones come a few dozen records later. Bounded in number and bytes.
    """

    RECORDS_MAX = 256
    BYTES_MAX = 24 << 20

    def __init__(self) -> None:
        self._size_bytes = 0
        self._records: dict[int, tuple[bytes, Record]] = {}

    def get(self, payload: bytes) -> Record | None:
        """Return the record of this payload object (not of equal bytes)."""
        found = self._records.get(id(payload))
        return found[1] if found is not None and found[0] is payload else None

    def add(self, payload: bytes, record: Record) -> None:
        """Keep the record until newer ones replace it."""
        records = self._records
        self._size_bytes += len(payload)
        while records and (self._size_bytes > self.BYTES_MAX or len(records) == self.RECORDS_MAX):
            oldest, _ = records.pop(next(iter(records)))
            self._size_bytes -= len(oldest)
        records[id(payload)] = payload, record


_known = RecordCache()


def encode(record: Record) -> bytes:
    """Return the record's wire form."""
    body = _encoder.encode(record)
    payload = b"".join((FORMAT, zlib.crc32(body).to_bytes(4, "little"), body))
    _known.add(payload, record)
    return payload


def decode(payload: bytes, journal: JournalName, position: Position) -> Record:
    """Return the record. Raises RecordUnreadable naming the journal and the position."""
    record = _known.get(payload)
    if record is None:
        record = _decode(payload, f"{journal} at {position}")
        _known.add(payload, record)
    return record


def _decode(payload: bytes, where: str) -> Record:
    if payload[:2] != FORMAT:
        raise RecordUnreadable(
            f"{where}: format {payload[:2]!r} is not {FORMAT!r}: not a record of Muster, or one "
            "of another version; use that version, or 'muster reset' to begin new journals"
        )
    body = memoryview(payload)[6:]  # not copied: bodies may have a megabyte
    if zlib.crc32(body) != int.from_bytes(payload[2:6], "little"):
        raise RecordUnreadable(f"{where}: checksum does not match: the record was damaged")
    try:
        return _record.decode(body)
    except msgspec.DecodeError as error:
        raise RecordUnreadable(f"{where}: {error}: {NEWER}") from error


def slice_events(events: Sequence[Event]) -> tuple[Slice, ...]:
    """Return runs of events with equal addressees, in the order they were decided."""
    slices: list[Slice] = []
    run: list[Event] = []
    current: tuple[str, ...] = ()
    for event in events:
        to = event.to()
        if run and to != current:
            slices.append(Slice(current, _encoder.encode(run)))
            run = []
        current = to
        run.append(event)
    if run:
        slices.append(Slice(current, _encoder.encode(run)))
    return tuple(slices)


def pack_received(events: Sequence[Event]) -> bytes:
    """Return received observations, encoded."""
    return _encoder.encode(events) if events else b""


def received_of(record: Record, journal: JournalName, position: Position) -> list[Event]:
    """Return the observations that the step received. Raises RecordUnreadable, as do
    the next three.
    """
    bodies = (record.received,) if record.received else ()
    return _decode_events(bodies, _received, journal, position)


def own_events(record: Record, journal: JournalName, position: Position) -> list[Event]:
    """Return all events of the step, in order."""
    bodies = [part.body for part in record.slices]
    return _decode_events(bodies, _events[service_of(journal)], journal, position)


def all_events(record: Record, journal: JournalName, position: Position) -> list[Event]:
    """Return what the step received, then its own events."""
    return [*received_of(record, journal, position), *own_events(record, journal, position)]


def events_for(
    record: Record, journal: JournalName, position: Position, reader: str
) -> list[Event]:
    """Return the record's events for one reader (a journal name)."""
    service = service_of(reader)
    bodies = [part.body for part in record.slices if reader in part.to or service in part.to]
    return _decode_events(bodies, _events[service_of(journal)], journal, position) if bodies else []


def _decode_events(
    bodies: Sequence[bytes],
    decoder: msgspec.msgpack.Decoder[Any],
    journal: JournalName,
    position: Position,
) -> list[Event]:
    out: list[Event] = []
    try:
        for body in bodies:
            out.extend(decoder.decode(body))
    except msgspec.DecodeError as error:
        where = f"{journal} at {position}"
        raise RecordUnreadable(f"{where}: an event cannot be read ({error}): {NEWER}") from error
    return out
