"""The real brokers that tests share: one per module, one per session, and one with TLS and SASL."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec

from shared.bus.kafka.settings import KafkaSettings
from tests.support.kafka_server import (
    INSTALL_COMMAND,
    KafkaBroker,
    KafkaServer,
    java_kafka_installed,
    kafka_available,
    new_broker,
)
from tests.support.required_tools import require_tool
from tests.support.server_process import free_ports

PASSWORD = "open-sesame"
SUBJECT = "/CN=muster-test"


def running_broker() -> Iterator[KafkaBroker]:
    """Yield a running broker to a fixture; tests that kill it start it again."""
    require_tool("kafka", INSTALL_COMMAND, found=kafka_available())
    server = new_broker()
    try:
        server.start()
        yield server
    finally:
        server.stop()


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


class Secured(msgspec.Struct, frozen=True):
    """The correct settings for a broker's secure listener, and for its plain one."""

    settings: KafkaSettings
    plain: str


AUTHORIZER = """
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
"""Settings with which a user may do what rules allow; the plain listener may do everything."""


def secured_broker(folder: Path, more_settings: str = "") -> Iterator[Secured]:
    """Yield a broker that demands client certificates and SASL; its secrets are in the folder."""
    require_tool("kafka", INSTALL_COMMAND, found=java_kafka_installed())
    require_tool("openssl", "apt-get install openssl")
    make_certificates(folder)
    (folder / "password").write_text(PASSWORD + "\n")
    (folder / "wrong-password").write_text("guess\n")
    scram = f"SCRAM-SHA-512=[name=muster,password={PASSWORD}]"
    plain, controller, secure = free_ports(3)
    more = secure_listener(folder, f"127.0.0.1:{plain}", f"127.0.0.1:{controller}", secure)
    more += f"controller.quorum.voters=1@127.0.0.1:{controller}\n{more_settings}"
    with KafkaServer(more, ["--add-scram", scram]):
        settings = KafkaSettings(
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
        yield Secured(settings, f"127.0.0.1:{plain}")
