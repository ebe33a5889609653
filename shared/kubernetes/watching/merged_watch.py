"""The watches of several resources as one stream with one revision (docs/adr/0010).

The joint revision is the lowest one that every watch has confirmed, so a consumer that resumes from
it misses nothing. Each delivery also says how far each watch has come, so that nothing is sent
twice.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping

from shared.events.base import Event
from shared.kubernetes.watching.resources import Reader
from shared.kubernetes.watching.watch import ResourceWatch
from shared.ports.cluster import Watched

LEAST_S, MOST_S = 0.002, 0.01
"""The shortest and the longest time between two deliveries while anything urgent waits. The API
server sends each change by itself; each would cost the services a round of turns, and equal pods
are cheaper together. A change after a pause is delivered at once.
"""
TIMES_USED = 4.0
"""The time between two deliveries, in terms of the processor time that this process used meanwhile:
beyond a quarter of a core, pods wait for company. Where API server and mesh share a machine, the
processor time saved goes to the server.
"""
BURST, BURST_S = 12, 0.02
"""After a delivery of so many stream chunks the next one waits for so long."""
OWN_S = 0.05
"""The longest time that changes wait if all of them show what our schedulers did: they go with the
next pod.
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
        # When the last delivery began: loop time, and processor time of this process.
        self._began_s = self._began_used_s = -OWN_S
        self._is_burst = False
        self._later: asyncio.TimerHandle | None = None
        # For each watch: how many chunks it has received, and how many looks ago the last one
        # came.
        self._looks = dict.fromkeys(watches, (0, 0))

    async def run(self) -> AsyncIterator[Watched]:
        """Yield deliveries until cancelled. Raises Gone, Restored."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._follow(*one)) for one in self._watches.values()]
        for task in tasks:
            task.add_done_callback(lambda _: self._arrived.set())
        try:
            while True:
                await self._until_due()
                for task in tasks:
                    if task.done():
                        task.result()
                watched = self._drain()
                if watched is not None:
                    self._began_s, self._began_used_s = loop.time(), time.process_time()
                    self._is_handed_over = False
                    yield watched
                    self._is_handed_over = True
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_due(self) -> None:
        """Wait for a change, and until it is time to deliver it."""
        await self._arrived.wait()
        loop = asyncio.get_running_loop()
        # The turns that the last delivery caused come first: they tell what a delivery costs.
        await asyncio.sleep(max(0.0, self._began_s + LEAST_S - loop.time()))
        used_s = time.process_time() - self._began_used_s
        pace_s = BURST_S if self._is_burst else min(MOST_S, used_s * TIMES_USED)
        await asyncio.sleep(max(0.0, self._began_s + pace_s - loop.time()))
        self._arrived.clear()

    def has_caught_up(self, newest: int) -> bool:
        """Return whether everything up to this revision was delivered. Called every LOOK_S."""
        has_delivered = []
        for name, (watch, _) in self._watches.items():
            seen_to, looks = self._looks[name]
            looks = looks + 1 if watch.heard == seen_to else 0
            self._looks[name] = watch.heard, looks
            is_quiet = watch.is_served and looks >= QUIET_LOOKS
            has_delivered.append(watch.confirmed >= newest or is_quiet)
        return self._is_handed_over and not self._pieces and all(has_delivered)

    async def _follow(self, watch: ResourceWatch, reader: Reader) -> None:
        loop = asyncio.get_running_loop()
        async for _ in watch.run():
            self._pieces += 1
            is_full = self._pieces >= AHEAD
            if reader.is_urgent() or is_full:
                self._arrived.set()
            elif self._later is None:
                self._later = loop.call_at(self._began_s + OWN_S, self._arrived.set)
            if is_full:
                self._room.clear()
                await self._room.wait()

    def _drain(self) -> Watched | None:
        """Return everything that waits as one delivery, or None when there is nothing new."""
        self._is_burst, self._pieces = self._pieces >= BURST, 0
        self._room.set()
        if self._later is not None:
            self._later.cancel()
            self._later = None
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
