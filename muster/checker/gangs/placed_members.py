"""The members of gangs that have a node, as queueing's inputs tell, and dispatches against them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.binding import BindFailed, Bound
from shared.events.ingest import GangSet, PodsAssigned, PodsGone
from shared.events.permit import GangCommitted
from shared.events.placement import Reserved
from shared.events.queueing import Dispatched, GangShrunk
from shared.model.columns import unpack


@dataclass
class PlacedMembers:
    """Members by gang: `running` have a node, `finished` ended after the start without being
    deleted, and binds of `failed` ones failed. `gang_of`: pod -> gang. `in_trees`: PodGroups in
    CompositePodGroups.
    """

    gang_of: Mapping[int, int]
    running: dict[int, set[int]] = field(default_factory=dict)
    finished: Counter[int] = field(default_factory=Counter)
    failed: dict[int, set[int]] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    least: dict[int, int] = field(default_factory=dict)
    bound: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    in_trees: set[int] = field(default_factory=set)
    shrunk: set[int] = field(default_factory=set)  # gangs that go on with one, while it runs
    # Their binds failed, and the decision about their nodes has not been read yet.
    failed_first: set[int] = field(default_factory=set)

    def needed(self, gang: int) -> int:
        """Return how many more members must get a node together."""
        have = len(self.running.get(gang, ())) + self.finished[gang]
        if not have:
            self.shrunk.discard(gang)
        least = self.least.get(gang, 0)
        return max(0, (min(least, 1) if gang in self.shrunk else least) - have)

    def learn(self, event: Event) -> None:
        """Apply an input of queueing."""
        match event:
            case GangSet():
                self.least[event.gang] = event.min_count
                self.in_trees.discard(event.gang)
                if event.root:
                    self.in_trees.add(event.gang)
            case GangCommitted():
                pods = unpack(event.ids).tolist()
                self.started.update((event.gang, *(self.gang_of.get(pod, 0) for pod in pods)))
                self._reserve(pods)
            case Reserved():
                self._reserve(unpack(event.ids).tolist())
            case PodsAssigned():
                self.bound.update(unpack(event.ids).tolist())
                self.come(unpack(event.ids).tolist())
            case Bound():
                self.bound.update(unpack(event.ids).tolist())
            case PodsGone():
                pods = unpack(event.ids).tolist()
                for pod in self.bound.intersection(pods) - set(unpack(event.deleted).tolist()):
                    gang = self.gang_of.get(pod, 0)
                    is_running = pod in self.running.get(gang, ())
                    self.finished[gang] += gang in self.started and is_running
                self.gone.update(pods)
                self._leave(pods)
                for failed in self.failed.values():
                    failed.difference_update(pods)
            case BindFailed() if event.reason == "foreign":
                self.bound.update(unpack(event.ids).tolist())
            case BindFailed():
                pods = unpack(event.ids).tolist()
                for pod in pods:
                    if pod not in self.running.get(self.gang_of.get(pod, 0), ()):
                        self.failed_first.add(pod)
                self._leave(pods)
                if event.reason == "gone":
                    self.gone.update(pods)
                    return
                for pod in pods:
                    self.failed.setdefault(self.gang_of.get(pod, 0), set()).add(pod)
            case _:
                pass

    def _reserve(self, pods: list[int]) -> None:
        self.come([pod for pod in pods if pod not in self.failed_first])
        self.failed_first.difference_update(pods)

    def come(self, pods: list[int]) -> None:
        """Note pods that have a node now."""
        for pod in pods:
            if pod not in self.gone:
                self.running.setdefault(self.gang_of.get(pod, 0), set()).add(pod)

    def _leave(self, pods: list[int]) -> None:
        for pod in pods:
            self.running.get(self.gang_of.get(pod, 0), set()).discard(pod)


def check(journal: Journal, gang_of: Mapping[int, int]) -> Iterator[Problem]:
    """Yield dispatches of single members while their started gang has too few for minCount, even
    with those that are tried alone as their binds failed.
    """
    placed = PlacedMembers(gang_of)
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            placed.learn(event)
        for event in step.own:
            if isinstance(event, GangShrunk):
                placed.shrunk.add(event.gang)
            if not isinstance(event, Dispatched):
                continue
            for pod in unpack(event.ids).tolist():
                gang = gang_of.get(pod, 0)
                failed = placed.failed.get(gang, set()) - placed.running.get(gang, set())
                needed = placed.needed(gang) - len(failed)
                if gang in placed.in_trees:
                    text = f"pod {pod} of group {gang} goes without its tree"
                    yield "composite", f"queueing/0 at {step.position}: {text}"
                if gang in placed.started and needed > 0:
                    text = f"pod {pod} goes alone, gang {gang} needs {needed} together"
                    yield "gang-whole", f"queueing/0 at {step.position}: {text}"
