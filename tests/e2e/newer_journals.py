"""Closed journal files as a newer version might have written them."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.machine.record import Record, Slice, decode, encode
from shared.model.ids import JournalName

EVERYBODY = ("queueing", "placement", "permit", "preemption", "binding")
SAYS_EVENT = (
    "an event cannot be read (Invalid value 'brand_new' - at `$[0].type`): written by a newer"
)
SAYS_CLAIM = "claim.version: 99 is not 1: written by a newer version; use that version to read it"
SAYS_FORMAT = (
    "format b'M9' is not b'M1': not a record of Muster, or one of another version; "
    "use that version, or 'muster reset' to begin new journals"
)


def alter(path: Path, journal: JournalName, position: int, change: Callable[[bytes], bytes]) -> int:
    """Put another record in the place of one, of the last for position -1; returns the position."""
    log = SqliteLog(path)
    bus, name = SqliteBus(log), journal
    at = position if position >= 0 else asyncio.run(bus.bounds(name))[1] - 1
    ((_at, payload), *_rest) = asyncio.run(bus.read(name, at, 1))
    log.close()
    connection = sqlite3.connect(path)
    with connection:
        tables = dict(connection.execute("SELECT name, id FROM journals"))
        connection.execute(
            f"UPDATE journal_{tables[journal]} SET size_bytes=-1, payload=? WHERE position=?",
            (change(payload), at),
        )
    connection.close()
    return at


def prolong(path: Path, journal: JournalName, count: int) -> None:
    """Append as many empty records as an idle owner writes."""
    log = SqliteLog(path)
    bus, name = SqliteBus(log), journal
    end = asyncio.run(bus.bounds(name))[1]
    last = decode(asyncio.run(bus.read(name, end - 1))[0][1], journal, end - 1)
    for more in range(count):
        record = Record(last.term, last.seq + 1 + more, last.time_ms)
        asyncio.run(bus.append(name, end + more, encode(record)))
    log.close()


def newer_format(payload: bytes) -> bytes:
    """Write records of a newer format."""
    return b"M9" + payload[2:]


def newer_claim(payload: bytes) -> bytes:
    """Write a claim of a newer version."""
    record = decode(payload, JournalName(""), 0)
    assert record.claim is not None
    return encode(replace(record, claim=replace(record.claim, version=99)))


def newer_event(payload: bytes) -> bytes:
    """Add an event of an unknown type."""
    record = decode(payload, JournalName(""), 0)
    slices = (*record.slices, Slice(EVERYBODY, msgspec.msgpack.encode([{"type": "brand_new"}])))
    return encode(replace(record, slices=slices))
