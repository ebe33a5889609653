"""The bus over Kafka: a topic per service, a partition per service partition, offsets as positions.

Kafka cannot refuse a record at a stale position; the returned offset shows it, and the record stays
(WrongPosition with `landed`). No consumer groups, no transactions.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError

from shared.bus.kafka.closing import abandon_producer, stop_consumer
from shared.bus.kafka.reader import KafkaReader
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.kafka.topics import MESSAGE_BYTES_MAX, TopicWatch, delete_records, ensure_topics
from shared.bus.watches import Watches
from shared.model.ids import JournalName, Position
from shared.ports.bus import (
    AppendUnknown,
    BusCorrupt,
    BusUnavailable,
    WrongPosition,
    check_record,
    split_journal,
)

# A call that takes longer than this makes the client check that its topics still exist.
SLOW_S = 3.0


class KafkaBus:
    """One client. Call `start` first. `partitions`: the services whose topics must exist.
    `rest_ms`: how long the journals of a service rest after new records, by service.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        partitions: Mapping[str, int],
        client_id: str = "muster",
        rest_ms: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._settings = settings
        self._partitions = dict(partitions)
        self._client_id = client_id
        self._watches = Watches()
        self._topics = TopicWatch(settings, partitions, self._on_lost)
        self._looking: asyncio.Task[None] | None = None
        self._lost: BusCorrupt | None = None
        self._calls: set[asyncio.Timeout] = set()
        self._reader = KafkaReader(
            settings, client_id, self._watches, self.bounds, rest_ms, self._topics.doubt
        )
        # One producer per journal: discarding one must not disturb the others' appends.
        self._producers: dict[JournalName, Any] = {}
        self._producer_lock = asyncio.Lock()
        # A separate connection for bounds: a waiting fetch blocks the one it is on.
        self._asker: Any = None
        self._asker_lock = asyncio.Lock()
        self._abandoned: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self) -> None:
        """Create and check the topics. Raises BusUnavailable within a bounded time."""
        await ensure_topics(self._settings, self._partitions)
        self._looking = asyncio.get_running_loop().create_task(self._topics.run())

    def _on_lost(self, error: BusCorrupt) -> None:
        self._lost = error
        self._reader.fail(error)
        for call in self._calls:
            call.reschedule(0)  # ends now

    @asynccontextmanager
    async def _kept(self) -> AsyncIterator[None]:
        """Guard a call so that it does not outlast its topic. Raises BusCorrupt."""
        if self._lost is not None:
            raise self._lost
        slow = asyncio.get_running_loop().call_later(SLOW_S, self._topics.doubt)
        call = asyncio.timeout(None)
        try:
            async with call:
                self._calls.add(call)
                yield
        except (AppendUnknown, BusUnavailable, TimeoutError) as error:
            self._topics.doubt()
            if self._lost is not None:
                raise self._lost from error
            raise
        finally:
            self._calls.discard(call)
            slow.cancel()

    async def append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        """See Bus.append. Any failure also discards the producer, so nothing is sent twice."""
        check_record(journal, payload)
        async with self._kept():
            return await self._append(journal, expected, payload)

    async def _append(self, journal: JournalName, expected: Position, payload: bytes) -> Position:
        producer = await self._get_producer(journal)
        service, partition = split_journal(journal)
        try:
            async with asyncio.timeout(self._settings.append_timeout_ms / 1_000):
                landed = await producer.send_and_wait(
                    self._settings.topic(service), payload, partition=partition
                )
        except BaseException as error:
            self._throw_away(journal, producer)
            if isinstance(error, MessageSizeTooLargeError):
                raise BusCorrupt(self._too_large(service, len(payload))) from error
            # aiokafka raises AssertionError from a producer that has failed before.
            if isinstance(error, KafkaError | OSError | TimeoutError | AssertionError):
                reason = str(error) or type(error).__name__
                raise AppendUnknown(
                    f"Kafka at {self._settings.bootstrap}: journal {journal}: {reason}"
                ) from error
            raise
        if landed.offset < 0:  # a retry of a record whose offset the broker no longer knows
            self._throw_away(journal, producer)
            raise AppendUnknown(f"journal {journal}: the broker did not say where it landed")
        if landed.offset != expected:
            raise WrongPosition(journal, expected, landed.offset, landed=True)
        return expected

    def _too_large(self, service: str, size_bytes: int) -> str:
        return (
            f"Kafka at {self._settings.bootstrap}: topic {self._settings.topic(service)}: "
            f"max.message.bytes is too small for a record of {size_bytes} bytes, which was not "
            f"stored; set it to {MESSAGE_BYTES_MAX} and start again"
        )

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        """See Bus.read. Cheapest for one reader per journal that moves forward."""
        async with self._kept():
            return await self._reader.read(journal, start, limit_bytes)

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        """See Bus.bounds."""
        service, number = split_journal(journal)
        partition = TopicPartition(self._settings.topic(service), number)
        async with self._kept():
            asker = await self._get_asker()
            # The beginning first: a cut in between must not make the journal look longer than it
            # is.
            try:
                return await self._settings.reach(
                    _bounds(asker, partition), 2 * self._settings.request_timeout_ms
                )
            except BusUnavailable:
                # It would ask the same broker for minutes, though another one leads by now.
                self._throw_away_asker(asker)
                raise

    def watch(
        self, journal: JournalName, start: Position, notify: Callable[[], None]
    ) -> Callable[[], None]:
        """See Bus.watch."""
        feed = self._reader.feed(journal, start)
        cancel = self._watches.add(journal, start, notify, feed.next)
        self._reader.regulate(feed)
        return cancel

    async def cut(self, journal: JournalName, below: Position) -> None:
        """See Bus.cut. Another client may still return records that it had fetched before."""
        first, end = await self.bounds(journal)
        below = min(below, end)
        if below > first:
            service, partition = split_journal(journal)
            topic = self._settings.topic(service)
            await delete_records(self._settings, topic, partition, below)
            self._reader.cut(journal, below)

    async def close(self) -> None:
        """See Bus.close."""
        self._closed = True
        self._watches.clear()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._reader.close()
        producers, self._producers = self._producers, {}
        asker, self._asker = self._asker, None
        for producer in producers.values():
            await abandon_producer(producer)
        if asker is not None:
            await stop_consumer(asker)
        if self._abandoned:
            await asyncio.gather(*self._abandoned, return_exceptions=True)

    # -- clients ----------------------------------------------------------------------------

    async def _get_producer(self, journal: JournalName) -> Any:
        async with self._producer_lock:
            assert not self._closed, "the bus is closed"
            producer = self._producers.get(journal)
            if producer is None:
                producer = AIOKafkaProducer(
                    client_id=self._client_id,
                    acks="all",
                    enable_idempotence=True,
                    compression_type="zstd",
                    linger_ms=0,
                    max_request_size=MESSAGE_BYTES_MAX,
                    **self._settings.client_arguments(),
                )
                try:
                    await self._settings.reach(producer.start())
                except BaseException:
                    await abandon_producer(producer)
                    raise
                self._producers[journal] = producer
            return producer

    def _throw_away(self, journal: JournalName, producer: Any) -> None:
        if self._producers.get(journal) is producer:
            del self._producers[journal]
        self._abandon(abandon_producer(producer))

    def _throw_away_asker(self, asker: Any) -> None:
        if self._asker is asker:
            self._asker = None
            self._abandon(stop_consumer(asker))

    def _abandon(self, ending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(ending)
        self._abandoned.add(task)
        task.add_done_callback(self._abandoned.discard)

    async def _get_asker(self) -> Any:
        async with self._asker_lock:
            assert not self._closed, "the bus is closed"
            if self._asker is None:
                asker = AIOKafkaConsumer(
                    client_id=self._client_id, **self._settings.client_arguments()
                )
                try:
                    await self._settings.reach(asker.start())
                except BaseException:
                    await stop_consumer(asker)
                    raise
                self._asker = asker
            return self._asker


async def _bounds(asker: Any, partition: TopicPartition) -> tuple[Position, Position]:
    first = (await asker.beginning_offsets([partition]))[partition]
    end = (await asker.end_offsets([partition]))[partition]
    return first, end
