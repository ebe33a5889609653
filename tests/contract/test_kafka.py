"""Behaviour of the Kafka bus alone: topics, failures of the broker, bounded waits."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from shared.bus.kafka import reader as kafka_bus_reader
from shared.bus.kafka import topics
from shared.bus.kafka.bus import KafkaBus
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.kafka.topics import ensure_topics, topic_settings
from shared.model.ids import JournalName
from shared.ports.bus import AppendUnknown, BusCorrupt, BusUnavailable, WrongPosition
from tests.contract.stores import KafkaStore
from tests.support.kafka_server import INSTALL_COMMAND, KafkaBroker, kafka_available, new_broker
from tests.support.required_tools import require_tool
from tests.support.server_process import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
JOURNAL = JournalName("ingest/0")
WAIT_S = 300.0


@pytest.fixture
async def store(broker: KafkaBroker) -> AsyncIterator[KafkaStore]:
    made = KafkaStore(broker.bootstrap, append_timeout_ms=1_000)
    try:
        yield made
    finally:
        await made.close()


async def append_until_it_lands(bus: KafkaBus, payload: bytes) -> int:
    """Append as an owner does: after an unknown result, find the journal's end and
    continue there.
    """
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                return await bus.append(JOURNAL, (await bus.bounds(JOURNAL))[1], payload)
            except (AppendUnknown, BusUnavailable):
                await asyncio.sleep(0.1)


@pytest.fixture
async def mortal() -> AsyncIterator[KafkaBroker]:
    """A broker to kill: it comes back sooner than the one that holds every other test's topics."""
    require_tool("kafka", INSTALL_COMMAND, found=kafka_available())
    made = new_broker()
    try:
        await asyncio.to_thread(made.start)
        yield made
    finally:
        await asyncio.to_thread(made.stop)


@pytest.mark.slow
async def test_a_client_starts_while_other_brokers_are_frozen(broker: KafkaBroker):
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        frozen = [f"127.0.0.1:{made.getsockname()[1]}" for made in (one, two)]
        settings = KafkaSettings(
            bootstrap=",".join([*frozen, broker.bootstrap]),
            prefix="frozen",
            replication_factor=1,
            min_insync_replicas=1,
        )
        bus = KafkaBus(settings, {"ingest": 1})
        try:
            await bus.start()
        finally:
            await bus.close()


@pytest.mark.slow
async def test_a_killed_broker_comes_back_with_everything_acknowledged(mortal: KafkaBroker):
    store = KafkaStore(mortal.bootstrap, append_timeout_ms=1_000)
    try:
        await kill_and_go_on(store, mortal)
    finally:
        await store.close()


async def kill_and_go_on(store: KafkaStore, broker: KafkaBroker) -> None:
    writer, reader = await store.client(), await store.client()
    notified = asyncio.Event()
    reader.watch(JOURNAL, 0, notified.set)
    for position in range(50):
        await writer.append(JOURNAL, position, b"%d" % position)
    assert len(await reader.read(JOURNAL, 0)) > 0
    await asyncio.to_thread(broker.kill)
    try:
        with pytest.raises(AppendUnknown):
            await writer.append(JOURNAL, 50, b"lost or late")
    finally:
        await asyncio.to_thread(broker.start)
    landed = await append_until_it_lands(writer, b"after")
    seen: list[tuple[int, bytes]] = []
    async with asyncio.timeout(WAIT_S):
        while len(seen) <= landed:  # told by the watch alone: the reader recovered by itself
            await notified.wait()
            notified.clear()
            while batch := await reader.read(JOURNAL, len(seen)):
                seen.extend(batch)
    assert seen[:50] == [(position, b"%d" % position) for position in range(50)]
    assert seen[landed] == (landed, b"after")


async def delete_topic(settings: KafkaSettings) -> None:
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    await admin.start()
    await admin.delete_topics([settings.topic("ingest")])
    for _ in range(200):
        if settings.topic("ingest") not in await admin.list_topics():
            break
        await asyncio.sleep(0.05)
    await admin.close()


async def recreate_topic(settings: KafkaSettings) -> None:
    await delete_topic(settings)
    await ensure_topics(settings, {"ingest": 1})


