"""The journals as they lie in the file or on the bus, read by their documented format alone.

A record is two bytes of format, four of crc32, and msgpack; a record that was written under
another term than the one in force at its place does not count (ARCHITECTURE.md).
"""

import sqlite3
import struct
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cramjam
import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

SERVICES = ("ingest", "queueing", "placement", "permit", "preemption", "binding")
Event = dict[str, Any]


@dataclass
class Entry:
    """One record that counts. `consumed` are (journal, start, stop); `owner` is there where it
    claims the journal; `received` is what came from outside.
    """

    position: int
    time_s: float
    consumed: list[tuple[str, int, int]]
    events: list[Event] = field(default_factory=list)
    owner: str = ""
    received: list[Event] = field(default_factory=list)

    def of(self, *kinds: str) -> list[Event]:
        """Return the record's events of these kinds, in order."""
        return [event for event in self.events if event["type"] in kinds]

    def heard(self, *kinds: str) -> list[Event]:
        """Return the received observations of these kinds, in order."""
        return [event for event in self.received if event["type"] in kinds]


Journals = dict[str, list[Entry]]


def by_epoch(journals: Journals) -> list[Journals]:
    """Return journals by epoch: after a reset `ingest/0` continues as `ingest-e2/0`."""
    found: dict[str, Journals] = {}
    for name, held in journals.items():
        stem, _, number = name.partition("/")
        service, _, epoch = stem.partition("-")
        found.setdefault(epoch, {})[f"{service}/{number}"] = held
    return list(found.values())


def column(packed: bytes) -> tuple[int, ...]:
    """Return the numbers of a packed int64 column."""
    return struct.unpack(f"<{len(packed) // 8}q", packed)


def entries(payloads: Iterable[tuple[int, bytes]]) -> list[Entry]:
    """Return the valid records."""
    found: list[Entry] = []
    term = -1
    for position, payload in payloads:
        body = payload[6:]
        assert zlib.crc32(body) == int.from_bytes(payload[2:6], "little"), position
        record = msgspec.msgpack.decode(body)
        if record.get("claim"):
            term = position
        elif record["term"] != term:
            continue
        owner = (record.get("claim") or {}).get("owner", "")
        consumed = [(part[0], part[1], part[2]) for part in record.get("consumed", ())]
        slices = [msgspec.msgpack.decode(body) for _to, body in record.get("slices", ())]
        events = [event for part in slices for event in part]
        came = record.get("received")
        received = msgspec.msgpack.decode(came) if came else []
        time_s = record["time_ms"] / 1000
        found.append(Entry(position, time_s, consumed, events, owner, received))
    return found


def of_file(path: Path, services: Collection[str] = SERVICES) -> Journals:
    """Return the journals in a run's SQLite file; none without a file."""
    if not path.exists():
        return {}
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        names = connection.execute("SELECT id, name, first FROM journals").fetchall()
        return {
            name: entries(_rows(connection, number))
            for number, name, first in names
            # Cut records cannot be checked, and the control journal has nothing to check.
            if first == 0 and name.partition("/")[0].partition("-")[0] in services
        }
    finally:
        connection.close()


def newest(path: Path, journal: str) -> int:
    """Return the highest position in a run's SQLite file."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        query = "SELECT id FROM journals WHERE name = ?"
        ((number,),) = connection.execute(query, (journal,)).fetchall()
        ((position,),) = connection.execute(f"SELECT MAX(position) FROM journal_{number}")
        return int(position)
    finally:
        connection.close()


def _rows(connection: sqlite3.Connection, number: int) -> list[tuple[int, bytes]]:
    rows = connection.execute(
        f"SELECT position, size_bytes, payload FROM journal_{number} ORDER BY position"
    )
    return [
        (position, stored if size < 0 else bytes(cramjam.zstd.decompress(stored, size)))
        for position, size, stored in rows
    ]


async def of_kafka(bootstrap: str, prefix: str, placements: int = 1) -> Journals:
    """Return all journals on a Kafka cluster without TLS: a topic is a service, an offset a
    position.
    """
    found: Journals = {}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        for service in SERVICES:
            for number in range(placements if service == "placement" else 1):
                where = TopicPartition(f"{prefix}.{service}", number)
                found[f"{service}/{number}"] = entries(await _records(consumer, where))
    finally:
        await consumer.stop()
    return found


async def _records(consumer: AIOKafkaConsumer, where: TopicPartition) -> list[tuple[int, bytes]]:
    rows: list[tuple[int, bytes]] = []
    consumer.assign([where])
    await consumer.seek_to_beginning(where)
    end = (await consumer.end_offsets([where]))[where]
    while await consumer.position(where) < end:
        batches = await consumer.getmany(where, timeout_ms=1_000)
        rows += [(one.offset, one.value) for batch in batches.values() for one in batch]
    return rows
