"""Reads Kafka: one consumer per client, partitions assigned by hand, a feed per journal.

No consumer groups: the machine decides who reads what, and its cursors are in its journals. A pump
moves arriving records into the feeds, wakes the watches, and builds a new consumer if the old one
fails or falls silent (it happens after a broker's restart).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from shared.bus.kafka.closing import stop_consumer
from shared.bus.kafka.feed import Feed
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.watches import Watches
from shared.model.ids import JournalName, Position
from shared.ports.bus import BusCorrupt, BusUnavailable, CutAway, split_journal

log = logging.getLogger("muster.bus.kafka")

# Small: a new position is only requested after the broker has answered the request before it.
FETCH_MAX_WAIT_MS = 50
# A feed is not filled beyond this (plus one answer) until its reader has advanced.
FEED_BYTES_MAX = 16 << 20
PARTITION_FETCH_BYTES = 4 << 20
RETRY_S = 0.25
# How often feeds without progress are checked.
STALL_CHECK_S = 3.0
CANCEL_AGAIN_S = 1.0

Bounds = Callable[[JournalName], Awaitable[tuple[Position, Position]]]


class KafkaReader:
    """The feeds of one client. `bounds` returns where a journal begins and ends; `rest_ms`: how
    long the journals of a service are not read after they had records; `doubt` is called if a topic
    may be gone.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        client_id: str,
        watches: Watches,
        bounds: Bounds,
        rest_ms: Mapping[str, int],
        doubt: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._doubt = doubt
        self._rest_ms = rest_ms
        self._client_id = client_id
        self._watches = watches
        self._bounds = bounds
        self._feeds: dict[TopicPartition, Feed] = {}
        self._consumer: Any = None  # None while a new one is being built
        self._pump_task: asyncio.Task[None] | None = None
        self._closed = False
        self._building: asyncio.Task[None] | None = None
        self._checked_at = 0.0
        self._seen: dict[TopicPartition, tuple[int, int]] = {}  # (feed's next, journal's end)

    def feed(self, journal: JournalName, start: Position) -> Feed:
        """Return the journal's feed; a new one begins at `start`."""
        partition = self._partition(journal)
        feed = self._feeds.get(partition)
        if feed is None:
            feed = self._feeds[partition] = Feed(journal, start)
            self._assign()
            if self._pump_task is None:
                self._pump_task = asyncio.get_running_loop().create_task(self._pump())
        return feed

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int
    ) -> list[tuple[Position, bytes]]:
        """See Bus.read."""
        feed = self.feed(journal, start)
        feed.unread = 0
        if not self._ready(feed, start):
            async with feed.lock:
                # Bounded by two answers of the broker: the bounds, then the records.
                timeout_ms = 2 * self._settings.request_timeout_ms
                if not await self._settings.reach(self._wait_for(feed, start), timeout_ms):
                    return []
        if feed.error is not None:
            raise feed.error
        if not feed.covers(start):
            return []
        self._leave_behind(feed, start)
        return feed.read(start, limit_bytes)

    def cut(self, journal: JournalName, below: Position) -> None:
        """Drop the records below a cut of this client from its feed."""
        feed = self._feeds.get(self._partition(journal))
        if feed is not None and feed.first < below:
            self._leave_behind(feed, min(below, feed.next))

    def fail(self, error: BusCorrupt) -> None:
        """Fail all readers and waiters with a loss; fetch nothing any more."""
        self._closed = True
        if self._pump_task is not None:
            self._pump_task.cancel()
        for feed in self._feeds.values():
            feed.error = error
            feed.announce()
            self._watches.wake_all(feed.journal)

    def _ready(self, feed: Feed, start: Position) -> bool:
        """Return whether the feed can answer without the broker."""
        if feed.covers(start) or feed.error is not None:
            return True
        return feed.caught_up and start == feed.next and self._watches.has(feed.journal)

    async def _wait_for(self, feed: Feed, start: Position) -> bool:
        """Wait for the record at `start`; return False if the journal ends before it."""
        while not self._ready(feed, start):
            first, end = await self._bounds(feed.journal)
            if start < first:
                raise CutAway(feed.journal, start, first)
            if feed.covers(start):
                return True
            if start >= end:
                if start == end and feed.next != start:
                    self._move(feed, start)  # ready for the next record
                feed.caught_up = feed.next == end
                return False
            if start != feed.next:
                self._move(feed, start)
            while feed.next <= start and feed.error is None:
                feed.unread = 0
                self.regulate(feed)
                await feed.arrived()
        return True

    def _move(self, feed: Feed, start: Position) -> None:
        forward = start > feed.next
        feed.move(start)
        partition = self._partition(feed.journal)
        if self._consumer is not None:
            self._consumer.seek(partition, start)
        self.regulate(feed)
        if forward:
            # The skipped records exist, and a watch may have waited for them.
            self._watches.wake(feed.journal, start)

    def _leave_behind(self, feed: Feed, below: Position) -> None:
        feed.leave_behind(below)
        self.regulate(feed)

    def regulate(self, feed: Feed) -> None:
        """Pause or resume fetching a journal: paused while its feed is full or rests, or without a
        watch while its reader is an answer behind (a journal's writer reads it only at the start).
        """
        feed.full = feed.size_bytes > (FEED_BYTES_MAX // 2 if feed.full else FEED_BYTES_MAX)
        idle = feed.unread > 1 and not self._watches.has(feed.journal)
        paused = feed.full or idle or feed.rests
        if paused == feed.paused:
            return
        feed.paused = paused
        if self._consumer is not None:
            change = self._consumer.pause if paused else self._consumer.resume
            change(self._partition(feed.journal))

    def _rest(self, feed: Feed) -> None:
        """Do not read the journal for a while, so that more records come in one fetch."""
        rest_ms = self._rest_ms.get(split_journal(feed.journal)[0], 0)
        if rest_ms and not feed.rests:
            feed.rests = True
            asyncio.get_running_loop().call_later(rest_ms / 1_000, self._rested, feed)

    def _rested(self, feed: Feed) -> None:
        feed.rests = False
        self.regulate(feed)

    def _partition(self, journal: JournalName) -> TopicPartition:
        service, partition = split_journal(journal)
        return TopicPartition(self._settings.topic(service), partition)

    def _assign(self) -> None:
        """Assign all partitions. Assigning replaces everything, so every position is set again."""
        if self._consumer is None:
            return
        self._consumer.assign(list(self._feeds))
        for partition, feed in self._feeds.items():
            self._consumer.seek(partition, feed.next)
            if feed.paused:
                self._consumer.pause(partition)

    # -- the pump ---------------------------------------------------------------------------

    async def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._closed:
            try:
                if self._consumer is None:
                    self._building = loop.create_task(self._build())
                    # A client cancelled while it connects leaks the connection.
                    await asyncio.shield(self._building)
                    self._seen.clear()
                arrived = await self._consumer.getmany(timeout_ms=1_000)
                for partition, records in arrived.items():
                    self._take_in(partition, records)
                if arrived:
                    # The next fetch brings more records for the same work, here and at the broker.
                    await asyncio.sleep(self._settings.gather_ms / 1_000)
                if loop.time() - self._checked_at > STALL_CHECK_S:
                    self._checked_at = loop.time()
                    await self._check_stall()
            except OffsetOutOfRangeError as error:
                await self._out_of_range(error)
            except Exception as error:
                # After any error of the library, readers must not wait for ever.
                self._doubt()
                expected = isinstance(error, KafkaError | OSError | BusUnavailable)
                log.warning(
                    "reading from %s failed, connecting again: %r",
                    self._settings.bootstrap,
                    error,
                    exc_info=not expected,
                )
                await self._discard()
                await asyncio.sleep(RETRY_S)

    async def _build(self) -> None:
        consumer = AIOKafkaConsumer(
            client_id=self._client_id,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_uncommitted",
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
            retry_backoff_ms=int(RETRY_S * 1_000),
            **self._settings.client_arguments(),
        )
        try:
            # Before the start, so that the topics' metadata is fetched at once.
            consumer.assign(list(self._feeds))
            await self._settings.reach(self._start(consumer))
        except BaseException:
            self._consumer = None
            await stop_consumer(consumer)
            raise

    async def _start(self, consumer: Any) -> None:
        """Start a consumer. Its fetcher must find the positions set at its first turn."""
        await consumer.start()
        self._consumer = consumer
        self._assign()

    async def _discard(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_consumer(consumer)

    def _take_in(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        feed = self._feeds[partition]
        for record in records:
            if record.offset < feed.next:
                continue  # fetched before the window was moved
            if record.offset > feed.next or record.value is None:
                feed.error = BusCorrupt(
                    f"Kafka at {self._settings.bootstrap}: journal {feed.journal}: position "
                    f"{feed.next} is missing"
                )
                break
            feed.add(record.value)
        feed.unread += 1
        self._rest(feed)
        self.regulate(feed)
        if feed.full:
            # A watch further on would never be notified: notify it, so that it moves the window.
            self._watches.wake_all(feed.journal)
        feed.announce()
        self._watches.wake(feed.journal, feed.next)

    async def _out_of_range(self, error: OffsetOutOfRangeError) -> None:
        """Handle a feed that is below a cut or above the end."""
        for partition in error.args[0]:
            feed = self._feeds[partition]
            first, end = await self._bounds(feed.journal)
            # A watch may be past the end; records reached or held must still be there.
            reached = feed.caught_up or feed.first != feed.next
            if feed.next > end and reached:
                feed.error = BusCorrupt(
                    f"Kafka at {self._settings.bootstrap}: journal {feed.journal}: ends at {end}, "
                    f"but went up to {feed.next} before: the broker lost acknowledged records; "
                    "run 'muster reset', and start with an empty --run-dir"
                )
            elif not first <= feed.next <= end:
                self._move(feed, min(max(feed.next, first), end))
            feed.announce()
            self._watches.wake_all(feed.journal)

    async def _check_stall(self) -> None:
        """Check for a feed that has not moved since the last check although there are records.
        Raises KafkaError.

        Only feeds without progress cost a request, so a busy client makes none.
        """
        for partition, feed in list(self._feeds.items()):
            # The library omits a topic that the broker does not know, and asks for ever.
            if self._consumer.partitions_for_topic(partition.topic) is None:
                self._doubt()
            at, end = self._seen.get(partition, (-1, -1))
            if feed.paused or feed.error is not None or at != feed.next:
                self._seen[partition] = (feed.next, -1)
                continue
            if end > feed.next:
                raise KafkaError(f"nothing arrives for journal {feed.journal}")
            self._seen[partition] = (feed.next, (await self._bounds(feed.journal))[1])

    async def close(self) -> None:
        """Stop the pump and the consumer."""
        self._closed = True
        pump = self._pump_task
        while pump is not None and not pump.done():
            # Once is not enough: the library may be waiting for several things at once and swallow
            # a cancellation between two of them.
            pump.cancel()
            await asyncio.wait({pump}, timeout=CANCEL_AGAIN_S)
        if self._building is not None:
            await asyncio.gather(self._building, return_exceptions=True)
        await self._discard()
