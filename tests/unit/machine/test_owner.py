"""One owner, two owners, and how readers see both."""

import asyncio

import pytest

from shared.bus.memory import MemoryBus, MemoryLog
from shared.events.ingest import SourceAdvanced
from shared.events.observed import WatchAdvanced
from shared.machine import runtime
from shared.machine.core import Cursor
from shared.machine.fold import Folded, NeedsReset, fold
from shared.machine.reader import Reader
from shared.machine.record import RecordUnreadable, decode, encode
from shared.machine.runtime import HEARTBEAT_MS, EpochOver, OwnershipLost, Rhythm
from shared.machine.snapshots import SnapshotPolicy
from shared.model.ids import INGEST, QUEUEING, JournalName
from shared.ports.bus import AppendUnknown
from shared.snapshots.memory import MemorySnapshots
from tests.unit.machine.toy import (
    HandClock,
    ListShell,
    ToyIngest,
    ToyQueueing,
    owner,
    turn,
)


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus(MemoryLog())


@pytest.fixture
def store() -> MemorySnapshots:
    return MemorySnapshots()


async def test_the_next_owner_folds_the_recorded_events(bus, store):
    first = owner(ToyIngest(), bus, store)
    await first.claim()
    await turn(first, 3, 4)
    second = owner(ToyIngest(), bus, store, name="two")
    await second.claim()
    assert second.state.total == 7


async def test_inputs_are_consumed_exactly_once_across_a_takeover(bus, store):
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    await turn(source, 1, 2)
    first = owner(ToyQueueing(), bus, store)
    await first.claim()
    await turn(first)
    await turn(source, 4)
    second = owner(ToyQueueing(), bus, store, name="two")
    await second.claim()
    await turn(second)
    assert second.state.total == 7
    assert second.state.cursors[INGEST].next == 3


async def test_an_owner_decides_on_all_that_came_before_it(bus, store, monkeypatch):
    monkeypatch.setattr(runtime, "READ_BYTES_MAX", 1)
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    for number in (1, 2, 4):
        await turn(source, number)
    first = owner(ToyQueueing(), bus, store)
    await first.claim()
    await turn(first)
    assert first.state.total == 7
    for number in (8, 16):
        await turn(source, number)
    await turn(first)
    assert first.state.total < 31, "later turns are short"


async def test_a_zombie_finds_out_at_its_next_append_and_shows_nothing(bus, store):
    shell = ListShell()
    zombie = owner(ToyIngest(), bus, store, shell=shell)
    await zombie.claim()
    await turn(zombie, 1)
    heir = owner(ToyIngest(), bus, store, name="two")
    await heir.claim()
    with pytest.raises(OwnershipLost):
        await turn(zombie, 5)
    assert shell.effects == [1]


async def test_void_memory_that_contradicts_its_inputs_is_a_lost_ownership_and_no_defect(
    bus, store, monkeypatch
):
    def contradict(*_args):
        raise AssertionError("reserved twice")

    stale = owner(ToyIngest(), bus, store)
    await stale.claim()
    monkeypatch.setattr(stale.core, "decide", contradict)
    heir = owner(ToyIngest(), bus, store, name="two")
    await heir.claim()
    with pytest.raises(OwnershipLost):
        await stale.run()
    monkeypatch.setattr(heir.core, "decide", contradict)
    with pytest.raises(AssertionError, match="reserved twice"):
        await heir.run()


async def test_records_of_an_older_term_are_void_for_every_reader(bus, store):
    first = owner(ToyIngest(), bus, store)
    await first.claim()
    await turn(first, 1)
    heir = owner(ToyIngest(), bus, store, name="two")
    await heir.claim()
    stale = (await bus.read(INGEST, 1))[0][1]
    await bus.append(INGEST, 3, stale)
    reader = Reader(INGEST, Cursor())
    valid = [position for position, _ in reader.accept_all(await bus.read(INGEST, 0))]
    assert valid == [0, 1, 2]
    assert reader.voids == 1


async def test_void_records_between_do_not_end_an_ownership(bus, store):
    first = owner(ToyIngest(), bus, store)
    await first.claim()
    await turn(first, 1)
    heir = owner(ToyIngest(), bus, store, name="two")
    await heir.claim()
    await bus.append(INGEST, 3, (await bus.read(INGEST, 1))[0][1])
    await turn(heir, 2)
    folded, _ = await fold(ToyIngest(), bus, store)
    assert folded.state.total == 3


