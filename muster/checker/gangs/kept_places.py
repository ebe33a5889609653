"""Checks the places that groups keep for lost members: which, for how long, and for which pods.

That no other pod takes such a place is checked with all nominations (`nominated-space`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from muster.checker.books import Ledger, Nomination
from muster.checker.filters.fits import surely_fits
from muster.checker.gangs.placed_members import PlacedMembers
from muster.checker.inputs.journals import Journal, Problem, Step
from muster.checker.preemption.victims import crowd
from shared.events.base import Event
from shared.events.ingest import GangSet, MembersLost
from shared.events.permit import GangCommitted
from shared.events.placement import NominationLost, PlaceKept
from shared.events.queueing import GangShrunk, Parked, PlaceGiven
from shared.model.columns import unpack

RULE = "kept-places"


def lost(ledger: Ledger, event: MembersLost, now_ms: int) -> None:
    """Note the places to keep, before the members leave them. A node may be withheld as long as
    binds to its name are on their way: what was there has no place.
    """
    uncertain = {late.name for late in ledger.on_the_way.values()}
    if not event.hold_ms:
        ledger.ended_holds.add(event.gang)
    for pod in unpack(event.ids).tolist():
        node = ledger.place.get(pod)
        if node in ledger.nodes and pod in ledger.facts:
            spec, until_ms = ledger.loads[node].pods[pod], now_ms + event.hold_ms
            ledger.places_due[pod] = Nomination(pod, node, spec, (), event.gang, until_ms)
            if ledger.nodes[node].name in uncertain:
                ledger.places_unsure.add(pod)


def keep(ledger: Ledger, event: PlaceKept, step: Step) -> None:
    """Check a kept place and add it to the books."""
    due = ledger.places_due.pop(event.pod, None)
    one = (event.gang, event.node, event.until_ms)
    if due is None or (due.gang, due.node, due.until_ms) != one:
        ledger.blame(RULE, step.position, f"the place of pod {event.pod} is kept as {one}")
    spec = ledger.specs[event.sig]
    ledger.nominations[event.pod] = Nomination(event.pod, event.node, spec, (), *one[::2])
    ledger.kept_pods[event.ask] = event.pod


def give(ledger: Ledger, event: PlaceGiven) -> None:
    """Let a place be the nomination of one member."""
    one = ledger.nominations.get(ledger.kept_pods.get(event.ask, 0))
    if one is not None:
        del ledger.nominations[one.pod]
        ledger.drop_nomination(event.pod)
        ledger.nominations[event.pod] = replace(one, pod=event.pod)
        ledger.kept_pods[event.ask] = event.pod


def end(ledger: Ledger, event: NominationLost) -> None:
    """Note the end of a nomination, whosever it is."""
    ledger.places_due.pop(event.pod, None)
    ledger.drop_nomination(ledger.kept_pods.pop(event.ask, event.pod))


def end_of_gang(ledger: Ledger, gang: int) -> None:
    """Remove the places that a gang keeps, since others are nominated for it."""
    for pod, one in list(ledger.nominations.items()):
        if one.until_ms and one.gang == gang:
            del ledger.nominations[pod]


def check_seat(ledger: Ledger, step: Step, pod: int, node: int) -> None:
    """Check that a member gets the place that is kept for it, unless others have taken it."""
    one = ledger.nominations.get(pod)
    if one is None or not one.until_ms or one.node == node or ledger.is_wide(one.spec):
        return
    where, load = ledger.nodes.get(one.node), crowd(ledger, pod, one.spec, one.node, set())
    around = ledger.around(one.spec, {one.node: load})
    if where is None or (around is not None and around.obstacle(where) is not None):
        return
    if surely_fits(one.spec, where, load):
        text = f"pod {pod} on node {node}, its place on node {one.node} is free"
        ledger.blame(RULE, step.position, text)


def check_step(ledger: Ledger, step: Step) -> None:
    """Check at the end of a step that all is kept that must be, and nothing for too long. A claim
    decides nothing.
    """
    if step.record.claim is not None:
        return
    for pod in sorted(set(ledger.places_due) - ledger.places_unsure):
        ledger.blame(RULE, step.position, f"the place of pod {pod} is not kept")
    for pod, one in sorted(ledger.nominations.items()):
        if not one.until_ms:
            continue
        if one.until_ms <= step.record.time_ms or one.gang in ledger.ended_holds:
            text = f"a place for pod {pod} of gang {one.gang} is kept for too long"
            ledger.blame(RULE, step.position, text)
    ledger.places_due.clear()
    ledger.places_unsure.clear()
    ledger.ended_holds.clear()


@dataclass
class _Queue:
    """Open places by number, and the gangs whose members are single pods."""

    placed: PlacedMembers
    places: dict[int, PlaceKept] = field(default_factory=dict)
    with_topology: set[int] = field(default_factory=set)

    def learn(self, event: Event) -> None:
        self.placed.learn(event)
        match event:
            case PlaceKept():
                self.places[event.ask] = event
            case NominationLost():
                self.places.pop(event.ask, None)
            case GangCommitted():
                nodes = unpack(event.nodes).tolist()
                for ask, one in list(self.places.items()):
                    if one.gang == event.gang and one.node in nodes:
                        nodes.remove(one.node)
                        del self.places[ask]
            case GangSet() if event.topology is not None:
                self.with_topology.add(event.gang)
            case _:
                pass

    def keeps(self, gang: int, sig: int) -> bool:
        """Return whether the gang keeps a place for a single pod of this signature."""
        if gang in self.with_topology | self.placed.in_trees or self.placed.needed(gang):
            return False
        kept = ((one.gang, one.sig) for one in self.places.values())
        return gang in self.placed.started and (gang, sig) in list(kept)


def check(journal: Journal, gang_of: Mapping[int, int]) -> Iterator[Problem]:
    """Yield the members that are parked although their gang keeps a place for them."""
    queue = _Queue(PlacedMembers(gang_of))
    for step in journal.steps:
        for _source, _position, event in step.inputs:
            queue.learn(event)
        for event in step.own:
            if isinstance(event, PlaceGiven):
                queue.places.pop(event.ask, None)
        for event in step.own:
            if isinstance(event, GangShrunk):
                queue.placed.shrunk.add(event.gang)
            if not isinstance(event, Parked):
                continue
            for pod in unpack(event.ids).tolist():
                if queue.keeps(gang_of.get(pod, 0), event.sig):
                    text = f"pod {pod} waits while its gang keeps a place for it"
                    yield RULE, f"{journal.name} at {step.position}: {text}"
