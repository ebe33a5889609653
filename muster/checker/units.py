"""Groups whose pods leave together, as a journal's inputs tell."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.events.ingest import UnitJoined
from shared.model.columns import unpack


@dataclass
class Together:
    """The pods that leave together, by group."""

    group_of: dict[int, int] = field(default_factory=dict)
    groups: dict[int, set[int]] = field(default_factory=dict)

    def learn(self, event: UnitJoined) -> None:
        """Note that pods joined."""
        for pod in unpack(event.ids).tolist():
            self.groups.get(self.group_of.get(pod, 0), set()).discard(pod)
            self.group_of[pod] = event.gang
            self.groups.setdefault(event.gang, set()).add(pod)

    def with_others(self, pods: Iterable[int]) -> set[int]:
        """Return these pods and all that leave with them."""
        given = set(pods)
        groups = {self.group_of[pod] for pod in given if pod in self.group_of}
        return given.union(*(self.groups[group] for group in groups))