async def test_effects_wait_for_the_acknowledgement(bus, store, monkeypatch):
    shell = ListShell()
    member = owner(ToyIngest(), bus, store, shell=shell)
    await member.claim()

    async def lose(*_args):
        raise AppendUnknown("timed out")

    monkeypatch.setattr(bus, "append", lose)
    with pytest.raises(AppendUnknown):
        await turn(member, 9)
    assert shell.effects == []


async def test_a_new_owner_sends_open_effects_again(bus, store):
    first = owner(ToyIngest(), bus, store)
    await first.claim()
    await turn(first, 9)
    shell = ListShell()
    second = owner(ToyIngest(), bus, store, name="two", shell=shell)
    await second.claim()
    assert shell.effects == [9]


async def test_a_jump_of_the_clock_counts_as_two_seconds_and_never_goes_back(bus, store):
    clock = HandClock(1_000)
    member = owner(ToyIngest(), bus, store, clock)
    await member.claim()
    clock.at_ms = 500_000
    await turn(member, 1)
    assert member.state.now_ms == 3_000
    clock.at_ms = 400_000
    await turn(member, 1)
    assert member.state.now_ms == 3_000
    clock.at_ms = 400_100
    await turn(member, 1)
    assert member.state.now_ms == 3_100


async def test_a_step_without_content_is_not_recorded_until_the_heartbeat(bus, store):
    clock = HandClock()
    member = owner(ToyIngest(), bus, store, clock)
    await member.claim()
    await turn(member)
    assert (await bus.bounds(INGEST))[1] == 1
    clock.at_ms += 1_000
    await turn(member)
    assert (await bus.bounds(INGEST))[1] == 2


async def test_a_single_owner_records_less_and_loses_no_time(bus, store):
    clock = HandClock()
    member = owner(ToyIngest(), bus, store, clock, rhythm=Rhythm(heartbeat_ms=30_000))
    await member.claim()
    for second in range(1, 30):
        clock.at_ms += 1_000
        await turn(member)
        assert member.state.now_ms == 1_000 + 1_000 * second
    assert (await bus.bounds(INGEST))[1] == 1
    clock.at_ms += 1_000
    await turn(member)
    assert (await bus.bounds(INGEST))[1] == 2


async def test_a_pause_is_no_longer_than_the_counted_time(bus, store):
    """A jump counts as 2 s: an owner that sleeps for longer would be late for ever."""
    member = owner(ToyIngest(), bus, store, rhythm=Rhythm(heartbeat_ms=30_000))
    await member.claim()
    await turn(member)
    member._wake.clear()
    started_s = asyncio.get_running_loop().time()
    await member._rest()
    assert asyncio.get_running_loop().time() - started_s < 2 * HEARTBEAT_MS / 1000


async def test_a_bad_snapshot_falls_back_and_an_old_one_continues_the_sequence(bus, store):
    policy = SnapshotPolicy(every_records=2, keep=4)
    member = owner(ToyIngest(), bus, store, policy=policy)
    await member.claim()
    for revision in range(8):
        await turn(member, revision)
    newest, second = store.list("ingest/0")[:2]
    store.save(newest, b"x" * newest.size_bytes)
    folded, bad = await fold(ToyIngest(), bus, store)
    assert folded.state.total == sum(range(8))
    assert len(bad) == 1
    assert second.position < newest.position


async def test_a_snapshot_of_a_form_that_is_not_known_falls_back(bus, store, monkeypatch):
    member = owner(ToyIngest(), bus, store, policy=SnapshotPolicy(every_records=2, keep=4))
    await member.claim()
    for revision in range(8):
        await turn(member, revision)

    def unknown(_core, _body):
        raise ValueError("too many values to unpack (expected 2)")

    monkeypatch.setattr(ToyIngest, "load", unknown)
    folded, bad = await fold(ToyIngest(), bus, store)
    assert folded.state.total == sum(range(8))
    assert len(bad) == len(store.list("ingest/0"))
    assert bad[0] == "ingest/0: cannot be read: too many values to unpack (expected 2)"


async def test_a_large_state_that_changes_little_is_seldom_copied(bus, store, monkeypatch):
    dump = ToyIngest.dump
    monkeypatch.setattr(ToyIngest, "dump", lambda *toy: [dump(*toy), bytes(1_500)])
    clock = HandClock()
    member = owner(ToyIngest(), bus, store, clock, policy=SnapshotPolicy(every_ms=1_000, keep=99))
    await member.claim()
    for _second in range(100):
        clock.at_ms += 1_000
        await turn(member, 1)
    sizes = [meta.size_bytes for meta in store.list("ingest/0")]
    assert len(sizes) >= 2
    assert sum(sizes[1:]) <= member.stats.bytes, "what is copied is no more than what happened"


