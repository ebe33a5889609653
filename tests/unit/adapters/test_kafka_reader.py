"""What the reader makes of the records that its consumer hands it."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from shared.adapters.bus_watches import Watches
from shared.adapters.kafka_bus_feed import Feed
from shared.adapters.kafka_bus_reader import KafkaReader
from shared.adapters.kafka_bus_settings import KafkaSettings
from shared.ports.bus import BusCorrupt, JournalName, journal_name

JOURNAL = journal_name("ingest", 0)
PARTITION = TopicPartition("muster.ingest", 0)


async def bounds(journal: JournalName) -> tuple[int, int]:
    return 2, 6


def reader_at(start: int) -> tuple[KafkaReader, Feed]:
    reader = KafkaReader(KafkaSettings(bootstrap="nowhere:1"), "test", Watches(), bounds)
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


@pytest.mark.parametrize(("start", "moved_to"), [(9, 6), (1, 2), (4, 4)])
async def test_a_window_out_of_range_goes_where_records_are_instead_of_asking_for_ever(
    start: int, moved_to: int
):
    reader, feed = reader_at(start)
    calls: list[int] = []
    reader._watches.add(JOURNAL, start, lambda: calls.append(1), end=0)
    await reader._out_of_range(OffsetOutOfRangeError({PARTITION: start}))
    await asyncio.sleep(0)
    assert feed.next == moved_to
    assert feed.error is None
    assert calls == [1]  # who waits there finds out by reading


async def test_a_window_past_the_end_that_was_there_before_is_a_loss():
    reader, feed = reader_at(9)
    feed.caught_up = True
    await reader._out_of_range(OffsetOutOfRangeError({PARTITION: 9}))
    with pytest.raises(BusCorrupt, match="journal ingest/0: ends at 6, but went up to 9 before"):
        await reader.read(JOURNAL, 9, 1 << 20)
