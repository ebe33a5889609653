"""The journals' topics: created with the settings that journals need, checked if they exist.

An existing topic is never changed: its owner must decide. A client checks the topics again while it
runs: they may be deleted or changed, or the broker may return with an empty disk.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from shared.bus.kafka.closing import close_client
from shared.bus.kafka.settings import KafkaSettings
from shared.model.ids import Position
from shared.ports.bus import RECORD_BYTES_MAX, BusCorrupt, BusUnavailable

log = logging.getLogger("muster.bus.kafka")

# A record and the batch around it, with room for a header.
MESSAGE_BYTES_MAX = 2 * RECORD_BYTES_MAX
_NO_ERROR = 0
_ALREADY_EXISTS = 36
_INVALID_REPLICATION_FACTOR = 38
_LEADER_WAIT_S = 0.05
# How often a client checks its topics, and how soon again after a doubt.
LOOK_S = 120.0
DOUBT_S = 2.0
# A starting broker may not know its topics at once: it is asked twice.
ASK_AGAIN_S = 3.0
# How soon a start asks a cluster again of which a broker did not answer.
ASK_SOON_S = 0.5


class TopicDiffers(BusUnavailable):
    """A topic exists with settings that journals cannot use."""


def topic_settings(settings: KafkaSettings) -> dict[str, str]:
    """Return the required topic settings: nothing expires, nothing is compacted or lost
    silently.
    """
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "min.insync.replicas": str(settings.min_insync_replicas),
        "max.message.bytes": str(MESSAGE_BYTES_MAX),
        "unclean.leader.election.enable": "false",
        "compression.type": "producer",
    }


async def ensure_topics(settings: KafkaSettings, partitions: Mapping[str, int]) -> None:
    """Create missing topics of the services and check all. `partitions` is by service.

    Raises BusUnavailable if the cluster cannot be reached or a topic differs. The library asks
    brokers by chance, also one that froze or died: it is left out only after some seconds. So each
    broker but the first adds `connect_timeout_ms` in which the cluster is asked again.
    """
    wanted = {settings.topic(service): count for service, count in partitions.items()}
    others = settings.bootstrap.count(",")
    clock = asyncio.get_running_loop().time
    until_s = clock() + others * settings.connect_timeout_ms / 1_000
    while True:
        try:
            await _ensure(settings, wanted)
            return
        except BusUnavailable as error:
            if clock() >= until_s or isinstance(error, TopicDiffers):
                raise
        await asyncio.sleep(ASK_SOON_S)


async def _ensure(settings: KafkaSettings, wanted: Mapping[str, int]) -> None:
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    try:
        await settings.reach(admin.start())
        await settings.reach(_create(settings, admin, wanted))
        await settings.reach(_wait_for_leaders(settings, admin, wanted))
        await settings.reach(_check_settings(settings, admin, wanted))
    finally:
        await close_client(admin)


class TopicWatch:
    """Checks the topics while a client runs. `lost` is called once when one is gone; a changed
    setting is a warning at each check, since records may expire.
    """

    # Several clients of a process check the same topics: one reports.
    _told_at: ClassVar[dict[str, float]] = {}

    def __init__(
        self,
        settings: KafkaSettings,
        partitions: Mapping[str, int],
        lost: Callable[[BusCorrupt], None],
    ) -> None:
        self._settings = settings
        self._wanted = {settings.topic(service): count for service, count in partitions.items()}
        self._lost = lost
        self._doubted = asyncio.Event()

    def doubt(self) -> None:
        """Request an early check after a failure or a slow call."""
        self._doubted.set()

    async def run(self) -> None:
        """Check until a topic is gone; retry if the broker does not answer."""
        while True:
            doubt = asyncio.ensure_future(self._doubted.wait())
            try:
                await asyncio.wait({doubt}, timeout=LOOK_S)
            finally:
                doubt.cancel()
            self._doubted.clear()
            try:
                await self._look()
            except BusCorrupt as error:
                self._lost(error)
                return
            except TopicDiffers as error:
                self._warn(f"{error}; records may be lost: set it back")
            except BusUnavailable:
                self._doubted.set()
            except Exception:  # no error of the library may end later checks
                log.warning("looking at the topics of %s failed", self._settings.bootstrap)
            await asyncio.sleep(DOUBT_S)

    async def _look(self) -> None:
        """Check the topics once. Raises BusCorrupt, TopicDiffers, BusUnavailable."""
        settings, wanted = self._settings, self._wanted
        admin = AIOKafkaAdminClient(**settings.client_arguments())
        try:
            await settings.reach(admin.start())
            missing = await self._missing(admin)
            if missing:
                await asyncio.sleep(ASK_AGAIN_S)
                missing = [topic for topic in await self._missing(admin) if topic in missing]
            if missing:
                raise BusCorrupt(
                    f"Kafka at {settings.bootstrap}: topic {missing[0]} is gone from the broker, "
                    "and its records with it: run 'muster reset', and start with an empty --run-dir"
                )
            await settings.reach(_check_settings(settings, admin, wanted))
        finally:
            await close_client(admin)

    async def _missing(self, admin: AIOKafkaAdminClient) -> list[str]:
        """Return the missing topics. All topics are listed, because a broker may create one that is
        requested by name.
        """
        present = set(await self._settings.reach(admin.list_topics()))
        return [topic for topic in self._wanted if topic not in present]

    def _warn(self, text: str) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._told_at.get(text, now - LOOK_S) >= LOOK_S / 2:
            self._told_at[text] = now
            log.warning("%s", text)


async def delete_records(
    settings: KafkaSettings, topic: str, partition: int, below: Position
) -> None:
    """Drop a partition's records below an offset. Raises BusUnavailable."""
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    try:
        await settings.reach(admin.start())
        request = {TopicPartition(topic, partition): RecordsToDelete(below)}
        await settings.reach(admin.delete_records(request), settings.request_timeout_ms)
    finally:
        await close_client(admin)


