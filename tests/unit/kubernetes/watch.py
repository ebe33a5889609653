"""The events of a watch, gathered until a condition holds."""

import asyncio
from collections.abc import AsyncIterator, Callable

from shared.events.base import Event
from shared.events.observed import PodsDeletedSeen, PodsSeen
from shared.kubernetes.cluster import KubeCluster
from shared.model.columns import split
from shared.ports.cluster import NO_MARKS, Marks, Watched

LIMIT_S = 5.0


class Watch:
    """Collects the deliveries of a watch until a condition holds."""

    def __init__(self, cluster: KubeCluster, since: int, marks: Marks = NO_MARKS) -> None:
        self.events: list[Event] = []
        self.deliveries: list[Watched] = []
        self.revision, self.marks = since, dict(marks)
        self._stream: AsyncIterator[Watched] = cluster.watch(since, marks)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                watched = await anext(self._stream)
                assert watched.revision >= self.revision
                self.revision = watched.revision
                self.marks |= watched.marks
                self.events.extend(watched.events)
                self.deliveries.append(watched)

    def of(self, kind: type[Event]) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def names(self) -> list[str]:
        return [name for event in self.of(PodsSeen) for name in split(event.names)]

    def gone(self) -> list[str]:
        return [uid for event in self.of(PodsDeletedSeen) for uid in split(event.uids)]

    async def close(self) -> None:
        await self._stream.aclose()  # type: ignore[attr-defined]
