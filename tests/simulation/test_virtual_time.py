"""The virtual loop and the simulated bus behave as documented, before a mesh runs on them."""

import asyncio
import random
import time

import pytest

from muster.app.virtual_time import SPINS_MAX, SimClock, SimulationStuck, VirtualLoop
from muster.simulation.bus import BusFaults, Fate, SimBus, SimLog
from shared.model.ids import INGEST
from shared.ports.bus import AppendUnknown, WrongPosition

JOURNAL = INGEST


def run(coroutine):
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def test_an_hour_passes_at_once_and_in_order():
    seen = []

    async def sleeper(name, wait_s):
        await asyncio.sleep(wait_s)
        seen.append((name, asyncio.get_running_loop().time()))

    async def main():
        await asyncio.gather(sleeper("late", 3600), sleeper("early", 1), sleeper("second", 1))
        return SimClock(asyncio.get_running_loop(), skew_ms=5).now_ms()

    begun_s = time.monotonic()
    now_ms = run(main())
    assert time.monotonic() - begun_s < 60
    assert [name for name, _at in seen] == ["early", "second", "late"]
    assert now_ms == 1_700_000_000_000 + 3_600_000 + 5


def test_waiting_for_nothing_is_called_stuck():
    with pytest.raises(SimulationStuck, match="cannot come"):
        run(asyncio.Event().wait())


def test_spinning_without_time_is_called_a_livelock():
    async def spin():
        for _ in range(10 * SPINS_MAX):
            await asyncio.sleep(0)

    with pytest.raises(SimulationStuck, match="livelock"):
        run(spin())


def log(refuses: bool, **faults: float) -> SimLog:
    return SimLog(random.Random(1), refuses, BusFaults(**faults))


@pytest.mark.parametrize("refuses", [True, False])
def test_a_stale_append_is_refused_or_lands_out_of_place(refuses):
    async def main():
        shared = log(refuses)
        bus = SimBus(shared)
        assert await bus.append(JOURNAL, 0, b"one") == 0
        with pytest.raises(WrongPosition) as caught:
            await bus.append(JOURNAL, 0, b"two")
        assert caught.value.landed is not refuses
        assert caught.value.actual == 1
        assert await bus.bounds(JOURNAL) == (0, 1 if refuses else 2)

    run(main())


def test_an_unknown_append_may_have_landed_or_not_or_lands_late():
    async def main():
        shared = log(refuses=False, append_fails=1.0)
        bus = SimBus(shared)
        for _ in range(60):
            end = shared.end(JOURNAL)
            with pytest.raises(AppendUnknown):
                await bus.append(JOURNAL, end, b"x")
        await asyncio.sleep(10)
        return shared.seen, shared.end(JOURNAL)

    seen, end = run(main())
    assert all(seen[fate] for fate in Fate if fate is not Fate.STORED)
    assert end == seen[Fate.LANDED_UNKNOWN] + seen["late-append-landed"]


def test_readers_lag_differently_and_miss_nothing():
    async def main():
        shared = log(refuses=True, lag_spike=0.5, lag_spike_s=1.0)
        writer, readers = SimBus(shared), [SimBus(shared) for _ in range(4)]
        at = [0] * len(readers)
        lengths = set()
        taking = set()

        def follow(row):
            def notify():
                taking.add(asyncio.ensure_future(take(row)))

            return notify

        async def take(row):
            at[row] += len(await readers[row].read(JOURNAL, at[row]))

        for row, reader in enumerate(readers):
            reader.watch(JOURNAL, 0, follow(row))
        for position in range(50):
            await writer.append(JOURNAL, position, b"x")
            lengths.add(len(set(at)))
        assert max(lengths) > 1
        await asyncio.sleep(5)
        return at

    assert run(main()) == [50, 50, 50, 50]
