"""Checks of etcd's history as it arrives, in memory that does not grow with the run.

Shares no code with the product. It finds binds, moves, the effect of each bind on its node, gangs
that are bound in part, and pods without a message.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.live.checker import gangs
from tests.live.checker.cluster_state import NODES, PODS, Change, World

PART_S = 60.0
"""Longer than a restart may take: until then the binds of a gang may be under way."""


@dataclass(frozen=True)
class Over:
    """A bind that over-commits its node."""

    revision: int
    pod: str
    node: str
    scheduler: str
    what: tuple[str, ...]


@dataclass
class Judge:
    """`waits_s` are the times from the creation to the bind."""

    world: World = field(default_factory=World)
    created: Counter[str] = field(default_factory=Counter)
    bound: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    overs: list[Over] = field(default_factory=list)
    waits_s: "array[float]" = field(default_factory=lambda: array("d"))
    _came_s: dict[str, float] = field(default_factory=dict)
    # Of each gang the members that ever had a node, and when the first of them got it.
    _members: dict[str, set[str]] = field(default_factory=dict)
    _began_s: dict[str, float] = field(default_factory=dict)

    def take(self, changes: Iterable[Change]) -> None:
        """Read the next change."""
        for change in changes:
            before = self.world.pods.get(change.key)
            if change.key.startswith(PODS) and change.value is None and before is not None:
                self._gone(change, before)
            self.world.apply(change)
            if change.key.startswith(PODS) and change.value is not None:
                self._pod(change, before)

    def _gone(self, change: Change, before: Any) -> None:
        self._came_s.pop(before["metadata"]["uid"], None)
        gang = gangs.gang_of(before) if before["spec"].get("workloadRef") else ""
        since_s = change.time_s - self._began_s.get(gang, change.time_s)
        if not before["spec"].get("nodeName") and since_s > PART_S:
            self.problems.append(f"{gang} was bound in part for {since_s:.0f} s")

    def _pod(self, change: Change, before: Any) -> None:
        pod = change.value
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        scheduler, name = pod["spec"]["schedulerName"], change.key.removeprefix(PODS)
        was = ""
        if before is None or before["metadata"]["uid"] != uid:
            self.created[scheduler] += 1
            self._came_s[uid] = change.time_s
        else:
            was = before["spec"].get("nodeName", "")
        if was and was != node:
            self.problems.append(f"{name} moved from {was} to {node or 'no node'}")
        if not node or was:
            return
        self.bound[scheduler] += 1
        self.waits_s.append(change.time_s - self._came_s.pop(uid, change.time_s))
        if pod["spec"].get("workloadRef"):
            gang = gangs.gang_of(pod)
            self._members.setdefault(gang, set()).add(uid)
            self._began_s.setdefault(gang, change.time_s)
        over = self.world.over(node) if node in self.world.nodes else ["the node itself"]
        if over:
            self.overs.append(Over(change.revision, name, node, scheduler, tuple(over)))

    def silent(self) -> list[str]:
        """Return pods without a node and without a message."""
        return [
            key.removeprefix(PODS)
            for key, pod in self.world.pods.items()
            if not pod["spec"].get("nodeName") and not pod.get("status", {}).get("conditions")
        ]

    def waiting(self) -> list[str]:
        """Return pods without a node."""
        return [key for key, pod in self.world.pods.items() if not pod["spec"].get("nodeName")]

    def in_part(self) -> list[str]:
        """Return gangs with a workload of which some pods are bound, but too few."""
        found = set()
        for pod in self.world.pods.values():
            least = gangs.least_of(self.world, pod)
            if least and 0 < len(self._members.get(gangs.gang_of(pod), ())) < least:
                found.add(gangs.gang_of(pod))
        return sorted(found)

    def nodes(self) -> list[str]:
        """Return the names of all nodes."""
        return [key.removeprefix(NODES) for key in self.world.nodes]
