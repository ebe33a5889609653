"""Checks what becomes of started gangs of which fewer than minCount run: what their groups say, and
not before their grace is over. A gang whose rest is to be evicted does not run on for long.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from muster.checker.gangs.placed_members import PlacedMembers
from muster.checker.inputs.journals import Journal, Problem, Step
from shared.events.base import Event
from shared.events.ingest import GangGone, GangSet
from shared.events.permit import GangCommitted, GangReleased, GangTimedOut
from shared.events.queueing import GangDispatched, GangEvictAsked, GangShrunk
from shared.model.columns import unpack
from shared.model.groups.below_minimum import EVICT, SHRINK, BelowMinimum

RULE = "below-minimum"
SLACK_MS = 10_000
"""A decision may wait for the answer to a try, and for a new owner."""


@dataclass
class Gangs:
    """The rules of groups; since when a gang has been below its minimum; gangs being tried."""

    placed: PlacedMembers
    rules: dict[int, BelowMinimum] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    tried: set[int] = field(default_factory=set)

    def learn(self, event: Event) -> None:
        """Apply an input of queueing."""
        self.placed.learn(event)
        match event:
            case GangSet():
                self.rules.pop(event.gang, None)
                if event.below_minimum is not None and not event.root:
                    self.rules[event.gang] = event.below_minimum
            case GangGone():
                self.rules.pop(event.gang, None)
            case GangCommitted() | GangReleased() | GangTimedOut():
                self.tried.discard(event.gang)
            case _:
                pass

    def note(self, now_ms: int) -> None:
        """Note the gangs that are below their minimum now."""
        for gang in sorted(self.rules):
            running = self.placed.running.get(gang, set())
            is_below = self.placed.needed(gang) > 0 and bool(running & self.placed.bound)
            if gang in self.placed.started and is_below:
                self.since.setdefault(gang, now_ms)
            else:
                self.since.pop(gang, None)


def check(journal: Journal, gang_of: Mapping[int, int]) -> Iterator[Problem]:
    """Yield evictions and shrinking that the groups do not ask for, or too early; and gangs that
    should be evicted and are not.
    """
    gangs = Gangs(PlacedMembers(gang_of))
    for step in journal.steps:
        for source, position, event in step.inputs:
            gangs.learn(event)
            gangs.note(step.time_ms(source, position))
        for event in step.own:
            if isinstance(event, GangDispatched):
                gangs.tried.add(event.gang)
            if isinstance(event, GangEvictAsked | GangShrunk):
                yield from _decided(gangs, event, step)
        yield from _late(gangs, step)


def _decided(gangs: Gangs, event: GangEvictAsked | GangShrunk, step: Step) -> Iterator[Problem]:
    number, now_ms = event.gang, step.record.time_ms
    rule, where = gangs.rules.get(number), f"queueing/0 at {step.position}: gang {number}"
    wanted = EVICT if isinstance(event, GangEvictAsked) else SHRINK
    if rule is None or rule.rule != wanted:
        yield RULE, f"{where}: its group does not say {wanted}"
        return
    since_ms = gangs.since.get(number, now_ms)
    if now_ms - since_ms < rule.grace_ms:
        yield RULE, f"{where}: {wanted} {now_ms - since_ms} ms after it fell below its minimum"
    if isinstance(event, GangEvictAsked):
        running = gangs.placed.running.get(number, set())
        asked = set(unpack(event.ids).tolist())
        if asked != running & gangs.placed.bound:
            yield RULE, f"{where}: {sorted(asked)} are to be evicted, {sorted(running)} run"
        gangs.since[number] = now_ms
    else:
        gangs.placed.shrunk.add(number)
        gangs.since.pop(number, None)


def _late(gangs: Gangs, step: Step) -> Iterator[Problem]:
    now_ms = step.record.time_ms
    for number, since_ms in sorted(gangs.since.items()):
        rule = gangs.rules[number]
        if now_ms - since_ms > rule.grace_ms + SLACK_MS and number not in gangs.tried:
            gangs.since[number] = now_ms
            text = f"gang {number} is below its minimum since {now_ms - since_ms} ms"
            yield RULE, f"queueing/0 at {step.position}: {text}, nothing becomes of it"
