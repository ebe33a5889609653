"""Several requests at once of which none outlives the others."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """All their results, in order. When one raises, the others are ended before it is told: they
    would go on, and open connections, after whoever asked has closed everything.
    """
    tasks = [asyncio.get_running_loop().create_task(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
