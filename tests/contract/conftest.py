"""Fixtures of the contract suites: a storage of each kind, and the one real broker."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.contract.stores import (
    KafkaStore,
    MemoryStore,
    SqliteSharedStore,
    SqliteStore,
    Store,
)
from tests.support.kafka_brokers import running_broker
from tests.support.kafka_server import KafkaBroker

KINDS = [
    "memory",
    "sqlite",
    "sqlite_shared",
    # An empty ring: every read goes through SQL.
    "sqlite_without_ring",
    pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.xdist_group("kafka")]),
]


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    yield from running_broker()


def new_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    match kind:
        case "memory":
            return MemoryStore()
        case "sqlite":
            return SqliteStore(tmp_path / "bus.db")
        case "sqlite_shared":
            return SqliteSharedStore(tmp_path / "bus.db", ring_bytes=1 << 20)
        case "sqlite_without_ring":
            return SqliteSharedStore(tmp_path / "bus.db", ring_bytes=0)
        case "kafka":
            return KafkaStore(request.getfixturevalue("broker").bootstrap)
    raise AssertionError(kind)


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made = new_store(request.param, tmp_path, request)
    try:
        yield made
    finally:
        await made.close()