@pytest.mark.parametrize("read_up_to", [3, 5])
async def test_records_that_the_broker_lost_are_missed(store: KafkaStore, read_up_to: int):
    writer, reader = await store.client(), await store.client()
    for position in range(5):
        await writer.append(JOURNAL, position, b"x")
    notified = asyncio.Event()
    reader.watch(JOURNAL, 0, notified.set)
    assert len(await reader.read(JOURNAL, 0)) == 5
    assert len(await reader.read(JOURNAL, read_up_to)) == 5 - read_up_to
    await notified.wait()
    notified.clear()
    await recreate_topic(store.settings)
    async with asyncio.timeout(WAIT_S):
        await notified.wait()
    with pytest.raises(BusCorrupt, match=r"ends at 0, but went up to 5 before: .*'muster reset'"):
        await reader.read(JOURNAL, read_up_to)


async def until_corrupt(call: Callable[[], Awaitable[object]]) -> str:
    """Repeat a call after each failure of the bus, as a member does; return the final error."""
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await call()
            except (AppendUnknown, BusUnavailable, WrongPosition):
                pass
            except BusCorrupt as error:
                return str(error)
            await asyncio.sleep(0.1)


async def test_a_topic_that_is_deleted_is_named_to_its_writer_and_its_readers(store: KafkaStore):
    writer, reader, idle = [await store.client() for _ in range(3)]
    await writer.append(JOURNAL, 0, b"x")
    notified = asyncio.Event()
    reader.watch(JOURNAL, 0, notified.set)
    assert len(await reader.read(JOURNAL, 0)) == 1
    notified.clear()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await delete_topic(store.settings)
    found = await asyncio.gather(
        until_corrupt(lambda: writer.append(JOURNAL, 1, b"y")),
        until_corrupt(lambda: watched(reader, notified)),
        until_corrupt(lambda: idle.bounds(JOURNAL)),
    )
    topic = store.settings.topic("ingest")
    line = f"Kafka at {store.settings.bootstrap}: topic {topic} is gone from the broker"
    assert all(text.startswith(line) and "'muster reset'" in text for text in found)
    assert loop.time() - began_s < 60  # some 8 s, more where others use the machine


async def watched(reader: KafkaBus, notified: asyncio.Event) -> None:
    await notified.wait()
    notified.clear()
    await reader.read(JOURNAL, 1)


async def alter_topic(settings: KafkaSettings, changes: dict[str, str]) -> None:
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    await admin.start()
    configs = topic_settings(settings) | changes
    topic = settings.topic("ingest")
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
    await admin.close()


async def test_a_changed_setting_is_reported_repeatedly(store: KafkaStore, monkeypatch, caplog):
    monkeypatch.setattr(topics, "LOOK_S", 0.4)
    monkeypatch.setattr(topics, "DOUBT_S", 0.1)
    clients = [await store.client() for _ in range(2)]
    await alter_topic(store.settings, {"retention.ms": "604800000"})
    topic = store.settings.topic("ingest")
    line = (
        f"Kafka at {store.settings.bootstrap}: topic {topic}: retention.ms is 604800000, "
        "must be -1; records may be lost: set it back"
    )
    async with asyncio.timeout(WAIT_S):
        while caplog.messages.count(line) < 3:  # noqa: ASYNC110 (the log gives no signal)
            await asyncio.sleep(0.05)
    await alter_topic(store.settings, {})
    assert await clients[0].append(JOURNAL, 0, b"goes on") == 0


async def test_a_record_over_the_topics_limit_is_named_and_not_stored(store: KafkaStore):
    writer = await store.client()
    await writer.append(JOURNAL, 0, b"0")
    await alter_topic(store.settings, {"max.message.bytes": "1000"})
    line = r"topic .*\.ingest: max\.message\.bytes is too small for a record of 4000 bytes"
    with pytest.raises(BusCorrupt, match=line):
        await writer.append(JOURNAL, 1, random.Random(1).randbytes(4_000))
    assert await writer.bounds(JOURNAL) == (0, 1)
    assert await writer.append(JOURNAL, 1, b"small") == 1


async def test_a_client_that_starts_while_the_broker_is_away_says_so(broker: KafkaBroker):
    settings = KafkaSettings(bootstrap=f"127.0.0.1:{free_ports(1)[0]}", connect_timeout_ms=2_000)
    async with asyncio.timeout(WAIT_S):
        with pytest.raises(BusUnavailable, match=rf"Kafka at {settings.bootstrap}.*check that"):
            await KafkaBus(settings, {"ingest": 1}).start()


