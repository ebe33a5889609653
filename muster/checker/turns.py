"""Checks wide rules: one turn at a time, and each reservation in a turn against the pods of all
shards.

The other shards count for a turn before it is granted. What they had then, and what the shard of
the turn has at the reservation, are all pods there are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from muster.checker.books import InTurn, Ledger, names_within
from muster.checker.filters.inter_pod_rules import Around, Neighbours
from muster.checker.filters.volumes import users
from muster.checker.inputs.journals import Journal, Problem
from shared.events.base import Event
from shared.events.permit import CountsAsked, GangReleased, GangTimedOut, HoldAsked
from shared.events.placement import GangHeld, GangRefused, TurnEnded


@dataclass
class _Open:
    """A turn that has not ended. `is_asked`: its shard was asked to hold members of a gang."""

    number: int
    shard: int
    of: tuple[int, int]
    is_asked: bool = False


def check_order(permit: Journal) -> Iterator[Problem]:
    """Yield the turns in permit's journal that begin before the one before has ended, and holds
    that are asked for in no turn of their gang.
    """
    turn: _Open | None = None
    for step in permit.steps:
        for _source, _position, event in step.inputs:
            if turn is not None and _ends(turn, event):
                turn = None
        for event in step.own:
            if isinstance(event, CountsAsked):
                if turn is not None:
                    text = f"turn {event.turn} begins in turn {turn.number}"
                    yield "turns", f"permit/0 at {step.position}: {text}"
                turn = _Open(event.turn, event.shard, (event.gang, event.attempt))
            elif isinstance(event, HoldAsked) and event.turn:
                asked = event.turn, event.shard, (event.gang, event.attempt)
                if turn is None or asked != (turn.number, turn.shard, turn.of):
                    text = f"hold for gang {event.gang} in turn {event.turn} of others"
                    yield "turns", f"permit/0 at {step.position}: {text}"
                else:
                    turn.is_asked = True
            elif turn is not None and _ends(turn, event):
                turn = None


def _ends(turn: _Open, event: Event) -> bool:
    match event:
        case TurnEnded():
            return event.turn == turn.number
        case GangHeld() | GangRefused():
            of = event.gang, event.attempt
            return turn.is_asked and (event.shard, of) == (turn.shard, turn.of)
        case GangReleased() | GangTimedOut():
            # A shard that was asked to hold may do so until it learns of the end.
            return not turn.is_asked and turn.of == (event.gang, event.attempt)
    return False


def check(shards: Sequence[Ledger]) -> None:
    """Check the turns of all shards; the problems go to the books of the shard that reserved."""
    for shard in shards:
        others = [other for other in shards if other is not shard]
        for one in shard.in_turns:
            _check_one(shard, others, one)


def _check_one(shard: Ledger, others: Sequence[Ledger], one: InTurn) -> None:
    text = f"pod {one.pod} on node {one.node.name} in turn {one.turn}"
    standing = list(one.standing)
    for other in others:
        if one.turn not in other.counted:
            shard.blame("turns", one.position, f"{text}: {other.journal} has not counted")
            return
        counted = other.counted[one.turn]
        pods = ((pod, spec) for _node, load in counted for pod, spec in load.pods.items())
        for claim in users(one.claims, pods) if one.claims else ():
            shard.blame("one-pod-per-claim", one.position, f"{text}: {claim}")
        standing += counted
    names = names_within(standing, one.within)
    others_of = Neighbours(standing, shard.namespaces, shard.version, within=names)
    obstacle = Around(one.spec, others_of).obstacle(one.node)
    if obstacle is not None:
        shard.blame("inter-pod-rules", one.position, f"{text}: {obstacle}")
