"""Watches: one pending call covers all records until it runs, and none is lost."""

import asyncio
from collections.abc import Callable

from shared.bus.watches import Watches
from shared.model.ids import JournalName

JOURNAL = JournalName("ingest/0")
OTHER = JournalName("ingest/1")


async def test_several_records_are_one_call():
    watches, calls = Watches(), []
    watches.add(JOURNAL, 0, lambda: calls.append(1), end=0)
    for end in (1, 2, 3):
        watches.wake(JOURNAL, end)
    assert calls == []
    await asyncio.sleep(0)
    assert calls == [1]


async def test_a_record_that_arrives_during_the_call_is_another_call():
    watches, calls = Watches(), []

    def notify() -> None:
        calls.append(1)
        if len(calls) == 1:
            watches.wake(JOURNAL, 2)

    watches.add(JOURNAL, 0, notify, end=1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert calls == [1, 1]


async def test_only_positions_from_the_start_on_count():
    watches, calls = Watches(), []
    watches.add(JOURNAL, 5, lambda: calls.append(1), end=5)
    watches.wake(JOURNAL, 5)
    watches.wake(OTHER, 9)
    await asyncio.sleep(0)
    assert calls == []
    watches.wake(JOURNAL, 6)
    await asyncio.sleep(0)
    assert calls == [1]


async def test_cancelled_between_the_record_and_the_call_it_is_silent():
    watches, calls = Watches(), []
    cancel = watches.add(JOURNAL, 0, lambda: calls.append(1), end=1)
    assert watches.has(JOURNAL)
    cancel()
    await asyncio.sleep(0)
    assert calls == []
    assert len(watches) == 0
    assert not watches.has(JOURNAL)


async def test_a_watch_may_end_itself_without_silencing_others():
    watches, calls = Watches(), []
    cancels: list[Callable[[], None]] = []

    def notify() -> None:
        calls.append("self-ending")
        cancels[0]()

    cancels.append(watches.add(JOURNAL, 0, notify, end=0))
    watches.add(JOURNAL, 0, lambda: calls.append("other"), end=0)
    for end in (1, 2):
        watches.wake(JOURNAL, end)
        await asyncio.sleep(0)
    assert calls == ["self-ending", "other", "other"]
