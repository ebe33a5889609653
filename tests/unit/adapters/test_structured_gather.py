"""Gathered requests end at the same time."""

import asyncio

import pytest

from shared.adapters.structured_gather import gather_all


async def test_results_come_in_order():
    async def later(value: int) -> int:
        await asyncio.sleep(0.001 * (3 - value))
        return value

    assert await gather_all(*map(later, range(3))) == [0, 1, 2]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_failure_cancels_the_other_requests(cancelled: bool):
    ended = []

    async def long(name: str) -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0)
            ended.append(name)

    async def fails() -> None:
        await asyncio.sleep(0.01)
        raise (asyncio.CancelledError if cancelled else ConnectionError)("no")

    with pytest.raises(asyncio.CancelledError if cancelled else ConnectionError):
        await gather_all(long("a"), fails(), long("b"))
    assert sorted(ended) == ["a", "b"]
