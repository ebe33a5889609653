"""The simulated cluster's watch log: numbered deliveries, the last ones kept, and their watchers.

Delays use only the running loop's clock, so the log works on a virtual-time loop as well.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable

from shared.events.base import Event
from shared.ports.cluster import Gone, Restored, Watched

EVENTS_PER_DELIVERY = 256


class WatchLog:
    """Deliveries in revision order; `broken` says whether a watcher's connection breaks now."""

    def __init__(self, keep: int, latency_ms: int, broken: Callable[[], bool]) -> None:
        """Start empty."""
        self._keep, self._latency_s, self._broken = keep, latency_ms / 1000, broken
        self._revisions: list[int] = []
        self._entries: list[tuple[float, tuple[Event, ...]]] = []
        self._first = 0
        self._forgotten = 0
        self._break_count = 0
        self._waiting: list[asyncio.Future[None]] = []

    def add(self, revision: int, events: tuple[Event, ...], time_s: float) -> None:
        """Add the newest delivery."""
        self._revisions.append(revision)
        self._entries.append((time_s, events))
        if len(self._entries) >= 2 * self._keep:
            self._drop(len(self._entries) - self._keep)
        self._wake()

    def forget(self) -> None:
        """Drop all deliveries: watchers that are behind must list (410)."""
        self._drop(len(self._entries))
        self._wake()

    def break_all(self) -> None:
        """End every open watch."""
        self._break_count += 1
        self._wake()

    def restore(self, revision: int) -> None:
        """End watches that have seen a later revision with Restored; the others must list."""
        self.forget()
        self._forgotten = revision
        self.break_all()

    def _drop(self, count: int) -> None:
        if count:
            self._forgotten = self._revisions[count - 1]
            self._first += count
            del self._revisions[:count], self._entries[:count]

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def watch(self, since: int, newest: int) -> AsyncIterator[Watched]:
        """Yield deliveries. Raises Gone when deliveries after `since` are no longer kept, Restored
        when it is beyond the cluster's `newest` revision, ConnectionError when the watch is broken.
        """
        loop = asyncio.get_running_loop()
        breaks = self._break_count
        if since > newest:
            raise Restored(f"the cluster is at revision {newest}, {since} was seen before")
        if since < self._forgotten:
            raise Gone(f"revision {since} is no longer kept")
        at = self._first + bisect_right(self._revisions, since)
        while True:
            if self._break_count != breaks or self._broken():
                raise ConnectionError("the watch was broken off")
            if at < self._first:
                raise Gone("the watch fell behind what is kept")
            index = at - self._first
            if index == len(self._entries):
                future = loop.create_future()
                self._waiting.append(future)
                await future
                continue
            ready_s = self._entries[index][0] + self._latency_s
            if ready_s > loop.time():
                await asyncio.sleep(ready_s - loop.time())
                continue
            stop, events = self._gather(index, loop.time() - self._latency_s)
            at = self._first + stop
            yield Watched(self._revisions[stop - 1], tuple(events))

    def _gather(self, index: int, until_s: float) -> tuple[int, list[Event]]:
        events: list[Event] = []
        stop = index
        while stop < len(self._entries) and len(events) < EVENTS_PER_DELIVERY:
            time_s, more = self._entries[stop]
            if time_s > until_s:
                break
            events.extend(more)
            stop += 1
        return stop, events
