"""Preemption units: the pods of a group with disruptionMode all, evicted together or not at all."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from shared.model.columns import pack, unpack
from shared.model.ids import NO_GANG, GangId, PodId


class Unit(Struct):
    """A group whose pods are evicted together, all of one priority."""

    priority: int
    pods: set[PodId]


class Units:
    """All units, and the unit of each of their pods."""

    def __init__(self) -> None:
        """Start without units."""
        self._units: dict[GangId, Unit] = {}
        self._unit_of: dict[PodId, GangId] = {}

    def __bool__(self) -> bool:
        """Return whether there is a unit."""
        return bool(self._units)

    def join(self, gang: GangId, priority: int, pods: Iterable[PodId]) -> None:
        """Add pods to the unit of a group; they leave another one."""
        pods = list(pods)
        self.forget(pods)
        unit = self._units.setdefault(gang, Unit(priority, set()))
        unit.priority = priority
        unit.pods.update(pods)
        self._unit_of.update(dict.fromkeys(pods, gang))

    def forget(self, pods: Iterable[PodId]) -> None:
        """Remove deleted pods."""
        for pod in pods:
            gang = self._unit_of.pop(pod, NO_GANG)
            if gang:
                unit = self._units[gang]
                unit.pods.remove(pod)
                if not unit.pods:
                    del self._units[gang]

    def of(self, pod: PodId) -> GangId:
        """Return the group of the pod's unit; NO_GANG if it is evicted alone."""
        return self._unit_of.get(pod, NO_GANG)

    def priority(self, pod: PodId) -> int:
        """Return the priority of the pod's unit. Raises KeyError if it has none."""
        return self._units[self._unit_of[pod]].priority

    def pods(self) -> list[PodId]:
        """Return the pods of all units, ascending."""
        return sorted(self._unit_of)

    def mates(self, pods: Iterable[PodId]) -> list[PodId]:
        """Return the other pods of these pods' units, ascending."""
        given = set(pods)
        gangs = {self._unit_of[pod] for pod in given if pod in self._unit_of}
        return sorted(pod for gang in gangs for pod in self._units[gang].pods - given)

    def dump(self) -> Any:
        """Return (group, priority, pods) of each unit, by group."""
        found = sorted(self._units.items())
        return [[gang, unit.priority, pack(sorted(unit.pods))] for gang, unit in found]

    @classmethod
    def load(cls, body: Any) -> "Units":
        """Restore what `dump` returned."""
        units = cls()
        for gang, priority, pods in body:
            units.join(GangId(gang), priority, unpack(pods).tolist())
        return units
