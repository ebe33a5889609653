"""Claims at the start: the last owner of a journal claims at once, any other member after a
silence.
"""

import pytest

from shared.bus.memory import MemoryBus, MemoryLog
from shared.machine import member as members
from shared.machine.member import Member
from shared.machine.runtime import Host
from shared.model.ids import INGEST, JournalName, Position
from shared.snapshots.memory import MemorySnapshots
from tests.unit.machine.toy import HandClock, ToyIngest, inline, owner, turn


class CountingBus(MemoryBus):
    """Counts the records that are read."""

    def __init__(self, log: MemoryLog) -> None:
        super().__init__(log)
        self.count = 0

    async def read(
        self, journal: JournalName, start: Position, limit_bytes: int = 4 << 20
    ) -> list[tuple[Position, bytes]]:
        batch = await super().read(journal, start, limit_bytes)
        self.count += len(batch)
        return batch


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def wrote(log: MemoryLog, name: str, records: int) -> None:
    one = owner(ToyIngest(), MemoryBus(log), MemorySnapshots(), name=name)
    await one.claim()
    for revision in range(records):
        await turn(one, revision)


def member(log: MemoryLog, name: str) -> tuple[Member, CountingBus]:
    bus = CountingBus(log)
    host = Host(HandClock(), name, lambda: name, inline)
    return Member(INGEST, bus, host, lambda: owner(ToyIngest(), bus, MemorySnapshots())), bus


async def holder(log: MemoryLog) -> str:
    one, bus = member(log, "any")
    found = await one._holder(*(await bus.bounds(INGEST)))
    assert bus.count <= members.LAST_RECORDS + 1, "the journal is not read from its start"
    return found


@pytest.mark.parametrize("records", [0, 5, 500])
async def test_the_last_claim_names_the_owner(log: MemoryLog, records: int):
    await wrote(log, "one", records)
    assert await holder(log) == "one"
    await wrote(log, "two", records)
    assert await holder(log) == "two"


async def test_a_void_record_at_the_end_names_no_owner(log: MemoryLog):
    await wrote(log, "one", 3)
    bus = MemoryBus(log)
    stale = (await bus.read(INGEST, 2))[0][1]
    await wrote(log, "two", 2)
    await bus.append(INGEST, (await bus.bounds(INGEST))[1], stale)
    assert await holder(log) == "two"


async def test_a_cut_claim_names_no_owner(log: MemoryLog):
    await wrote(log, "one", 100)
    await MemoryBus(log).cut(INGEST, 50)
    assert await holder(log) == ""
