"""Before a claim, unreadable records are found and nothing is changed. After it, all earlier
records are folded.
"""

import re

import msgspec
import pytest

from shared.bus.memory import MemoryBus, MemoryLog
from shared.machine import runtime
from shared.machine.fold import fold
from shared.machine.record import Claim, Record, RecordUnreadable, Slice, encode
from shared.machine.runtime import OwnershipLost
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import INGEST, QUEUEING
from shared.snapshots.memory import MemorySnapshots
from tests.unit.machine.toy import HandClock, ToyIngest, ToyQueueing, owner, turn


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(MemoryLog())


@pytest.fixture
def store() -> MemorySnapshots:
    return MemorySnapshots()


async def unreadable(bus, journal, version):
    """Append what a newer version may write: another format, its claim, a new event, or a new
    observation.
    """
    _first, end = await bus.bounds(journal)
    new = msgspec.msgpack.encode([{"type": "brand_new"}])
    records = {
        "claim": Record(-1, 0, 1, claim=Claim("new", "n", 99)),
        "event": Record(0, 2, 1, slices=(Slice(("queueing",), new),)),
        "received": Record(0, 2, 1, received=new),
    }
    payload = encode(records.get(version, Record(0, 2, 1)))
    await bus.append(journal, end, b"M9" + payload[2:] if version == "format" else payload)


EVENT = "an event cannot be read (Invalid value 'brand_new' - at `$[0].type`): written by a newer "
SAYS = {
    "format": "format b'M9' is not b'M1': not a record of Muster, or one of another",
    "claim": "claim.version: 99 is not 1: written by a newer version; use that",
    "event": EVENT,
    "received": EVENT,
}


@pytest.mark.parametrize(
    ("journal", "version"),
    [(QUEUEING, one) for one in SAYS] + [(INGEST, one) for one in SAYS if one != "received"],
)
async def test_records_of_a_newer_version_are_named_and_nothing_is_claimed(
    bus, store, journal, version
):
    for core in (ToyIngest(), ToyQueueing()):
        one = owner(core, bus, store)
        await one.claim()
        await turn(one, 1)
    await unreadable(bus, journal, version)
    for revision in range(3):  # more of it, which the new owner would come to later
        await bus.append(journal, 3 + revision, encode(Record(0, 3 + revision, 1)))
    before = [await bus.read(name, 0) for name in (INGEST, QUEUEING)]
    with pytest.raises(RecordUnreadable, match=re.escape(f"{journal} at 2: {SAYS[version]}")):
        await owner(ToyQueueing(), bus, store, name="two").claim()
    assert [await bus.read(name, 0) for name in (INGEST, QUEUEING)] == before


async def test_an_owner_reads_all_records_ahead_before_its_claim(bus, store, monkeypatch):
    read = MemoryBus.read
    monkeypatch.setattr(MemoryBus, "read", lambda self, name, start: read(self, name, start, 1))
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    for revision in range(9):
        await turn(source, revision)
    await unreadable(bus, INGEST, "format")
    with pytest.raises(RecordUnreadable, match="ingest/0 at 10: format"):
        await owner(ToyQueueing(), bus, store).claim()
    assert await bus.bounds(QUEUEING) == (0, 0)


async def test_a_journal_is_folded_once_unless_others_write_before_the_claim(
    bus, store, monkeypatch
):
    folds = 0

    async def counted(*args):
        nonlocal folds
        folds += 1
        return await fold(*args)

    monkeypatch.setattr(runtime, "fold", counted)
    first = owner(ToyIngest(), bus, store)
    await first.claim()
    await turn(first, 1)
    late = owner(ToyIngest(), bus, store, name="late")
    await late.read_ahead()
    heir = owner(ToyIngest(), bus, store, name="two")
    await heir.claim()
    assert (folds, heir.state.total) == (3, 1)
    await turn(heir, 2)
    await late.claim()
    assert (folds, late.state.total) == (4, 3)
    await turn(late, 4)
    with pytest.raises(OwnershipLost):
        await turn(heir, 8)
    assert (await fold(ToyIngest(), bus, store))[0].state.total == 7


async def test_a_journal_may_be_cut_between_a_look_and_the_claim(bus, store):
    late = owner(ToyIngest(), bus, store, name="late")
    await late.read_ahead()
    heir = owner(ToyIngest(), bus, store, policy=SnapshotPolicy(every_records=2, keep=3, cut=True))
    await heir.claim()
    for revision in range(12):
        await turn(heir, revision)
    assert (await bus.bounds(INGEST))[0] > 0
    await late.claim()
    assert late.state.total == sum(range(12))


async def test_a_claim_lets_downtime_pass_and_its_clock_stays(bus, store):
    """docs/adr/0023: the journal's time continues from the newest owner's clock."""
    day_ms = 24 * 3_600_000
    first = owner(ToyIngest(), bus, store, HandClock(1_000))
    await first.claim()
    await turn(first, 1)
    ahead = owner(ToyIngest(), bus, store, HandClock(day_ms), name="two")
    await ahead.claim()
    assert ahead.state.now_ms == day_ms
    clock = HandClock(2_000)
    right = owner(ToyIngest(), bus, store, clock, name="three")
    await right.claim()
    assert right.state.now_ms == day_ms
    clock.at_ms += 700
    await turn(right, 1)
    assert right.state.now_ms == day_ms + 700