async def test_a_server_that_never_answers_is_given_up(broker: KafkaBroker):
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = KafkaSettings(
        bootstrap=f"127.0.0.1:{port}", connect_timeout_ms=2_000, request_timeout_ms=500
    )
    async with server, asyncio.timeout(WAIT_S):
        with pytest.raises(BusUnavailable, match="Kafka at"):
            await KafkaBus(settings, {"ingest": 1}).start()


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "1000"), ("cleanup.policy", "compact"), ("max.message.bytes", "1000")],
)
async def test_a_topic_set_otherwise_is_named_with_the_setting(
    store: KafkaStore, name: str, value: str
):
    topic = store.settings.topic("ingest")
    admin = AIOKafkaAdminClient(**store.settings.client_arguments())
    await admin.start()
    configs = topic_settings(store.settings) | {name: value}
    await admin.create_topics([NewTopic(topic, 2, 1, topic_configs=configs)])
    await admin.close()
    with pytest.raises(BusUnavailable, match=rf"topic {topic}: {name} is {value}, must be"):
        await ensure_topics(store.settings, {"ingest": 2})


async def test_a_topic_with_too_few_partitions_is_named(store: KafkaStore):
    await ensure_topics(store.settings, {"ingest": 1})
    await ensure_topics(store.settings, {"ingest": 1})  # as it is: nothing to do
    with pytest.raises(BusUnavailable, match="has 1 partitions, needs 3"):
        await ensure_topics(store.settings, {"ingest": 3})


async def test_replication_that_the_cluster_cannot_give_is_named(broker: KafkaBroker):
    settings = KafkaSettings(bootstrap=broker.bootstrap, prefix="three")
    with pytest.raises(BusUnavailable, match=r"replication_factor 3 needs as many brokers"):
        await ensure_topics(settings, {"ingest": 1})


async def test_a_writer_is_not_sent_what_it_wrote_until_it_reads(store: KafkaStore):
    client = await store.client()
    await client.append(JOURNAL, 0, b"0")
    assert await client.read(JOURNAL, 0) == [(0, b"0")]
    for position in range(1, 30):
        await client.append(JOURNAL, position, b"%d" % position)
    feed = client._reader.feed(JOURNAL, 0)
    await asyncio.sleep(0.5)  # time for what must not come
    assert feed.next < 10
    position = 1
    while batch := await client.read(JOURNAL, position):
        assert [payload for _, payload in batch] == [b"%d" % at for at, _ in batch]
        position = batch[-1][0] + 1
    assert position == 30


async def test_a_resting_journal_delivers_every_record(store: KafkaStore):
    writer = await store.client()
    reader = KafkaBus(store.settings, {"ingest": 1}, rest_ms={"ingest": 50})
    await reader.start()
    notified = asyncio.Event()
    reader.watch(JOURNAL, 0, notified.set)
    position = 0
    for end in range(1, 20):
        await writer.append(JOURNAL, end - 1, b"%d" % end)
        while position < end:
            async with asyncio.timeout(WAIT_S):
                await notified.wait()
            notified.clear()
            for at, payload in await reader.read(JOURNAL, position):
                assert (at, payload) == (position, b"%d" % (position + 1))
                position += 1
    await reader.close()


async def test_a_reader_that_does_not_advance_uses_bounded_memory(store: KafkaStore, monkeypatch):
    # It must go on by itself: the search for stuck consumers does not help.
    monkeypatch.setattr(kafka_bus_reader, "STALL_CHECK_S", 2 * WAIT_S)
    writer, reader = await store.client(), await store.client()
    notified = asyncio.Event()
    reader.watch(JOURNAL, 0, notified.set)
    piece = bytes((at * 37) & 0xFF for at in range(1 << 20))
    for position in range(40):
        await writer.append(JOURNAL, position, piece)
    await notified.wait()
    feed = reader._reader.feed(JOURNAL, 0)
    for _ in range(1_000):
        if feed.paused:
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)  # time for what must not come
    assert feed.paused
    assert feed.size_bytes < 30 << 20
    position = 0
    async with asyncio.timeout(WAIT_S):
        while batch := await reader.read(JOURNAL, position):
            position = batch[-1][0] + 1
            assert all(payload == piece for _, payload in batch)
    assert position == 40