async def test_a_cut_journal_needs_a_snapshot(bus, store):
    policy = SnapshotPolicy(every_records=2, keep=3, cut=True)
    member = owner(ToyIngest(), bus, store, policy=policy)
    await member.claim()
    for revision in range(12):
        await turn(member, revision)
    first, _end = await bus.bounds(INGEST)
    assert first == store.list("ingest/0")[1].position > 0
    folded, _ = await fold(ToyIngest(), bus, store)
    assert folded.state.total == sum(range(12))
    with pytest.raises(NeedsReset, match="muster reset"):
        await fold(ToyIngest(), bus, MemorySnapshots())
    for meta in store.list("ingest/0"):
        store.tear("ingest/0", meta.position, 1)
    with pytest.raises(NeedsReset, match=r"; what is wrong with them: .*the body has 1 byte"):
        await fold(ToyIngest(), bus, store)


async def test_a_reader_that_never_took_a_snapshot_holds_the_cut_back(bus, store):
    policy = SnapshotPolicy(every_records=2, keep=3, cut=True, readers=(QUEUEING,))
    member = owner(ToyIngest(), bus, store, policy=policy)
    await member.claim()
    for revision in range(12):
        await turn(member, revision)
    assert (await bus.bounds(INGEST))[0] == 0


async def test_a_flipped_bit_is_found_and_named(bus, store):
    member = owner(ToyIngest(), bus, store)
    await member.claim()
    await turn(member, 1)
    payload = bytearray((await bus.read(INGEST, 1))[0][1])
    payload[-3] ^= 1
    with pytest.raises(RecordUnreadable, match="ingest/0 at 1: checksum"):
        decode(bytes(payload), INGEST, 1)


async def test_a_record_of_a_newer_format_is_refused(bus, store):
    member = owner(ToyIngest(), bus, store)
    await member.claim()
    payload = (await bus.read(INGEST, 0))[0][1]
    with pytest.raises(RecordUnreadable, match="another version"):
        decode(b"M9" + payload[2:], INGEST, 0)
    assert encode(decode(payload, INGEST, 0)) == payload


async def test_a_claim_of_an_older_epoch_is_never_in_force(bus, store):
    new = owner(ToyIngest(), bus, store, epoch=2)
    await new.claim()
    old = owner(ToyIngest(), bus, store, name="old", epoch=1)
    with pytest.raises(EpochOver, match="restart"):
        await old.claim()
    await turn(new, 1)
    folded: Folded = (await fold(ToyIngest(), bus, store))[0]
    assert folded.state.total == 1


class ToyFollower(ToyQueueing):
    """Records its inputs with their times, and decides nothing."""

    def evolve(self, state, event):
        if isinstance(event, SourceAdvanced):
            state.todo.append(event.revision)
            state.total += event.revision * state.now_ms

    def decide(self, state):
        yield from ()


async def test_inputs_of_quiet_turns_are_in_the_next_record_with_their_times(bus, store):
    clock = HandClock()
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    follower = owner(ToyFollower(), bus, store, clock)
    await follower.claim()
    for revision in (1, 2):
        await turn(source, revision)
        clock.at_ms += 7
        await turn(follower)
    assert (await bus.bounds(QUEUEING))[1] == 1
    clock.at_ms += 1_000
    await turn(follower)
    ((_position, payload),) = await bus.read(QUEUEING, 1)
    consumed = [
        (part.start, part.stop, part.time_ms)
        for part in decode(payload, JournalName(""), 1).consumed
    ]
    assert consumed == [(0, 2, 1_007), (2, 3, 1_014)]
    heir = owner(ToyFollower(), bus, store, clock, name="two")
    await heir.claim()
    assert heir.state.total == follower.state.total == 1 * 1_007 + 2 * 1_014


async def test_quiet_turns_that_never_reached_a_record_are_consumed_again(bus, store):
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    first = owner(ToyFollower(), bus, store)
    await first.claim()
    await turn(source, 1)
    await turn(first)
    second = owner(ToyFollower(), bus, store, name="two")
    await second.claim()
    await turn(second)
    assert second.state.todo == first.state.todo == [1]


async def test_quiet_ranges_are_recorded_before_they_grow_too_many(bus, store, monkeypatch):
    monkeypatch.setattr(runtime, "QUIET_RANGES_MAX", 2)
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    follower = owner(ToyFollower(), bus, store)
    await follower.claim()
    for revision in range(4):
        await turn(source, revision)
        await turn(follower)
    ((_position, payload),) = await bus.read(QUEUEING, 1)
    assert len(decode(payload, JournalName(""), 1).consumed) == 3


