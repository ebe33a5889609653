"""The watches of several resources as one stream with one revision (docs/adr/0010).

The joint revision is the lowest that every watch has confirmed, so whoever resumes from it misses
nothing; what is newer is then told again, which harms nobody.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from shared.adapters.kube_resources import Reader
from shared.adapters.kube_watch import ResourceWatch
from shared.events.base import Event
from shared.ports.cluster import Watched

AHEAD = 8
"""Pieces of a stream that may wait for the consumer, per resource."""


class MergedWatch:
    """Runs the watches side by side while it is iterated over."""

    def __init__(self, watches: Sequence[tuple[ResourceWatch, Reader]], since: int) -> None:
        """Each watch feeds its own reader."""
        self._watches = watches
        self._revision = since
        self._ready: asyncio.Queue[tuple[int, int, list[Event]]] = asyncio.Queue(AHEAD)
        self._confirmed = [since] * len(watches)

    async def run(self) -> AsyncIterator[Watched]:
        """Raises Gone."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._follow(number)) for number in range(len(self._watches))]
        try:
            while True:
                got = asyncio.ensure_future(self._ready.get())
                done, _ = await asyncio.wait((got, *tasks), return_when=asyncio.FIRST_COMPLETED)
                if got not in done:
                    got.cancel()
                for task in tasks:
                    if task.done():
                        task.result()
                if got in done:
                    watched = self._take(got.result())
                    if watched is not None:
                        yield watched
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, number: int) -> None:
        watch, reader = self._watches[number]
        async for _ in watch.run():
            await self._ready.put((number, watch.confirmed, reader.take()))

    def _take(self, first: tuple[int, int, list[Event]]) -> Watched | None:
        """Everything that waits, as one delivery; None when it says nothing new."""
        events: list[Event] = []
        piece: tuple[int, int, list[Event]] | None = first
        while piece is not None:
            number, confirmed, more = piece
            self._confirmed[number] = confirmed
            events.extend(more)
            piece = None if self._ready.empty() else self._ready.get_nowait()
        joint = min(self._confirmed)
        if not events and joint <= self._revision:
            return None
        self._revision = max(self._revision, joint)
        return Watched(self._revision, tuple(events))
