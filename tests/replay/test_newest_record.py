"""The newest valid record is the one that a reader of the whole journal would find last."""

import pytest

from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.base import Event
from shared.events.queueing import LaneFreed
from shared.machine.core import Cursor
from shared.machine.reader import Reader
from shared.machine.record import Claim, Record, encode, own_events, received_of, slice_events
from shared.model.ids import QUEUEING, Position
from shared.replay import newest_record
from shared.replay.newest_record import newest
from tests.replay.recorded_run import JOURNALS, recorded

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]


@pytest.fixture(scope="module")
def run():
    return recorded(3)


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("window", [7, 1_000])
async def test_the_newest_valid_record_is_found(run, journal, window, monkeypatch):
    monkeypatch.setattr(newest_record, "WINDOW_RECORDS", window)
    reader = Reader(journal, Cursor())
    valid = list(reader.accept_all(list(enumerate(run.records[journal]))))
    expected: dict[type[Event], Position] = {}
    for position, record in valid:
        received = received_of(record, journal, position)
        for event in (*received, *own_events(record, journal, position)):
            expected[type(event)] = position
    assert expected
    for kind, position in expected.items():

        def is_one(event: Event, kind: type[Event] = kind) -> bool:
            return isinstance(event, kind)

        found = await newest(run.bus(), reader, is_one)
        assert found is not None, kind
        assert (found.journal, found.position) == (journal, position), kind
        assert isinstance(found.event, kind)
    assert await newest(run.bus(), reader, lambda event: False) is None


async def test_void_records_count_for_nothing():
    """One of the older owner's lands after the claim of the next."""
    bus, journal = MemoryBus(MemoryLog()), QUEUEING
    records = [
        Record(-1, 0, 10, claim=Claim("a", "1", 1)),
        Record(0, 1, 20, slices=slice_events([LaneFreed(1)])),
        Record(-1, 0, 30, claim=Claim("b", "2", 1)),
        Record(0, 2, 40, slices=slice_events([LaneFreed(2)])),
        Record(2, 1, 50),
    ]
    for position, record in enumerate(records):
        await bus.append(journal, position, encode(record))
    reader = Reader(journal, Cursor())
    list(reader.accept_all(await bus.read(journal, 0)))
    assert (reader.term, reader.voids) == (2, 1)
    found = await newest(bus, reader, lambda event: isinstance(event, LaneFreed))
    assert found is not None
    assert (found.position, found.event) == (1, LaneFreed(1))


async def test_the_search_stops_at_records_that_are_too_old(run, monkeypatch):
    monkeypatch.setattr(newest_record, "WINDOW_RECORDS", 7)
    journal = JOURNALS[0]
    reader = Reader(journal, Cursor())
    ends = [record for _at, record in reader.accept_all(list(enumerate(run.records[journal])))]
    late_ms = ends[-1].time_ms + 1
    seen = []

    def look(event: Event) -> bool:
        seen.append(event)
        return False

    assert await newest(run.bus(), reader, look, late_ms) is None
    few = len(seen)
    assert await newest(run.bus(), reader, look) is None
    assert few < len(seen) - few
