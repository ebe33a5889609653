"""Runs several requests at once; none outlives the others."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_all(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Return all results, in order. If one raises, the others are cancelled first: otherwise they
    would go on, and open connections, after the caller has closed everything.
    """
    tasks = [asyncio.get_running_loop().create_task(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
