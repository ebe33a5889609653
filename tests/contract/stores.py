"""The storages of the bus contract: one class per adapter, which opens clients of one storage."""

from itertools import count
from pathlib import Path
from typing import Protocol

from shared.bus.kafka.bus import KafkaBus
from shared.bus.kafka.settings import KafkaSettings
from shared.bus.memory import MemoryBus, MemoryLog
from shared.bus.sqlite.bus import SqliteBus, SqliteLog
from shared.ports.bus import Bus

_prefixes = count()


class Store(Protocol):
    """Storage of one kind under test."""

    refuses: bool  # a stale append leaves no record
    partitions: dict[str, int]  # by service, for what must know before its first client

    async def client(self) -> Bus:
        """Return a new client."""
        ...

    async def close(self) -> None:
        """Close all clients; durable records stay."""
        ...


class MemoryStore:
    refuses = True

    def __init__(self) -> None:
        self.partitions = {"ingest": 1}
        self._log = MemoryLog()
        self._clients: list[MemoryBus] = []

    async def client(self) -> Bus:
        self._clients.append(MemoryBus(self._log))
        return self._clients[-1]

    async def close(self) -> None:
        for client in self._clients:
            await client.close()


class SqliteStore:
    """All clients on one log, as services in one process."""

    refuses = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.partitions = {"ingest": 1}
        self._log: SqliteLog | None = None

    async def client(self) -> Bus:
        if self._log is None:
            self._log = SqliteLog(self._path, exclusive=True)
        return SqliteBus(self._log)

    async def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


class SqliteSharedStore:
    """A log per client, as processes that share the file."""

    refuses = True

    def __init__(self, path: Path, ring_bytes: int) -> None:
        self._path = path
        self._ring_bytes = ring_bytes
        self.partitions = {"ingest": 1}
        self._logs: list[SqliteLog] = []

    async def client(self) -> Bus:
        self._logs.append(SqliteLog(self._path, ring_bytes=self._ring_bytes))
        return SqliteBus(self._logs[-1])

    async def close(self) -> None:
        for log in self._logs:
            log.close()
        self._logs.clear()


class KafkaStore:
    refuses = False

    def __init__(self, bootstrap: str, append_timeout_ms: int = 10_000) -> None:
        # Topics of its own: the broker serves the whole session.
        self.settings = KafkaSettings(
            bootstrap=bootstrap,
            prefix=f"contract{next(_prefixes)}",
            replication_factor=1,
            min_insync_replicas=1,
            append_timeout_ms=append_timeout_ms,
        )
        self.partitions = {"ingest": 1}
        self._clients: list[KafkaBus] = []

    async def client(self) -> KafkaBus:
        bus = KafkaBus(self.settings, self.partitions)
        self._clients.append(bus)
        await bus.start()
        return bus

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        self._clients.clear()
