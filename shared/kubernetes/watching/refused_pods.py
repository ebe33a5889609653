"""Writes the reason into the condition of pods that ingest refused, again at least once a minute.
No journal after ingest's knows these pods, so no other service does it.

A lossy lane: one request at a time, pods without a message first.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct

from shared.model.api_outcome import Answer
from shared.ports.cluster import PodRead, PodRef

REWRITE_S = 40.0
UNHEARD_S = 5.0
PER_S = 50.0
HELD_MAX = 10_000


class _Refused(Struct):
    """A pod, its message, and the time at which the message is written (again)."""

    pod: PodRef
    message: str
    due_s: float = 0.0


class Refusals:
    """`write` puts a message into a pod's condition."""

    def __init__(self, write: Callable[[PodRef, str], Awaitable[PodRead]]) -> None:
        """Start empty."""
        self._write = write
        # Ordered by the time at which they are due.
        self._held: dict[str, _Refused] = {}
        self._new: dict[str, _Refused] = {}
        self._arrived = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def add(self, pod: PodRef, message: str) -> None:
        """Add a pod that waits for ever, with the reason."""
        known = self._new.get(pod.uid) or self._held.get(pod.uid)
        if known is not None and known.message == message:
            return
        if len(self._new) + len(self._held) >= HELD_MAX:
            return
        self._held.pop(pod.uid, None)
        self._new[pod.uid] = _Refused(pod, message)
        self._arrived.set()
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._run())

    def forget(self, uid: str) -> None:
        """Forget a pod that was deleted or bound."""
        self._new.pop(uid, None)
        self._held.pop(uid, None)

    async def close(self) -> None:
        """Stop writing. Idempotent."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def _run(self) -> None:
        while self._new or self._held:
            is_new = bool(self._new)
            uid, one = next(iter((self._new or self._held).items()))
            wait_s = one.due_s - time.monotonic()
            if wait_s > 0:
                await self._until_new(wait_s)
                continue
            self._new.pop(uid, None)
            self._held[uid] = one
            await self._say(uid, one)
            if not is_new:
                await asyncio.sleep(1.0 / PER_S)

    async def _until_new(self, wait_s: float) -> None:
        self._arrived.clear()
        try:
            async with asyncio.timeout(wait_s):
                await self._arrived.wait()
        except TimeoutError:
            pass

    async def _say(self, uid: str, one: _Refused) -> None:
        read = await self._write(one.pod, one.message)
        if self._held.get(uid) is not one:
            return
        del self._held[uid]
        if read.answer is Answer.GONE or read.node:
            return
        one.due_s = time.monotonic() + (REWRITE_S if read.answer is Answer.DONE else UNHEARD_S)
        self._held[uid] = one
