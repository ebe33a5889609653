"""Binds of ours whose outcome is unknown: if the pod is found on the node, we bound it.

Binding may learn from the watch that such a pod has its node and then sends nothing more; the event
for people and the count of binds are still missing. So each such bind is read again after a while,
unless an answer has come before. Nothing depends on it.
"""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from shared.ports.cluster import PodRead, PodRef

LOOK_AFTER_S = 2.0
TRIES = 5
REMEMBERED_MAX = 10_000


class _Bind(Struct):
    """A bind, and how many more times it may be read."""

    pod: PodRef
    node: str
    tries: int = TRIES


class UnconfirmedBinds:
    """`look` reads a pod and calls `forget` when the pod shows a node."""

    def __init__(self, look: Callable[[PodRef], Awaitable[PodRead]]) -> None:
        """Start empty."""
        self._look = look
        self._binds: dict[str, _Bind] = {}
        self._looking: asyncio.Task[None] | None = None

    def add(self, pod: PodRef, node: str) -> None:
        """Add a bind to a node that may have been carried out."""
        if len(self._binds) >= REMEMBERED_MAX:
            self._binds.clear()
        self._binds[pod.uid] = _Bind(pod, node)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_after())

    def forget(self, uid: str) -> str:
        """Forget a pod whose outcome is known. Return the node it may have been bound to, or
        nothing.
        """
        bind = self._binds.pop(uid, None)
        return bind.node if bind is not None else ""

    async def close(self) -> None:
        """Stop reading. Idempotent."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _look_after(self) -> None:
        while self._binds:
            await asyncio.sleep(LOOK_AFTER_S)
            for uid, bind in list(self._binds.items()):
                if self._binds.get(uid) is not bind:
                    continue
                await self._look(bind.pod)
                bind.tries -= 1
                if not bind.tries:
                    self._binds.pop(uid, None)
