"""Kafka over TLS with client certificates and SASL, against a broker that demands both."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import msgspec
import pytest

from shared.bus.kafka.bus import KafkaBus
from shared.bus.kafka.settings import KafkaSettings
from shared.model.ids import JournalName
from shared.ports.bus import BusUnavailable
from tests.support.kafka_brokers import PASSWORD, secured_broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.xdist_group("kafka")]
JOURNAL = JournalName("ingest/0")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    """Yield the correct settings for the secure listener."""
    for secured in secured_broker(tmp_path_factory.mktemp("tls")):
        yield secured.settings


def open_sockets() -> int:
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the folder's own, closed by now
            found += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return found


@pytest.fixture(autouse=True)
async def connections_end() -> AsyncIterator[None]:
    """No test leaves a connection open, whether it was used or refused.

    aiokafka does not wait until one that it could not use is closed, and over TLS that takes
    several turns of the loop: one that ended earlier would leave it open.
    """
    before = open_sockets()
    yield
    async with asyncio.timeout(60):
        while open_sockets() > before:  # noqa: ASYNC110 (the kernel gives no signal)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
async def test_records_cross_a_secured_connection(settings: KafkaSettings, mechanism: str):
    prefix = mechanism.lower()
    chosen = msgspec.structs.replace(settings, sasl_mechanism=mechanism, prefix=prefix)
    bus = KafkaBus(chosen, {"ingest": 1})
    try:
        await bus.start()
        assert await bus.append(JOURNAL, 0, b"secret") == 0
        assert await bus.read(JOURNAL, 0) == [(0, b"secret")]
        await bus.cut(JOURNAL, 1)
        assert await bus.bounds(JOURNAL) == (1, 1)
    finally:
        await bus.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sasl_password_file", "wrong-password"),
        ("ssl_ca_file", "other-ca.pem"),
        ("security_protocol", "PLAINTEXT"),
        ("security_protocol", "SSL"),
    ],
)
async def test_a_wrong_credential_is_one_clear_line_in_bounded_time(
    settings: KafkaSettings, field: str, value: str
):
    assert settings.ssl_ca_file is not None
    if field.endswith("_file"):
        value = settings.ssl_ca_file.replace("ca.pem", value)
    wrong = msgspec.structs.replace(
        settings, connect_timeout_ms=4_000, request_timeout_ms=2_000, **{field: value}
    )
    async with asyncio.timeout(60):
        with pytest.raises(BusUnavailable) as raised:
            await KafkaBus(wrong, {"ingest": 1}).start()
    line = str(raised.value)
    assert line.startswith(f"Kafka at {settings.bootstrap} ({wrong.security_protocol})")
    assert "TLS and SASL settings" in line
    assert "\n" not in line
    assert PASSWORD not in line
