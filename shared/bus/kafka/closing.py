"""Ending aiokafka's clients for certain, where their own `stop` may wait for ever or give up.

The one place that reaches into the library; its version is pinned.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

STOP_TIMEOUT_S = 5.0


async def abandon_producer(producer: Any) -> None:
    """Close a producer without delivering what it still holds.

    Its own `stop` waits for delivery, which a dead broker never lets end and which nobody wants.
    So the sender is stopped and then the connections, which ends the requests it still waits for.
    Whoever waits for a record is left waiting: callers bound their wait.
    """
    producer._closed = True
    sender = producer._sender
    sending = None if sender is None else sender.sender_task
    if sending is not None:
        sending.cancel()
    await close_client(producer.client)
    if sending is not None:
        await asyncio.wait({sending}, timeout=STOP_TIMEOUT_S)
    # Once more: the sender may have connected again before it noticed.
    await close_client(producer.client)


async def stop_consumer(consumer: Any) -> None:
    """Stop a consumer, also one whose broker is away.

    Its own `stop` awaits requests that it has cancelled, and then ends as if it had been cancelled
    itself, half-way: so it runs in a task, and the connections are closed in any case.
    """
    await _bounded(consumer.stop())
    await close_client(consumer._client)


async def close_client(client: Any) -> None:
    """Close every connection.

    Its own `close` waits for the other side, which over TLS has to answer. Where that wait was
    given up before, it ends at once, as if it had been cancelled itself.
    """
    await _bounded(client.close())


async def _bounded(ending: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(ending)
    await asyncio.wait({task}, timeout=STOP_TIMEOUT_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
