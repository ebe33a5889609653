"""What depends on service names written in a table: each must name a service and what it reads."""

from unittest.mock import AsyncMock

import pytest

from muster.addresses import parse_bus
from muster.mesh import all_journals, make_core
from muster.rhythm import KAFKA_PACE_MS, KAFKA_REST_MS, LINGER_MS, PACE_MS, rhythm
from shared.adapters import kafka_bus
from shared.model.ids import service_of

READ = {
    service_of(name): {service_of(source) for source in make_core(name, 1).sources}
    for name in all_journals(1)
}


@pytest.mark.parametrize("table", [KAFKA_REST_MS, LINGER_MS])
def test_every_entry_is_of_a_service_and_what_it_reads(table: dict[str, dict[str, int]]):
    assert table.keys() <= READ.keys()
    for service, waits_ms in table.items():
        assert waits_ms.keys() <= READ[service]


async def test_a_kafka_client_lets_the_journals_of_its_service_rest(monkeypatch):
    made = {}

    def new_bus(_settings, _partitions, client_id, rest_ms):
        made[client_id] = dict(rest_ms)
        return AsyncMock()

    monkeypatch.setattr(kafka_bus, "KafkaBus", new_bus)
    clients = parse_bus("kafka://nowhere:1").clients({})
    await clients.open(["placement/2", "ingest/0"])
    assert made == {"muster-placement-2": {"binding": 40}, "muster-ingest-0": {}}


def test_only_ingest_keeps_a_pace_and_a_longer_one_over_kafka():
    addresses = ("sqlite:journals.db", PACE_MS), ("kafka://nowhere:1", KAFKA_PACE_MS)
    for address, pace_ms in addresses:
        told_ms = parse_bus(address).pace_ms
        paces_ms = {name: rhythm(make_core(name, 1), told_ms).pace_ms for name in all_journals(1)}
        assert paces_ms.pop("ingest/0") == pace_ms
        assert set(paces_ms.values()) == {0}
