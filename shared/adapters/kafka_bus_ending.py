"""Ending aiokafka's clients for certain, where their own `stop` may wait for ever or give up.

The one place that reaches into the library; its version is pinned.
"""

import asyncio
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
    await producer.client.close()
    if sending is not None:
        await asyncio.wait({sending}, timeout=STOP_TIMEOUT_S)
    # Once more: the sender may have connected again before it noticed.
    await producer.client.close()


async def stop_consumer(consumer: Any) -> None:
    """Stop a consumer, also one whose broker is away.

    Its own `stop` awaits requests that it has cancelled, and then ends as if it had been cancelled
    itself, half-way: so it runs in a task, and the connections are closed in any case.
    """
    stopping = asyncio.get_running_loop().create_task(consumer.stop())
    await asyncio.wait({stopping}, timeout=STOP_TIMEOUT_S)
    if not stopping.done():
        stopping.cancel()
    await asyncio.gather(stopping, return_exceptions=True)
    await consumer._client.close()
