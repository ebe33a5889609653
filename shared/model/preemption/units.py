"""Preemption units: the pods of a group that preemption evicts together or not at all.

A group with disruptionMode all is a unit. So is a group that keeps its minimum, once no more than
that many of its pods would stay: those above the minimum leave one by one.
"""

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct

from shared.model.columns import pack, unpack
from shared.model.ids import NO_GANG, GangId, PodId

WHOLE = 0
SINGLY = -1
"""The minimum of a group whose pods have several priorities: all of them leave one by one."""


class Unit(Struct):
    """A group whose pods are evicted together, all of one priority. `least`: so many stay, or none;
    0: all. `placed`: pods on nodes, noted only where the minimum is kept, by preemption.
    """

    priority: int
    pods: set[PodId]
    least: int = WHOLE
    placed: set[PodId] = set()


class Units:
    """All units, and the unit of each of their pods."""

    def __init__(self) -> None:
        """Start without units."""
        self._units: dict[GangId, Unit] = {}
        self._unit_of: dict[PodId, GangId] = {}

    def __bool__(self) -> bool:
        """Return whether there is a unit."""
        return bool(self._units)

    def join(self, gang: GangId, priority: int, pods: Iterable[PodId], least: int = WHOLE) -> None:
        """Add pods to the unit of a group; they leave another one."""
        pods = list(pods)
        self.forget(pods)
        unit = self._units.setdefault(gang, Unit(priority, set(), least))
        is_mixed = unit.least == SINGLY or priority != unit.priority
        unit.least = SINGLY if least != WHOLE and is_mixed else least
        unit.priority = priority
        unit.pods.update(pods)
        self._unit_of.update(dict.fromkeys(pods, gang))

    def place(self, pods: Iterable[PodId]) -> None:
        """Note pods that have a node."""
        for pod in pods:
            gang = self._unit_of.get(pod, NO_GANG)
            if gang and self._units[gang].least != WHOLE:
                self._units[gang].placed.add(pod)

    def forget(self, pods: Iterable[PodId]) -> None:
        """Remove deleted pods."""
        for pod in pods:
            gang = self._unit_of.pop(pod, NO_GANG)
            if gang:
                unit = self._units[gang]
                unit.pods.remove(pod)
                unit.placed.discard(pod)
                if not unit.pods:
                    del self._units[gang]

    def of(self, pod: PodId) -> GangId:
        """Return the group of the pod's unit; NO_GANG if it is evicted alone."""
        gang = self._unit_of.get(pod, NO_GANG)
        return NO_GANG if gang and self._units[gang].least == SINGLY else gang

    def keeps_minimum(self, gang: GangId) -> bool:
        """Return whether pods of a unit may leave while its minimum stays."""
        return self._units[gang].least != WHOLE

    def priority(self, pod: PodId) -> int:
        """Return the priority of the pod's unit. Raises KeyError if it has none."""
        return self._units[self._unit_of[pod]].priority

    def pods(self) -> list[PodId]:
        """Return the pods of all units, ascending."""
        return sorted(pod for pod in self._unit_of if self.of(pod))

    def mates(self, pods: Iterable[PodId]) -> list[PodId]:
        """Return the other pods of these pods' units, ascending."""
        given = set(pods)
        gangs = {self.of(pod) for pod in given} - {NO_GANG}
        return sorted(pod for gang in gangs for pod in self._units[gang].pods - given)

    def leave_with(self, pods: Iterable[PodId], leaving: Collection[PodId]) -> list[PodId]:
        """Return the other pods that leave with these, ascending: not those of groups of which the
        minimum stays, even without all of `leaving`.
        """
        given = set(pods)
        found: list[PodId] = []
        for gang in {self.of(pod) for pod in given} - {NO_GANG}:
            unit = self._units[gang]
            if unit.least == WHOLE:
                found += unit.pods - given
            elif len(rest := unit.placed.difference(given, leaving)) < unit.least:
                found += rest
        return sorted(found)

    def spare(self, leaving: Collection[PodId]) -> list[tuple[GangId, int]]:
        """Return how many pods may leave each group that keeps its minimum, without those that are
        `leaving` already, by group.
        """
        return [
            (gang, max(0, len(unit.placed.difference(leaving)) - unit.least))
            for gang, unit in sorted(self._units.items())
            if unit.least > 0
        ]

    def dump(self) -> Any:
        """Return (group, priority, pods, minimum if one is kept) of each unit, by group."""
        return [
            [gang, unit.priority, pack(sorted(unit.pods)), *([unit.least] if unit.least else [])]
            for gang, unit in sorted(self._units.items())
        ]

    @classmethod
    def load(cls, body: Any) -> "Units":
        """Restore what `dump` returned; which pods have a node is noted later."""
        units = cls()
        for gang, priority, pods, *least in body:
            units.join(GangId(gang), priority, unpack(pods).tolist(), *least)
        return units
