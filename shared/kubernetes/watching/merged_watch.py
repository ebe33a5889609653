"""The watches of several resources as one stream with one revision (docs/adr/0010).

The joint revision is the lowest one that every watch has confirmed, so a consumer that resumes from
it misses nothing. Each delivery also says how far each watch has come, so that nothing is sent
twice.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping

from shared.events.base import Event
from shared.kubernetes.watching.resources import Reader
from shared.kubernetes.watching.watch import ResourceWatch
from shared.ports.cluster import Watched

PACE_S = 0.02
"""The time between the starts of two deliveries. The API server sends each change by itself; each
would cost the services a round of turns, and equal pods are cheaper together. Where API server and
mesh share a machine, the processor time saved here goes to the server. A change after a pause is
delivered at once.
"""
AHEAD = 64
"""The number of stream chunks that may wait for the consumer."""
LOOK_S, QUIET_LOOKS = 0.01, 20
"""A server sends what it has at once: after this many looks without a byte from it there is nothing
more. Looks are counted instead of time, because a busy loop reads late.
"""


class MergedWatch:
    """Runs the watches concurrently while it is iterated over."""

    def __init__(self, watches: Mapping[str, tuple[ResourceWatch, Reader]], since: int) -> None:
        """Each watch, by its resource, feeds its own reader."""
        self._watches = watches
        self._revision = since
        self._delivered = {name: watch.confirmed for name, (watch, _) in watches.items()}
        self._pieces = 0
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._is_handed_over = True
        # For each watch: how many chunks it has received, and how many looks ago the last one
        # came.
        self._looks = dict.fromkeys(watches, (0, 0))

    async def run(self) -> AsyncIterator[Watched]:
        """Yield deliveries until cancelled. Raises Gone, Restored."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._follow(watch)) for watch, _ in self._watches.values()]
        for task in tasks:
            task.add_done_callback(lambda _: self._arrived.set())
        try:
            while True:
                await self._arrived.wait()
                self._arrived.clear()
                for task in tasks:
                    if task.done():
                        task.result()
                watched = self._drain()
                if watched is not None:
                    began_s = loop.time()
                    self._is_handed_over = False
                    yield watched
                    self._is_handed_over = True
                    await asyncio.sleep(max(0.0, began_s + PACE_S - loop.time()))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def has_caught_up(self, newest: int) -> bool:
        """Return whether everything up to this revision was delivered. Called every LOOK_S."""
        has_delivered = []
        for name, (watch, _) in self._watches.items():
            seen_to, looks = self._looks[name]
            looks = looks + 1 if watch.heard == seen_to else 0
            self._looks[name] = watch.heard, looks
            is_quiet = watch.heard > 0 and looks >= QUIET_LOOKS
            has_delivered.append(watch.confirmed >= newest or is_quiet)
        return self._is_handed_over and not self._pieces and all(has_delivered)

    async def _follow(self, watch: ResourceWatch) -> None:
        async for _ in watch.run():
            self._pieces += 1
            self._arrived.set()
            if self._pieces >= AHEAD:
                self._room.clear()
                await self._room.wait()

    def _drain(self) -> Watched | None:
        """Return everything that waits as one delivery, or None when there is nothing new."""
        self._pieces = 0
        self._room.set()
        # A reader holds exactly what its watch has confirmed.
        events: list[Event] = [
            event for _, reader in self._watches.values() for event in reader.drain()
        ]
        confirmed = {name: watch.confirmed for name, (watch, _) in self._watches.items()}
        joint = min(confirmed.values())
        if not events and joint <= self._revision:
            return None
        self._revision = max(self._revision, joint)
        marks = {name: at for name, at in confirmed.items() if at > self._delivered[name]}
        self._delivered |= marks
        return Watched(self._revision, tuple(events), marks)
