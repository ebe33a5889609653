"""The number of concurrent writes follows the server: it rises on fast answers and falls on slow or
busy ones.
"""

import asyncio

import pytest

from shared.kubernetes.writing import write_concurrency
from shared.kubernetes.writing.write_concurrency import (
    WIDTH_FIRST,
    WIDTH_MAX,
    WIDTH_MIN,
    WIDTH_SLOW,
    WriteWindow,
)


async def answered(lane: WriteWindow, took_s: float, times: int) -> None:
    """So many answers, the lane being full each time."""
    while lane.out < int(lane.width):
        await lane.enter()
    for _ in range(times):
        lane.went_well(took_s)
        while lane.out < int(lane.width):
            await lane.enter()


async def test_fast_answers_widen_the_window_up_to_a_limit():
    lane = WriteWindow()
    await answered(lane, 0.01, 200)
    assert 1.5 * WIDTH_FIRST < lane.width < WIDTH_MAX, "a flood of seconds must not end before that"
    await answered(lane, 0.01, 50_000)
    assert WIDTH_MAX <= lane.width < WIDTH_MAX + 1


async def test_a_window_that_finishes_lets_those_in_who_wait():
    lane = WriteWindow()
    await answered(lane, 0.01, 1)
    width, waits = lane.out, asyncio.create_task(lane.enter())
    finishing = asyncio.create_task(lane.finish(10.0))
    for _ in range(width + 1):
        await asyncio.sleep(0)
        assert not finishing.done()
        lane.leave()
    await finishing
    assert waits.done()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lane.enter(), 0.01)


async def test_a_window_waits_for_so_long_then_only_for_those_inside():
    lane = WriteWindow()
    await answered(lane, 0.01, 1)
    waits = asyncio.create_task(lane.enter())
    finishing = asyncio.create_task(lane.finish(0.2))
    await asyncio.sleep(0.3)
    while lane.out:
        assert not finishing.done()
        lane.leave()
    await finishing
    assert not waits.done()
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    assert lane.out == 0


async def test_a_window_that_was_too_wide_widens_slowly():
    lane = WriteWindow()
    await answered(lane, 0.01, 100)
    lane.was_busy()
    width = lane.width
    for _ in range(int(width)):
        lane.leave()
    await answered(lane, 0.01, int(width))
    assert 0.9 < lane.width - width < 1.1


async def test_slow_answers_narrow_the_window_to_a_floor(monkeypatch):
    monkeypatch.setattr(write_concurrency, "REST_S", 0.0)
    lane = WriteWindow()
    lane.width = WIDTH_MAX
    lane.went_well(0.01)
    for _ in range(100):
        lane.went_well(5.0)
    assert lane.width == WIDTH_SLOW
    assert not lane.is_crowded, "slow is not refused"


async def test_slow_answers_alone_widen_the_window_to_the_floor():
    """Late answers are no reason to send less: the server may be far away, or slow for all."""
    lane = WriteWindow()
    lane.went_well(0.01)
    await answered(lane, 5.0, 2 * int(WIDTH_SLOW))
    assert WIDTH_SLOW <= lane.width < WIDTH_SLOW + 1


async def test_refusals_narrow_the_window_below_the_floor(monkeypatch):
    monkeypatch.setattr(write_concurrency, "REST_S", 0.0)
    lane = WriteWindow()
    lane.went_well(0.01)
    for _ in range(100):
        lane.went_well(5.0)
        lane.was_busy()
    assert WIDTH_MIN <= lane.width < 2


async def test_a_server_far_away_is_not_a_slow_one():
    lane = WriteWindow()
    await answered(lane, 0.4, 500)
    assert lane.width > WIDTH_FIRST


async def test_refusals_that_come_together_count_once():
    lane = WriteWindow()
    for _ in range(10):
        lane.was_busy()
    assert lane.width == WIDTH_FIRST * write_concurrency.DECREASE
    assert lane.is_crowded


async def test_waiters_enter_in_order_and_cancelled_ones_leave_no_gap():
    lane = WriteWindow()
    lane.width = 1.0
    order: list[int] = []

    async def go(number: int) -> None:
        await lane.enter()
        order.append(number)

    await go(0)
    tasks = [asyncio.create_task(go(number)) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    lane.leave()
    await asyncio.sleep(0)
    lane.leave()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 2, 3]


async def test_giving_up_at_the_moment_of_entry_gives_the_place_back():
    lane = WriteWindow()
    lane.width = 1.0
    await lane.enter()
    waits = asyncio.create_task(lane.enter())
    await asyncio.sleep(0)
    lane.leave()
    waits.cancel()
    await asyncio.gather(waits, return_exceptions=True)
    assert lane.out == 0