async def _create(
    settings: KafkaSettings, admin: AIOKafkaAdminClient, wanted: Mapping[str, int]
) -> None:
    present = set(await admin.list_topics())
    missing = [topic for topic in wanted if topic not in present]
    if not missing:
        return
    response = await admin.create_topics(
        [
            NewTopic(
                topic,
                wanted[topic],
                settings.replication_factor,
                topic_configs=topic_settings(settings),
            )
            for topic in missing
        ]
    )
    for topic, code, *_ in response.topic_errors:
        if code == _INVALID_REPLICATION_FACTOR:
            raise _differs(
                settings,
                topic,
                f"replication_factor {settings.replication_factor} needs as many brokers; "
                "add brokers or set replication_factor and min_insync_replicas",
            )
        # Another process may have created it in the meantime.
        if code not in (_NO_ERROR, _ALREADY_EXISTS):
            raise _differs(settings, topic, f"cannot be created: {for_code(code).__name__}")


async def _wait_for_leaders(
    settings: KafkaSettings, admin: AIOKafkaAdminClient, wanted: Mapping[str, int]
) -> None:
    while True:
        found: list[dict[str, Any]] = await admin.describe_topics(list(wanted))
        led = {
            topic["topic"]: sum(part["leader"] >= 0 for part in topic["partitions"])
            for topic in found
            if topic["error_code"] == _NO_ERROR
        }
        _check_partitions(settings, found, wanted)
        if all(led.get(topic, 0) >= count for topic, count in wanted.items()):
            return
        await asyncio.sleep(_LEADER_WAIT_S)


def _check_partitions(
    settings: KafkaSettings, found: list[dict[str, Any]], wanted: Mapping[str, int]
) -> None:
    for topic in found:
        have, needs = len(topic["partitions"]), wanted[topic["topic"]]
        if topic["error_code"] == _NO_ERROR and 0 < have < needs:
            raise _differs(settings, topic["topic"], f"has {have} partitions, needs {needs}")


async def _check_settings(
    settings: KafkaSettings, admin: AIOKafkaAdminClient, wanted: Mapping[str, int]
) -> None:
    expected = topic_settings(settings)
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in wanted]
    for response in await admin.describe_configs(resources):
        for code, message, _, topic, entries in response.resources:
            if code != _NO_ERROR:
                what = f"topic {topic}: cannot be described: {message or code}"
                raise BusUnavailable(f"Kafka at {settings.bootstrap}: {what}")
            actual = {entry[0]: entry[1] for entry in entries}
            for name, value in expected.items():
                if not _fits(name, actual.get(name), value):
                    raise _differs(
                        settings, topic, f"{name} is {actual.get(name)}, must be {value}"
                    )


def _fits(name: str, actual: str | None, expected: str) -> bool:
    if name == "max.message.bytes":
        return actual is not None and int(actual) >= int(expected)
    return actual == expected


def _differs(settings: KafkaSettings, topic: str, what: str) -> TopicDiffers:
    return TopicDiffers(f"Kafka at {settings.bootstrap}: topic {topic}: {what}")
