"""Keeps the events that wait to be written, in lanes with a bound each. Pure.

Events about waiting pods and victims go first, since someone may look for them. The `Scheduled`
events of a flood follow, then those of earlier processes.
"""

from collections import deque
from enum import IntEnum

from msgspec import Struct

from shared.ports.cluster import PodRef

KEPT_MAX = 100_000
"""For each lane. A `Scheduled` event takes some 400 bytes with the names of its pod."""


class Lane(IntEnum):
    """Which events go first."""

    TROUBLE = 0
    BINDS = 1
    EARLIER_BINDS = 2


class Waiting(Struct, gc=False):
    """An event to write, about `pod`. `note` is the node for `Scheduled`, else the whole text.
    `by` is the preemptor of a victim. `repeats` > 0: only the count of the event `name` changes.
    """

    lane: Lane
    reason: str
    pod: PodRef
    note: str
    at_ns: int
    name: str
    by: PodRef | None = None
    repeats: int = 0
    tries: int = 0


class EventQueue:
    """The waiting events of one process."""

    def __init__(self) -> None:
        """Start empty."""
        self._lanes: tuple[deque[Waiting], ...] = tuple(deque() for _ in Lane)

    def __len__(self) -> int:
        """Return the number of waiting events."""
        return sum(map(len, self._lanes))

    def put(self, event: Waiting) -> bool:
        """Add an event behind its lane; return False if the lane is full."""
        lane = self._lanes[event.lane]
        if len(lane) >= KEPT_MAX:
            return False
        lane.append(event)
        return True

    def put_back(self, event: Waiting) -> None:
        """Add an event that could not be written in front of its lane."""
        self._lanes[event.lane].appendleft(event)

    def pop(self) -> Waiting:
        """Remove and return the next event. Raises IndexError if none waits."""
        return next((lane for lane in self._lanes if lane), self._lanes[0]).popleft()

    def clear(self) -> int:
        """Remove all events; return their number."""
        count = len(self)
        for lane in self._lanes:
            lane.clear()
        return count
