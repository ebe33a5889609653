"""The journals' topics: created with the settings that journals need, checked when they exist.

It never changes a topic that is there: whoever set it otherwise must decide.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

from shared.adapters.kafka_bus_settings import KafkaSettings
from shared.ports.bus import RECORD_BYTES_MAX, BusUnavailable

# A record and the batch around it, with room for a header.
MESSAGE_BYTES_MAX = 2 * RECORD_BYTES_MAX
_NO_ERROR = 0
_ALREADY_EXISTS = 36
_INVALID_REPLICATION_FACTOR = 38
_LEADER_WAIT_S = 0.05


def topic_settings(settings: KafkaSettings) -> dict[str, str]:
    """What a journal's topic must have: nothing expires, nothing is compacted or lost quietly."""
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
    """Create the services' topics that are missing; check all. `partitions` is by service.

    Raises BusUnavailable when the cluster cannot be reached or a topic differs.
    """
    wanted = {settings.topic(service): count for service, count in partitions.items()}
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    try:
        await settings.reach(admin.start())
        await settings.reach(_create(settings, admin, wanted))
        await settings.reach(_wait_for_leaders(settings, admin, wanted))
        await settings.reach(_check_settings(settings, admin, wanted))
    finally:
        await admin.close()


async def delete_records(settings: KafkaSettings, topic: str, partition: int, below: int) -> None:
    """Drop a partition's records below an offset. Raises BusUnavailable."""
    admin = AIOKafkaAdminClient(**settings.client_arguments())
    try:
        await settings.reach(admin.start())
        request = {TopicPartition(topic, partition): RecordsToDelete(below)}
        await settings.reach(admin.delete_records(request), settings.request_timeout_ms)
    finally:
        await admin.close()


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
        for topic in found:
            have = len(topic["partitions"])
            if topic["error_code"] == _NO_ERROR and 0 < have < wanted[topic["topic"]]:
                raise _differs(
                    settings,
                    topic["topic"],
                    f"has {have} partitions, needs {wanted[topic['topic']]}",
                )
        if all(led.get(topic, 0) >= count for topic, count in wanted.items()):
            return
        await asyncio.sleep(_LEADER_WAIT_S)


async def _check_settings(
    settings: KafkaSettings, admin: AIOKafkaAdminClient, wanted: Mapping[str, int]
) -> None:
    expected = topic_settings(settings)
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in wanted]
    for response in await admin.describe_configs(resources):
        for code, message, _, topic, entries in response.resources:
            if code != _NO_ERROR:
                raise _differs(settings, topic, f"cannot be described: {message or code}")
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


def _differs(settings: KafkaSettings, topic: str, what: str) -> BusUnavailable:
    return BusUnavailable(f"Kafka at {settings.bootstrap}: topic {topic}: {what}")
