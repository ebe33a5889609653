"""Pacing by service names in tables: each entry must name a service and a journal that it reads."""

from unittest.mock import AsyncMock

import pytest

from muster.app.journals import all_journals
from muster.app.mesh import make_core
from muster.app.pacing import (
    ALONE_MS,
    KAFKA_REST_MS,
    LINGER_MS,
    ONE_PROCESS,
    OVER_KAFKA,
    VIRTUAL,
    Pace,
    rhythm,
)
from muster.cli.addresses.bus import parse_bus
from shared.bus.kafka import bus
from shared.machine.runtime import HEARTBEAT_MS
from shared.model.ids import BINDING, INGEST, service_of

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

    monkeypatch.setattr(bus, "KafkaBus", new_bus)
    clients = parse_bus("kafka://nowhere:1").clients({})
    await clients.open(["placement/2", "ingest/0"])
    assert made == {"muster-placement-2": {"binding": 40}, "muster-ingest-0": {}}


@pytest.mark.parametrize(
    ("address", "pace"), [("sqlite:journals.db", ONE_PROCESS), ("kafka://nowhere:1", OVER_KAFKA)]
)
def test_ingest_alone_keeps_a_pace_and_only_outcomes_of_binds_wait(address, pace):
    told = parse_bus(address).pace
    assert told == pace
    rhythms = {name: rhythm(make_core(name, 1), told) for name in all_journals(1)}
    paces_ms = {name: one.pace_ms for name, one in rhythms.items()}
    offers_ms = {name: one.submissions_ms for name, one in rhythms.items()}
    assert paces_ms == dict.fromkeys(rhythms, 0) | {INGEST: pace.turns_ms}
    assert offers_ms == dict.fromkeys(rhythms, 0) | {BINDING: pace.outcomes_ms}


def test_over_kafka_turns_are_further_apart_and_outcomes_wait_for_nothing():
    assert OVER_KAFKA.turns_ms > ONE_PROCESS.turns_ms
    assert OVER_KAFKA.outcomes_ms == 0


@pytest.mark.parametrize(
    ("pace", "is_alone", "quiet_ms"),
    [
        (ONE_PROCESS, True, ALONE_MS),
        (OVER_KAFKA, False, HEARTBEAT_MS),
        (VIRTUAL, True, HEARTBEAT_MS),
    ],
)
def test_quiet_inputs_cost_no_records_of_their_own_on_the_wall_clock(
    pace: Pace, is_alone: bool, quiet_ms: int
):
    """On virtual time an owner rests for an hour, which is too long for an answer of `why`."""
    for name in all_journals(1):
        assert rhythm(make_core(name, 1), pace, is_alone).quiet_ms == quiet_ms
