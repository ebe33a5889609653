"""The reader's handling of the records that its consumer delivers."""

import asyncio
from types import SimpleNamespace

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import OffsetOutOfRangeError

from shared.bus.kafka.feed import Feed
from shared.bus.kafka.reader import FEED_BYTES_MAX, KafkaReader
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.watches import Watches
from shared.model.ids import JournalName
from shared.ports.bus import BusCorrupt

JOURNAL = JournalName("ingest/0")
PARTITION = TopicPartition("muster.ingest", 0)


async def bounds(journal: JournalName) -> tuple[int, int]:
    return 2, 6


class Consumer:
    """The calls that a consumer gets about one partition."""

    def __init__(self):
        self.said: list[str] = []

    def pause(self, partition: TopicPartition):
        assert partition == PARTITION
        self.said.append("pause")

    def resume(self, partition: TopicPartition):
        assert partition == PARTITION
        self.said.append("resume")


def reader_at(start: int, rest_ms: int = 0) -> tuple[KafkaReader, Feed]:
    settings = KafkaSettings(bootstrap="nowhere:1")
    reader = KafkaReader(settings, "test", Watches(), bounds, {"ingest": rest_ms}, lambda: None)
    feed = reader._feeds[PARTITION] = Feed(JOURNAL, start)
    return reader, feed


def consumed_by(reader: KafkaReader) -> list[str]:
    consumer = reader._consumer = Consumer()
    return consumer.said


def records(*offsets: int):
    return [SimpleNamespace(offset=at, value=b"%d" % at) for at in offsets]


async def test_records_below_the_window_are_not_taken_for_its_next():
    reader, feed = reader_at(5)
    reader._take_in(PARTITION, records(3, 4, 5, 6))
    assert feed.read(5, 1 << 20) == [(5, b"5"), (6, b"6")]
    assert feed.error is None


async def test_a_hole_stops_the_reader_loudly():
    reader, feed = reader_at(5)
    reader._take_in(PARTITION, records(5, 7))
    assert feed.read(5, 1 << 20) == [(5, b"5")]
    with pytest.raises(BusCorrupt, match="journal ingest/0: position 6 is missing"):
        await reader.read(JOURNAL, 6, 1 << 20)


@pytest.mark.parametrize(("start", "moved_to"), [(9, 6), (1, 2), (4, 4)])
async def test_a_window_out_of_range_moves_to_existing_records(start: int, moved_to: int):
    reader, feed = reader_at(start)
    calls: list[int] = []
    reader._watches.add(JOURNAL, start, lambda: calls.append(1), end=0)
    await reader._out_of_range(OffsetOutOfRangeError({PARTITION: start}))
    await asyncio.sleep(0)
    assert feed.next == moved_to
    assert feed.error is None
    assert calls == [1]  # a waiting reader notices when it reads


async def test_a_journal_that_ends_before_its_window_is_a_loss():
    reader, feed = reader_at(9)
    feed.caught_up = True
    await reader._out_of_range(OffsetOutOfRangeError({PARTITION: 9}))
    with pytest.raises(BusCorrupt, match="journal ingest/0: ends at 6, but went up to 9 before"):
        await reader.read(JOURNAL, 9, 1 << 20)


async def test_an_unwatched_journal_is_fetched_one_answer_ahead():
    reader, feed = reader_at(0)
    said = consumed_by(reader)
    reader._take_in(PARTITION, records(0))
    assert said == []
    reader._take_in(PARTITION, records(1))
    assert said == ["pause"]
    assert await reader.read(JOURNAL, 0, 1 << 20) == [(0, b"0"), (1, b"1")]
    assert said == ["pause", "resume"]
    reader._watches.add(JOURNAL, 2, lambda: None, end=2)
    for at in range(2, 6):
        reader._take_in(PARTITION, records(at))
    assert said == ["pause", "resume"]
    assert feed.next == 6


async def test_a_journal_rests_after_it_brought_something():
    reader, feed = reader_at(0, rest_ms=5)
    said = consumed_by(reader)
    reader._watches.add(JOURNAL, 0, lambda: None, end=0)
    reader._take_in(PARTITION, records(0))
    assert said == ["pause"]
    await asyncio.sleep(0.02)
    assert said == ["pause", "resume"]
    reader._take_in(PARTITION, records(1))
    reader._watches.clear()
    feed.unread = 2  # no reader reads it meanwhile
    await asyncio.sleep(0.02)
    assert said == ["pause", "resume", "pause"]


@pytest.mark.parametrize("rest_ms", [0, 5])
async def test_a_full_feed_lets_its_watches_look(rest_ms: int):
    reader, feed = reader_at(0, rest_ms)
    said, calls = consumed_by(reader), []
    reader._watches.add(JOURNAL, 9, lambda: calls.append(1), end=0)
    feed.size_bytes = FEED_BYTES_MAX
    reader._take_in(PARTITION, records(0))
    await asyncio.sleep(0.02)
    assert calls == [1]
    assert said == ["pause"]
    feed.size_bytes = 1
    reader._leave_behind(feed, 1)
    assert said == ["pause", "resume"]


async def test_a_reader_at_the_end_of_an_unread_window_gets_more():
    reader, _feed = reader_at(3)
    said = consumed_by(reader)
    reader._take_in(PARTITION, records(3))
    reader._take_in(PARTITION, records(4))
    assert said == ["pause"]
    reading = asyncio.create_task(reader.read(JOURNAL, 5, 1 << 20))
    await asyncio.sleep(0.01)
    assert said == ["pause", "resume"]
    reader._take_in(PARTITION, records(5))
    assert await reading == [(5, b"5")]


async def test_a_feed_with_room_continues_after_its_pause():
    reader, feed = reader_at(0, rest_ms=5)
    said = consumed_by(reader)
    reader._watches.add(JOURNAL, 9, lambda: None, end=0)  # reads nothing before it gets there
    feed.size_bytes = FEED_BYTES_MAX - 10
    reader._take_in(PARTITION, records(0))
    await asyncio.sleep(0.02)
    assert said == ["pause", "resume"]


class Deaf(Consumer):
    """A consumer that ignores the first requests to end."""

    def __init__(self, times: int):
        super().__init__()
        self.times = times
        self.asked = asyncio.Event()

    async def getmany(self, timeout_ms: int):
        self.asked.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            if not self.times:
                raise
            self.times -= 1
        return {}


@pytest.mark.parametrize("times", [1, 3])
async def test_it_closes_although_the_library_swallows_a_cancellation(times, monkeypatch):
    async def stopped(consumer):
        assert isinstance(consumer, Deaf)

    monkeypatch.setattr("shared.bus.kafka.reader.stop_consumer", stopped)
    monkeypatch.setattr("shared.bus.kafka.reader.CANCEL_AGAIN_S", 0.01)
    reader, _ = reader_at(0)
    reader._consumer = Deaf(times)
    reader._pump_task = asyncio.create_task(reader._pump())
    await reader._consumer.asked.wait()
    async with asyncio.timeout(10):
        await reader.close()
    assert reader._pump_task.done()
