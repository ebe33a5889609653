"""Journals that are shorter than they were: no owner continues as if nothing had happened."""

import asyncio

import pytest

from shared.bus.memory import MemoryBus, MemoryLog
from shared.machine.reader import JournalGap
from shared.machine.snapshots import SnapshotPolicy
from shared.snapshots.memory import MemorySnapshots
from tests.unit.machine.toy import ToyIngest, ToyQueueing, owner, turn

LOST = "before: the bus lost records; run 'muster reset'"


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(MemoryLog())


@pytest.fixture
def empty() -> MemoryBus:
    return MemoryBus(MemoryLog())


@pytest.fixture
def store() -> MemorySnapshots:
    return MemorySnapshots()


async def test_an_owner_ends_when_its_record_lands_below_its_journals_end(bus, empty, store):
    one = owner(ToyIngest(), bus, store)
    await one.claim()
    await turn(one, 3)
    one.bus = empty
    with pytest.raises(JournalGap, match=f"ingest/0: ends at 0, but went up to 2 {LOST}"):
        async with asyncio.timeout(10):
            await turn(one, 4)


async def test_a_snapshot_past_the_journals_end_claims_nothing(bus, empty, store):
    one = owner(ToyIngest(), bus, store, policy=SnapshotPolicy(every_records=1))
    await one.claim()
    await turn(one, 3)
    await turn(one, 4)  # with the snapshot
    with pytest.raises(JournalGap, match=f"ingest/0: ends at 0, but went up to 3 {LOST}"):
        await owner(ToyIngest(), empty, store, name="two").claim()
    assert await empty.bounds(one.journal) == (0, 0)


async def test_a_source_that_ends_before_it_was_read_claims_nothing(bus, empty, store):
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    await turn(source, 3)
    reader = owner(ToyQueueing(), bus, store, policy=SnapshotPolicy(every_records=1))
    await reader.claim()
    for revision in (4, 5):
        await turn(source, revision)
        await turn(reader)
    for position, payload in await bus.read(reader.journal, 0):  # its own journal is there
        await empty.append(reader.journal, position, payload)
    with pytest.raises(JournalGap, match=f"ingest/0: ends at 0, but went up to 4 {LOST}"):
        await owner(ToyQueueing(), empty, store, name="two").claim()
