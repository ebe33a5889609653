"""What the reader makes of the records that its consumer hands it."""

from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition

from shared.adapters.bus_watches import Watches
from shared.adapters.kafka_bus_feed import Feed
from shared.adapters.kafka_bus_reader import KafkaReader
from shared.adapters.kafka_bus_settings import KafkaSettings
from shared.ports.bus import BusCorrupt, JournalName, journal_name

JOURNAL = journal_name("ingest", 0)
PARTITION = TopicPartition("muster.ingest", 0)


async def no_bounds(journal: JournalName) -> tuple[int, int]:
    raise AssertionError("nobody should ask")


def reader_at(start: int) -> tuple[KafkaReader, Feed]:
    reader = KafkaReader(KafkaSettings(bootstrap="nowhere:1"), "test", Watches(), no_bounds)
    feed = reader._feeds[PARTITION] = Feed(JOURNAL, start)
    return reader, feed


def records(*offsets: int):
    return [SimpleNamespace(offset=at, value=b"%d" % at) for at in offsets]


async def test_records_below_the_window_are_not_taken_for_its_next():
    reader, feed = reader_at(5)
    reader._take_in(PARTITION, records(3, 4, 5, 6))
    assert feed.take(5, 1 << 20) == [(5, b"5"), (6, b"6")]
    assert feed.error is None


async def test_a_hole_stops_the_reader_loudly():
    reader, feed = reader_at(5)
    reader._take_in(PARTITION, records(5, 7))
    assert feed.take(5, 1 << 20) == [(5, b"5")]
    with pytest.raises(BusCorrupt, match="journal ingest/0: position 6 is missing"):
        await reader.read(JOURNAL, 6, 1 << 20)
