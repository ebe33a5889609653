"""Kafka over TLS with client certificates and SASL, against a broker that demands both."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from shared.adapters.kafka_bus import KafkaBus
from shared.adapters.kafka_bus_settings import KafkaSettings
from shared.ports.bus import BusUnavailable, journal_name
from shared.testing.kafka_server import (
    INSTALL_COMMAND,
    KafkaServer,
    java_kafka_installed,
)
from shared.testing.server_process import free_ports
from tests.tools import require_tool

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.xdist_group("kafka")]
JOURNAL = journal_name("ingest", 0)
PASSWORD = "open-sesame"
SUBJECT = "/CN=muster-test"


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_certificates(folder: Path) -> None:
    """ca.pem signs one certificate, for 127.0.0.1, that both sides show; other-ca.pem does not."""
    new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("ca", "other-ca"):
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        openssl(folder, "req", "-x509", *new_key, *files, "-subj", f"/CN={name}", "-days", "2")
    openssl(folder, "req", *new_key, "-keyout", "key.pem", "-out", "request", "-subj", SUBJECT)
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    signed_by = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"]
    files = ["-in", "request", "-out", "cert.pem", "-extfile", "names"]
    openssl(folder, "x509", "-req", *signed_by, *files, "-days", "2")
    pieces = [(folder / name).read_text() for name in ("key.pem", "cert.pem", "ca.pem")]
    (folder / "server.pem").write_text("".join(pieces))


def secure_listener(folder: Path, plain: str, controller: str, secure: int) -> str:
    return f"""
listeners=PLAINTEXT://{plain},CONTROLLER://{controller},SECURE://127.0.0.1:{secure}
advertised.listeners=PLAINTEXT://{plain},SECURE://127.0.0.1:{secure}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.secure.ssl.client.auth=required
listener.name.secure.sasl.enabled.mechanisms=SCRAM-SHA-512,PLAIN
listener.name.secure.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_muster="{PASSWORD}";
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaSettings]:
    """How to reach the secure listener, correctly."""
    require_tool("kafka", INSTALL_COMMAND, found=java_kafka_installed())
    require_tool("openssl", "apt-get install openssl")
    folder = tmp_path_factory.mktemp("tls")
    make_certificates(folder)
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "wrong-password").write_text("guess\n")
    scram = f"SCRAM-SHA-512=[name=muster,password={PASSWORD}]"
    plain, controller, secure = free_ports(3)
    more = secure_listener(folder, f"127.0.0.1:{plain}", f"127.0.0.1:{controller}", secure)
    more += f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
    with KafkaServer(more, ["--add-scram", scram]):
        yield KafkaSettings(
            bootstrap=f"127.0.0.1:{secure}",
            replication_factor=1,
            min_insync_replicas=1,
            security_protocol="SASL_SSL",
            ssl_ca_file=str(folder / "ca.pem"),
            ssl_cert_file=str(folder / "cert.pem"),
            ssl_key_file=str(folder / "key.pem"),
            sasl_username="muster",
            sasl_password_file=str(folder / "password"),
        )


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
        while open_sockets() > before:  # noqa: ASYNC110 (the kernel tells nobody)
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
