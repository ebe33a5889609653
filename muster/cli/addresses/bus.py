"""Turns bus addresses of the command line into clients: `kafka://HOST:PORT/PREFIX` or
`sqlite:FILE`.
"""

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from muster.app.pacing import KAFKA_GATHER_MS, KAFKA_REST_MS, ONE_PROCESS, OVER_KAFKA, Pace
from muster.cli.errors import UsageFault
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.model.ids import service_of
from shared.ports.bus import Bus

if TYPE_CHECKING:
    # Kafka's client takes half a second to import; only commands that use it load it.
    from shared.bus.kafka.settings import KafkaSettings

LOOPBACK = "127.0.0.1"
EXAMPLES = "kafka://HOST:PORT[,HOST:PORT][/PREFIX][?setting=value&...] or sqlite:FILE"


@dataclass
class Clients:
    """Opened bus clients, one per service instance; `close` closes all of them."""

    open_one: Callable[[str], Awaitable[Bus]]
    after: Callable[[], None] = lambda: None
    opened: dict[str, Bus] = field(default_factory=dict)

    async def open(self, names: Sequence[str]) -> None:
        """Open a client for each name. Raises BusUnavailable."""
        for name in names:
            self.opened[name] = await self.open_one(name)

    async def close(self) -> None:
        """Close every client, then their common store."""
        for bus in self.opened.values():
            await bus.close()
        self.after()


@dataclass(frozen=True)
class BusAddress:
    """A checked address; nothing is open yet."""

    sqlite: Path | None = None
    kafka: "KafkaSettings | None" = None

    @property
    def place(self) -> str:
        """Return the file or broker as errors name it."""
        if self.kafka is not None:
            return f"Kafka at {self.kafka.bootstrap}"
        return str(self.sqlite)

    @property
    def identity(self) -> str:
        """Return the log that the processes of one mesh share, as they share a Lease."""
        if self.sqlite is not None:
            return f"sqlite:{self.sqlite.resolve()} on {socket.gethostname()}"
        assert self.kafka is not None, "an address is one of the two"
        return f"kafka://{self.kafka.bootstrap}/{self.kafka.prefix}"

    @property
    def pace(self) -> Pace:
        """Return the pace of turns."""
        return OVER_KAFKA if self.kafka is not None else ONE_PROCESS

    def clients(self, partitions: Mapping[str, int]) -> Clients:
        """Return unopened clients; `partitions` are the topics that Kafka must have."""
        if self.sqlite is not None:
            log = SqliteLog(self.sqlite)

            async def sqlite_client(_name: str) -> Bus:
                return SqliteBus(log)

            return Clients(sqlite_client, log.close)
        settings = self.kafka
        assert settings is not None, "an address is one of the two"

        from shared.bus.kafka.bus import KafkaBus

        async def kafka_client(name: str) -> Bus:
            service = service_of(name)
            gather_ms = max(settings.gather_ms, KAFKA_GATHER_MS.get(service, 0))
            own = msgspec.structs.replace(settings, gather_ms=gather_ms)
            rest_ms = KAFKA_REST_MS.get(service, {})
            bus = KafkaBus(own, partitions, f"muster-{name.replace('/', '-')}", rest_ms)
            await bus.start()
            return bus

        return Clients(kafka_client)


def parse_bus(address: str) -> BusAddress:
    """Return a checked address. Raises UsageFault naming the part that cannot be used."""
    scheme, colon, rest = address.partition(":")
    if colon and scheme == "sqlite" and rest:
        return BusAddress(sqlite=Path(rest))
    if colon and scheme == "kafka" and rest.startswith("//"):
        return BusAddress(kafka=_kafka(address))
    raise UsageFault(f"--bus {address}: must be {EXAMPLES}")


def _kafka(address: str) -> "KafkaSettings":
    from shared.bus.kafka.settings import KafkaSettings

    parts = urlsplit(address)
    prefix = parts.path.strip("/")
    hosts = parts.netloc.split(",")
    if any(not _is_host(host) for host in hosts):
        raise UsageFault(f"--bus {address}: every broker must be HOST:PORT")
    values: dict[str, Any] = {"bootstrap": parts.netloc}
    if prefix:
        values["prefix"] = prefix
    if len(hosts) == 1:
        # One address is usually one broker; settings ask for a cluster's three replicas.
        values |= {"replication_factor": 1, "min_insync_replicas": 1}
    values |= dict(parse_qsl(parts.query, keep_blank_values=True))
    try:
        return msgspec.convert(values, KafkaSettings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageFault(f"--bus {address}: {error}") from error


def parse_metrics(text: str) -> tuple[str, int] | None:
    """Return host and port of the metrics; None for no metrics. Raises UsageFault."""
    return None if text == "0" else parse_address("--metrics-port", text)


def parse_address(option: str, text: str) -> tuple[str, int]:
    """Return host and port to listen on. Raises UsageFault naming the option."""
    host, colon, port = text.rpartition(":")
    if not _is_host(f"{host if colon else LOOPBACK}:{port}"):
        raise UsageFault(f"{option} {text}: must be PORT (on {LOOPBACK}) or HOST:PORT")
    return host.strip("[]") or LOOPBACK, int(port)


def _is_host(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and port.isdigit() and 0 < int(port[:6]) < 1 << 16