async def consumed(follower, count):
    """Wait until the follower has applied this number of inputs."""
    async with asyncio.timeout(10):
        while len(follower.state.todo) < count:  # noqa: ASYNC110 (a turn gives no signal)
            await asyncio.sleep(0.002)


@pytest.mark.parametrize(("linger_ms", "turns"), [(0, 3), (500, 1)])
async def test_records_of_a_followed_source_wait_for_others(bus, store, linger_ms, turns):
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    follower = owner(ToyFollower(), bus, store, rhythm=Rhythm(linger_ms={"ingest/0": linger_ms}))
    await follower.claim()
    running = asyncio.create_task(follower.run())
    await asyncio.sleep(0.02)
    before = follower.stats.steps
    for revision in (1, 2, 3):
        await turn(source, revision)
        await asyncio.sleep(0.02)  # time enough for a turn of its own
    await consumed(follower, 3)
    assert follower.stats.steps - before == turns
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class OtherIngest(ToyIngest):
    """A second source."""

    journal = JournalName("ingest/1")


class FollowsBoth(ToyFollower):
    """Reads both sources."""

    sources = (INGEST, JournalName("ingest/1"))


async def test_patient_sources_do_not_delay_urgent_ones(bus, store, monkeypatch):
    monkeypatch.setattr(runtime, "HEARTBEAT_MS", 600_000)
    patient, eager = owner(ToyIngest(), bus, store), owner(OtherIngest(), bus, store)
    await patient.claim()
    await eager.claim()
    rhythm = Rhythm(linger_ms={"ingest/0": 600_000, "ingest/1": 5})
    follower = owner(FollowsBoth(), bus, store, rhythm=rhythm)
    await follower.claim()
    running = asyncio.create_task(follower.run())
    await asyncio.sleep(0.02)
    await turn(patient, 1)
    await asyncio.sleep(0.02)
    assert not follower.state.todo
    await turn(eager, 2)
    await consumed(follower, 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_offered_inputs_wait_for_others(bus, store, monkeypatch):
    monkeypatch.setattr(runtime, "HEARTBEAT_MS", 600_000)
    source = owner(ToyIngest(), bus, store)
    await source.claim()
    follower = owner(ToyFollower(), bus, store, rhythm=Rhythm(submissions_ms=600_000))
    await follower.claim()
    running = asyncio.create_task(follower.run())
    await asyncio.sleep(0.02)
    before = follower.stats.records
    for number in (1, 2):
        follower.submit(WatchAdvanced(number))
        await asyncio.sleep(0.02)  # time enough for a turn of its own
    assert (follower.submitted, follower.stats.records) == (2, before)
    await turn(source, 3)
    await consumed(follower, 1)
    assert follower.submitted == 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_offered_inputs_get_a_turn_of_their_own_in_the_end(bus, store, monkeypatch):
    monkeypatch.setattr(runtime, "HEARTBEAT_MS", 600_000)
    member = owner(ToyIngest(), bus, store, rhythm=Rhythm(submissions_ms=20))
    await member.claim()
    running = asyncio.create_task(member.run())
    await asyncio.sleep(0.02)
    for revision in (1, 2, 3):
        member.submit(WatchAdvanced(revision))
    async with asyncio.timeout(10):
        while member.state.total < 6:  # noqa: ASYNC110 (a turn gives no signal)
            await asyncio.sleep(0.002)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(("pace_ms", "turns"), [(0, 3), (500, 1)])
async def test_turns_start_at_an_interval(bus, store, pace_ms, turns):
    member = owner(ToyIngest(), bus, store, rhythm=Rhythm(pace_ms))
    await member.claim()
    running = asyncio.create_task(member.run())
    await asyncio.sleep(0.02)
    before = member.stats.steps
    for revision in (1, 2, 3):
        member.submit(WatchAdvanced(revision))
        await asyncio.sleep(0.02)
    if pace_ms:
        assert member.stats.steps == before
        await asyncio.sleep(0.5)
    assert (member.state.total, member.stats.steps - before) == (6, turns)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_inputs_offered_at_once_are_in_one_record(bus, store, monkeypatch):
    monkeypatch.setattr(runtime, "SUBMISSIONS_PER_TURN", 4)
    member = owner(ToyIngest(), bus, store)
    await member.claim()
    for revision in (1, 2, 3):
        member.submit(WatchAdvanced(revision))
    member.submit(*map(WatchAdvanced, (4, 5, 6)))
    member.submit(WatchAdvanced(7))
    assert member.submitted == 5
    await member._turn()
    assert (member.submitted, member.state.total) == (1, 21)
    await member._turn()
    assert (member.submitted, member.state.total) == (0, 28)
