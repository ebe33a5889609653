"""Groups whose pods leave together, as a journal's inputs tell."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from shared.events.ingest import UnitJoined
from shared.model.columns import unpack
from shared.model.ids import GangId


@dataclass
class Together:
    """The pods that leave together, by group."""

    group_of: dict[int, int] = field(default_factory=dict)
    groups: dict[int, set[int]] = field(default_factory=dict)
    least: dict[int, int] = field(default_factory=dict)  # of groups that keep a minimum
    priorities: dict[int, set[int]] = field(default_factory=dict)  # of their pods

    def learn(self, event: UnitJoined) -> None:
        """Note that pods joined."""
        for pod in unpack(event.ids).tolist():
            self.groups.get(self.group_of.get(pod, 0), set()).discard(pod)
            self.group_of[pod] = event.gang
            self.groups.setdefault(event.gang, set()).add(pod)
        if event.least:
            self.least[event.gang] = event.least
            self.priorities.setdefault(event.gang, set()).add(event.priority)
        else:
            self.least.pop(event.gang, None)

    def minimum_of(self, pod: int) -> tuple[int, int]:
        """Return the group and the minimum that it keeps; (0, 0) if the pod has none, or if pods of
        its group had several priorities.
        """
        group = self.group_of.get(pod, 0)
        is_kept = group in self.least and len(self.priorities[group]) == 1
        return (group, self.least[group]) if is_kept else (0, 0)

    def kept_with(
        self, pod: int, victims: Iterable[int], spare: Mapping[GangId, int] = MappingProxyType({})
    ) -> set[int]:
        """Return the victims that stay if this one does: `spare` may leave a group one by one."""
        given = set(victims)
        group = self.minimum_of(pod)[0]
        if not group:
            return self.with_others([pod]) & given
        here = given & self.groups[group]
        return here if len(here) > spare.get(GangId(group), 0) else {pod}

    def with_others(self, pods: Iterable[int]) -> set[int]:
        """Return these pods and all that leave with them."""
        given = set(pods)
        groups = {self.group_of[pod] for pod in given if pod in self.group_of} - set(self.least)
        return given.union(*(self.groups[group] for group in groups))
