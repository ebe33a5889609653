"""Ends aiokafka's clients reliably, where their own `stop` may wait for ever or give up.

The only module that uses the library's internals; its version is pinned.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

STOP_TIMEOUT_S = 5.0


async def abandon_producer(producer: Any) -> None:
    """Close a producer without delivering the records it still holds.

    Its own `stop` waits for delivery, which never ends with a dead broker and which no caller
    needs. So the sender is stopped and then the connections, which ends the open requests. A caller
    that waits for a record keeps waiting: callers bound their wait.
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
    """Stop a consumer, even if its broker is away.

    Its own `stop` awaits requests that it has cancelled, and then ends half-way as if it had been
    cancelled itself: so it runs in a task, and the connections are closed in any case.
    """
    await _bounded(consumer.stop())
    await close_client(consumer._client)


async def close_client(client: Any) -> None:
    """Close every connection.

    Its own `close` waits for the other side, which must answer over TLS. If that wait was given up
    before, it ends at once, as if cancelled.
    """
    await _bounded(client.close())


async def _bounded(ending: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(ending)
    await asyncio.wait({task}, timeout=STOP_TIMEOUT_S)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
