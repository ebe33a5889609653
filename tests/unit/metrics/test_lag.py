"""Lag: what an owner has not read yet of each journal that it reads."""

import pytest

from muster.metrics.collector import registry_with
from muster.metrics.follow import Followed
from muster.metrics.lag import Lag
from shared.bus.memory import MemoryBus, MemoryLog
from shared.model.ids import JournalName, Position
from shared.ports.bus import BusUnavailable
from shared.snapshots.memory import MemorySnapshots
from tests.unit.machine.toy import ToyIngest, ToyQueueing, owner, turn

LABELS = {"journal": "queueing/0", "source": "ingest/0"}


class Away(MemoryBus):
    """A bus that does not say where journals end."""

    async def bounds(self, journal: JournalName) -> tuple[Position, Position]:
        raise BusUnavailable("refused")


@pytest.mark.parametrize("is_here", [True, False])
async def test_lag_is_the_records_that_a_turn_will_read(is_here: bool):
    bus = MemoryBus(MemoryLog())
    source, reader = (owner(core, bus, MemorySnapshots()) for core in (ToyIngest(), ToyQueueing()))
    await source.claim()
    await reader.claim()
    lag = Lag(lambda: [source, reader] if is_here else [reader])
    registry = registry_with(Followed(), list, lag=lag)
    assert registry.get_sample_value("muster_reader_lag_records", LABELS) is None
    await turn(source, 1)
    await turn(source, 2)
    await lag.measure()
    assert registry.get_sample_value("muster_reader_lag_records", LABELS) == 3
    await reader._turn()
    await lag.measure()
    assert registry.get_sample_value("muster_reader_lag_records", LABELS) == 0


async def test_a_source_is_missing_while_the_bus_does_not_answer():
    bus = MemoryBus(MemoryLog())
    reader = owner(ToyQueueing(), bus, MemorySnapshots())
    await reader.claim()
    lag = Lag(lambda: [reader])
    await lag.measure()
    assert lag.records == {("queueing/0", "ingest/0"): 0}
    reader.bus = Away(MemoryLog())
    await lag.measure()
    assert lag.records == {}
