"""Members above minCount: none is dispatched while a gang of its priority is tried for its own.

Only what is certain counts: attempts that are open, and single pods that arrived during them. With
a user's order of the queue nothing is known about what goes first.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.checker.gangs.placed_members import PlacedMembers
from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.binding import Bound
from shared.events.ingest import PodsPending, SignatureDefined, SignaturesQueued
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.queueing import Dispatched, GangDispatched, GangShrunk, PlaceGiven
from shared.model.columns import size, unpack


@dataclass
class Growth:
    """Open attempts for a minimum, and new pods since. `lowest`: a gang's priority is not less than
    that of the members that are tried; `highest`: nor above that of all its members.
    """

    placed: PlacedMembers
    priorities: dict[int, int] = field(default_factory=dict)  # of signatures
    highest: dict[int, int] = field(default_factory=dict)
    lowest: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)  # gang -> attempt
    arrived: dict[int, set[int]] = field(default_factory=dict)  # gang tried -> pods since
    has_orders: bool = False

    def learn(self, event: Event) -> None:
        """Apply an input of queueing."""
        self.placed.learn(event)
        match event:
            case SignatureDefined():
                self.priorities[event.sig] = event.spec.priority
            case Bound():  # may be of a bind that was given up
                self.placed.come(unpack(event.ids).tolist())
            case SignaturesQueued():
                self.has_orders = True
            case PodsPending():
                priority = self.priorities[event.sig]
                self.highest[event.gang] = max(priority, self.highest.get(event.gang, priority))
                for pods in self.arrived.values():
                    pods.update(unpack(event.ids).tolist())
            case GangCommitted() | GangReleased() | GangTimedOut():
                if self.open.get(event.gang) == event.attempt:
                    del self.open[event.gang], self.arrived[event.gang]

    def begin(self, event: GangDispatched) -> None:
        """Note an attempt for a minimum."""
        if not event.tree and self.placed.needed(event.gang):
            self.open[event.gang], self.arrived[event.gang] = event.attempt, set()
            self.lowest[event.gang] = max(self.priorities[part.sig] for part in event.members)

    def before(self, gang: int) -> list[int]:
        """Return the gangs whose minimum is tried, and which go before a gang's growth."""
        if self.has_orders or gang in self.placed.in_trees:
            return []
        return [
            other
            for other in self.open
            if other != gang
            and self.lowest[other] >= self.highest[gang]
            and other not in self.placed.in_trees
            and self.placed.needed(other)
        ]


def check(journal: Journal, gang_of: Mapping[int, int]) -> Iterator[Problem]:
    """Yield the dispatches of members that do not wait for the minimums of other gangs."""
    growth = Growth(PlacedMembers(gang_of))
    seen: Counter[int] = Counter()  # dispatches of pods, and places given to them
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            growth.learn(event)
        for event in step.own:
            match event:
                case GangShrunk():
                    growth.placed.shrunk.add(event.gang)
                case GangDispatched():
                    others = growth.before(event.gang) if _grows(growth, event) else []
                    if others:
                        text = f"gang {event.gang} grows while gangs {others} are tried"
                        yield "minimums-first", f"queueing/0 at {step.position}: {text}"
                    growth.begin(event)
                case PlaceGiven():  # no other pod would get it
                    seen[event.pod] += 1
                case Dispatched():
                    for pod in unpack(event.ids).tolist():
                        gang = gang_of.get(pod, 0)
                        is_new = gang and not (seen[pod] or growth.placed.needed(gang))
                        others = growth.before(gang) if is_new else []
                        seen[pod] += 1
                        if any(pod in growth.arrived[other] for other in others):
                            text = f"pod {pod} of gang {gang} goes before gangs {others}"
                            yield "minimums-first", f"queueing/0 at {step.position}: {text}"
                case _:
                    pass


def _grows(growth: Growth, event: GangDispatched) -> bool:
    """Return whether members above minCount may start in this attempt."""
    if event.tree or event.minimum_only:
        return False
    count = sum(size(part.ids) for part in event.members)
    return count > event.min_count or not growth.placed.needed(event.gang)
