"""The contract of the bus, the same for every adapter."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from shared.model.ids import JournalName
from shared.ports.bus import RECORD_BYTES_MAX, Bus, CutAway, WrongPosition
from tests.contract.stores import Store

JOURNAL = JournalName("ingest/0")
WAIT_S = 300.0


async def fill(bus: Bus, records: int, journal: JournalName = JOURNAL) -> list[tuple[int, bytes]]:
    written = [(position, b"record-%d" % position) for position in range(records)]
    for position, payload in written:
        assert await bus.append(journal, position, payload) == position
    return written


async def read_all(bus: Bus, start: int, limit_bytes: int = 4 << 20) -> list[tuple[int, bytes]]:
    out: list[tuple[int, bytes]] = []
    while batch := await bus.read(JOURNAL, start + len(out), limit_bytes):
        out.extend(batch)
    return out


async def eventually(condition: Callable[[], bool]) -> None:
    for _ in range(int(WAIT_S / 0.002)):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not happen in time")


async def test_what_was_acknowledged_is_read_in_order(store: Store):
    writer, reader = await store.client(), await store.client()
    written = await fill(writer, 20)
    assert await reader.read(JOURNAL, 0) == written
    assert await reader.read(JOURNAL, 7) == written[7:]
    assert await reader.read(JOURNAL, 3) == written[3:]  # back again
    assert await writer.read(JOURNAL, 19) == written[19:]


async def test_a_read_at_the_end_is_empty(store: Store):
    bus = await store.client()
    assert await bus.read(JOURNAL, 0) == []
    await fill(bus, 2)
    assert await bus.read(JOURNAL, 2) == []
    assert await bus.read(JOURNAL, 9) == []


async def test_a_read_is_limited_but_never_empty_before_the_end(store: Store):
    bus = await store.client()
    for position in range(5):
        await bus.append(JOURNAL, position, bytes(1_000))
    assert [position for position, _ in await bus.read(JOURNAL, 1, limit_bytes=1)] == [1]
    for limit_bytes in (1_001, 2_000):
        found = await bus.read(JOURNAL, 1, limit_bytes)
        assert [position for position, _ in found] == [1, 2]
    assert len(await read_all(bus, 0, limit_bytes=1)) == 5


async def test_appends_at_once_each_have_their_own_answer(store: Store):
    store.partitions = {"placement": 2}
    one, other = await store.client(), await store.client()
    journals = [JournalName(f"placement/{partition}") for partition in range(2)]
    appends = [client.append(name, 0, b"x") for name in journals for client in (one, other)]
    answers = await asyncio.gather(*appends, return_exceptions=True)
    for first, second in (answers[:2], answers[2:]):
        refused = sorted(isinstance(answer, WrongPosition) for answer in (first, second))
        assert refused == [False, True]
        assert 0 in (first, second)


async def test_an_unused_journal_has_nothing(store: Store):
    bus = await store.client()
    assert await bus.bounds(JOURNAL) == (0, 0)
    assert await bus.read(JOURNAL, 0) == []
    await bus.cut(JOURNAL, 5)
    assert await bus.bounds(JOURNAL) == (0, 0)


@pytest.mark.parametrize("name", ["ingest", "ingest/", "ingest/01", "/0", "Ingest/0", "a b/0"])
async def test_a_name_that_is_no_journal_is_refused(store: Store, name: str):
    bus = await store.client()
    with pytest.raises(ValueError, match="must be service/partition"):
        await bus.append(JournalName(name), 0, b"x")


async def test_a_stale_position_is_found_out(store: Store):
    first, second = await store.client(), await store.client()
    await fill(first, 3)
    for stale in (0, 2):
        end = (await first.bounds(JOURNAL))[1]
        with pytest.raises(WrongPosition) as raised:
            await second.append(JOURNAL, stale, b"stale")
        assert raised.value.expected == stale
        assert raised.value.actual == end
        assert raised.value.landed is not store.refuses
        after = (await first.bounds(JOURNAL))[1]
        assert after == (end if store.refuses else end + 1)
    kept = [payload for _, payload in await read_all(first, 0)]
    assert kept.count(b"stale") == (0 if store.refuses else 2)


async def test_a_position_past_the_end_is_found_out(store: Store):
    bus = await store.client()
    await fill(bus, 2)
    with pytest.raises(WrongPosition) as raised:
        await bus.append(JOURNAL, 7, b"gap")
    assert raised.value.actual == 2
    positions = [position for position, _ in await read_all(bus, 0)]
    assert positions == list(range(2 if store.refuses else 3))


async def test_of_two_writers_only_one_gets_a_position(store: Store):
    clients = [await store.client(), await store.client()]
    won: dict[int, bytes] = {}

    async def write(index: int) -> None:
        position = 0
        for turn in range(30):
            payload = b"%d-%d" % (index, turn)
            try:
                await clients[index].append(JOURNAL, position, payload)
            except WrongPosition as error:
                position = error.actual + (1 if error.landed else 0)
            else:
                assert position not in won
                won[position] = payload
                position += 1
            if turn % 3 == index:
                await asyncio.sleep(0)

    await asyncio.gather(write(0), write(1))
    held = dict(await read_all(clients[0], 0))
    assert won
    assert {position: held[position] for position in won} == won
    assert sorted(held) == list(range(len(held)))
    if store.refuses:
        assert held == won


async def test_writers_may_take_turns(store: Store):
    clients = [await store.client(), await store.client()]
    for position in range(6):
        payload = b"record-%d" % position
        assert await clients[position % 2].append(JOURNAL, position, payload) == position
    expected = [(position, b"record-%d" % position) for position in range(6)]
    for client in clients:
        assert await read_all(client, 0) == expected
        assert await client.read(JOURNAL, 5) == expected[5:]


async def test_a_watch_calls_at_once_when_there_is_something(store: Store):
    writer, reader = await store.client(), await store.client()
    await fill(writer, 3)
    calls: list[int] = []
    reader.watch(JOURNAL, 2, lambda: calls.append(1))
    assert calls == []  # never from inside
    await eventually(lambda: bool(calls))
    assert await reader.read(JOURNAL, 2) == [(2, b"record-2")]


def longer(calls: list[int], than: int) -> bool:
    return len(calls) > than


async def test_a_watch_calls_for_the_next_record_and_the_one_after(store: Store):
    writer, reader = await store.client(), await store.client()
    calls: list[int] = []
    reader.watch(JOURNAL, 0, lambda: calls.append(1))
    for position in range(3):
        before = len(calls)
        await writer.append(JOURNAL, position, b"x")
        await eventually(partial(longer, calls, before))
        assert await reader.read(JOURNAL, position) == [(position, b"x")]


async def test_a_cancelled_watch_is_silent(store: Store):
    writer, reader = await store.client(), await store.client()
    silent: list[int] = []
    calls: list[int] = []
    cancel = reader.watch(JOURNAL, 0, lambda: silent.append(1))
    reader.watch(JOURNAL, 0, lambda: calls.append(1))
    cancel()
    cancel()
    await fill(writer, 2)
    await eventually(lambda: bool(calls))
    assert silent == []


async def test_a_watch_reports_records_of_its_own_client(store: Store):
    bus = await store.client()
    calls: list[int] = []
    bus.watch(JOURNAL, 0, lambda: calls.append(1))
    await fill(bus, 1)
    await eventually(lambda: bool(calls))


async def test_a_watch_ahead_of_the_end_reports_its_record(store: Store):
    writer, reader = await store.client(), await store.client()
    await fill(writer, 2)
    calls: list[int] = []
    reader.watch(JOURNAL, 4, lambda: calls.append(1))
    for position in range(2, 5):
        await writer.append(JOURNAL, position, b"x")
    await eventually(lambda: bool(calls))
    assert await reader.read(JOURNAL, 4) == [(4, b"x")]


async def follow(bus: Bus, journal: JournalName, count: int) -> list[tuple[int, bytes]]:
    """Read by notification alone, as a service does: sleep until notified, then read to the end."""
    notified = asyncio.Event()
    cancel = bus.watch(journal, 0, notified.set)
    out: list[tuple[int, bytes]] = []
    while len(out) < count:
        await notified.wait()
        notified.clear()
        while batch := await bus.read(journal, len(out), limit_bytes=50):
            out.extend(batch)
            await asyncio.sleep(0)
    cancel()
    return out


async def test_no_notification_is_lost(store: Store):
    writer, near, far = [await store.client() for _ in range(3)]
    records = 400

    async def write() -> None:
        for position in range(records):
            await writer.append(JOURNAL, position, b"record-%d" % position)
            # Bursts and pauses, so that records arrive in every state of the readers.
            if position % 7 == 0:
                await asyncio.sleep(0)
            if position % 50 == 0:
                await asyncio.sleep(0.004)

    async with asyncio.timeout(WAIT_S):
        _, *seen = await asyncio.gather(
            write(),
            follow(near, JOURNAL, records),
            follow(far, JOURNAL, records),
            follow(writer, JOURNAL, records),
        )
    expected = [(position, b"record-%d" % position) for position in range(records)]
    assert seen == [expected] * 3


async def test_cut_records_are_missing_and_positions_continue(store: Store):
    bus = await store.client()
    written = await fill(bus, 6)
    assert await bus.read(JOURNAL, 0) == written  # a client may hold them now
    await bus.cut(JOURNAL, 4)
    await bus.cut(JOURNAL, 4)
    await bus.cut(JOURNAL, 2)  # below the first: nothing
    assert await bus.bounds(JOURNAL) == (4, 6)
    with pytest.raises(CutAway) as raised:
        await bus.read(JOURNAL, 3)
    assert raised.value.first == 4
    assert await bus.read(JOURNAL, 4) == written[4:]
    await bus.cut(JOURNAL, 99)  # all there is
    assert await bus.bounds(JOURNAL) == (6, 6)
    assert await bus.read(JOURNAL, 6) == []
    assert await bus.append(JOURNAL, 6, b"next") == 6
    assert await bus.read(JOURNAL, 6) == [(6, b"next")]


async def test_a_cut_position_cannot_be_written_again(store: Store):
    first, second = await store.client(), await store.client()
    await fill(first, 6)
    assert await second.bounds(JOURNAL) == (0, 6)
    await first.cut(JOURNAL, 6)
    for stale in (2, 5):
        with pytest.raises(WrongPosition):
            await second.append(JOURNAL, stale, b"stale")
    with pytest.raises(CutAway):
        await second.read(JOURNAL, 2)


async def test_a_new_client_sees_the_cut(store: Store):
    bus = await store.client()
    written = await fill(bus, 6)
    await bus.cut(JOURNAL, 4)
    other = await store.client()
    assert await other.bounds(JOURNAL) == (4, 6)
    with pytest.raises(CutAway):
        await other.read(JOURNAL, 0)
    assert await other.read(JOURNAL, 4) == written[4:]


@pytest.mark.parametrize("compressible", [True, False])
async def test_a_record_of_4_mib(store: Store, compressible: bool):
    writer, reader = await store.client(), await store.client()
    piece = (
        bytes(1 << 16)
        if compressible
        else b"".join(((i * 2_654_435_761) & 0xFFFFFFFF).to_bytes(4, "big") for i in range(1 << 14))
    )
    payload = piece * (4 << 20 >> 16)
    assert await writer.append(JOURNAL, 0, payload) == 0
    assert await writer.append(JOURNAL, 1, b"small") == 1
    assert await read_all(reader, 0) == [(0, payload), (1, b"small")]


async def test_a_record_that_is_too_large_is_refused(store: Store):
    bus = await store.client()
    with pytest.raises(ValueError, match="is over"):
        await bus.append(JOURNAL, 0, bytes(RECORD_BYTES_MAX + 1))
    assert await bus.append(JOURNAL, 0, b"") == 0
    assert await bus.read(JOURNAL, 0) == [(0, b"")]


async def test_journals_do_not_mix(store: Store):
    store.partitions = {"placement": 40}
    writer, reader = await store.client(), await store.client()
    journals = [JournalName(f"placement/{partition}") for partition in range(40)]
    seen = asyncio.gather(*(follow(reader, journal, 5) for journal in journals))
    for position in range(5):
        for number, journal in enumerate(journals):
            await writer.append(journal, position, b"%d/%d" % (number, position))
    async with asyncio.timeout(WAIT_S):
        expected = [[(p, b"%d/%d" % (n, p)) for p in range(5)] for n in range(40)]
        assert await seen == expected


async def test_closing_is_idempotent_and_silences_watches(store: Store):
    writer, reader = await store.client(), await store.client()
    calls: list[int] = []
    reader.watch(JOURNAL, 0, lambda: calls.append(1))
    await reader.close()
    await reader.close()
    await fill(writer, 1)
    await asyncio.sleep(0.02)
    assert calls == []
