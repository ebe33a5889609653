"""Kafka settings: addresses, TLS, SASL, timeouts. They hold paths of secrets, never secrets."""

import asyncio
import ssl
from collections.abc import Awaitable
from pathlib import Path
from typing import Literal, TypeVar

from aiokafka.errors import KafkaError
from msgspec import Struct

from shared.ports.bus import BusUnavailable

T = TypeVar("T")


class KafkaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cluster and how to connect to it. Files are read when a client starts.

    The defaults keep acknowledged records through the loss of one broker of three.
    `request_timeout_ms` is less than half of `connect_timeout_ms`, so that a frozen broker leaves
    time to connect to another. `gather_ms`: the pause between fetches, so that more records come in
    one.
    """

    bootstrap: str
    prefix: str = "muster"
    replication_factor: int = 3
    min_insync_replicas: int = 2
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_ca_file: str | None = None
    ssl_cert_file: str | None = None
    ssl_key_file: str | None = None
    ssl_key_password_file: str | None = None
    ssl_verify: bool = True
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password_file: str | None = None
    connect_timeout_ms: int = 10_000
    request_timeout_ms: int = 4_000
    append_timeout_ms: int = 10_000
    gather_ms: int = 1

    def topic(self, service: str) -> str:
        """Return the topic of a service's journals; the partition is the service's partition."""
        return f"{self.prefix}.{service}"

    def client_arguments(self) -> dict[str, object]:
        """Return the arguments of every aiokafka client. Raises BusUnavailable naming an unusable
        file.

        The result holds secrets: pass it to clients only.
        """
        arguments: dict[str, object] = {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.security_protocol,
            "request_timeout_ms": self.request_timeout_ms,
        }
        if self.security_protocol in ("SSL", "SASL_SSL"):
            arguments["ssl_context"] = self._ssl_context()
        if self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
            if self.sasl_username is None or self.sasl_password_file is None:
                raise BusUnavailable(
                    f"Kafka at {self.bootstrap}: {self.security_protocol} needs sasl_username "
                    "and sasl_password_file"
                )
            arguments["sasl_mechanism"] = self.sasl_mechanism
            arguments["sasl_plain_username"] = self.sasl_username
            arguments["sasl_plain_password"] = _secret(
                "sasl_password_file", self.sasl_password_file
            )
        return arguments

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise BusUnavailable(f"ssl_ca_file {self.ssl_ca_file}: {error}") from error
        if self.ssl_cert_file is not None:
            password = None
            if self.ssl_key_password_file is not None:
                password = _secret("ssl_key_password_file", self.ssl_key_password_file)
            try:
                # An empty password instead of none: OpenSSL would otherwise prompt on the terminal.
                context.load_cert_chain(self.ssl_cert_file, self.ssl_key_file, password or "")
            except (OSError, ssl.SSLError) as error:
                raise BusUnavailable(
                    f"ssl_cert_file {self.ssl_cert_file}, ssl_key_file {self.ssl_key_file}: {error}"
                ) from error
        if not self.ssl_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def unreachable(self, error: BaseException) -> BusUnavailable:
        """Return the error for a cluster that does not answer."""
        reason = str(error) or type(error).__name__
        return BusUnavailable(
            f"Kafka at {self.bootstrap} ({self.security_protocol}): {reason}; check that the "
            "broker runs, the address, and the TLS and SASL settings"
        )

    async def reach(self, call: Awaitable[T], timeout_ms: int | None = None) -> T:
        """Await a call to the cluster for a bounded time. Raises BusUnavailable.

        Not by asyncio.wait_for: before Python 3.12 it loses a cancellation that comes together with
        the answer, and the task then ran for ever.
        """
        asked = asyncio.ensure_future(call)
        try:
            await asyncio.wait({asked}, timeout=(timeout_ms or self.connect_timeout_ms) / 1_000)
        finally:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        if asked.cancelled():
            raise self.unreachable(TimeoutError("no answer in time"))
        try:
            return asked.result()
        except (KafkaError, OSError) as error:
            raise self.unreachable(error) from error


def _secret(field: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise BusUnavailable(f"{field} {path}: {reason}") from error
