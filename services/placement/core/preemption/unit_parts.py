"""The parts of preemption units on one node: what the dry run takes away, and puts back, at once.

A unit leaves as a whole, so its pods elsewhere in the shard count for its importance, for budgets
and for the choice among nodes. Those in other shards are added by preemption.
"""

from collections.abc import Sequence
from typing import NamedTuple

from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.state import PlacementState
from shared.model.ids import NO_GANG, PodId, SignatureId


class Victim(NamedTuple):
    """A pod of lower priority, as the dry run sees it."""

    pod: PodId
    sig: SignatureId
    mask: int
    priority: int
    start_ms: int


class Part(NamedTuple):
    """Pods that leave together: those on the node, and their mates elsewhere in the shard."""

    here: list[Victim]
    elsewhere: Sequence[Victim] = ()

    def pods(self) -> list[Victim]:
        """Return the pods, those on the node first."""
        return [*self.here, *self.elsewhere]


def parts_of(state: PlacementState, victims: Sequence[Victim]) -> list[Part]:
    """Return the parts of a node's victims, most important first (kube-scheduler 1.37's
    MoreImportantVictim): higher priority, a unit before a pod, more pods, earlier start.
    """
    units = state.units
    if not units:
        return [Part([victim]) for victim in victims]
    here: dict[int, list[Victim]] = {}
    for victim in victims:
        here.setdefault(units.of(victim.pod) or -victim.pod, []).append(victim)
    found = [Part(pods, _mates(state, pods)) for pods in here.values()]
    return sorted(found, key=lambda part: _importance(state, part))


def on_node(state: PlacementState, victims: Sequence[Victim], pods: set[PodId]) -> list[Victim]:
    """Return the victims among `pods`, and their mates among the victims of the node."""
    mates = {*pods, *state.units.mates(pods)}
    return [one for one in victims if one.pod in mates]


def _mates(state: PlacementState, here: Sequence[Victim]) -> list[Victim]:
    mates = state.units.mates([one.pod for one in here])
    there = [pod for pod in mates if IS_VICTIM[state.ledger.kind_of(pod)]]
    return [victim_at(state, state.ledger.row(pod)) for pod in there]


def victim_at(state: PlacementState, row: int) -> Victim:
    """Return the pod in a row of the ledger."""
    ledger, sig = state.ledger, state.ledger.sig_at(row)
    priority, start_ms = state.specs[sig].priority, int(ledger.start_ms[row])
    return Victim(ledger.pod_at(row), sig, int(ledger.devices[row]), priority, start_ms)


def _importance(state: PlacementState, part: Part) -> tuple[int, bool, int, int, PodId]:
    first, pods = part.here[0], part.pods()
    is_alone = state.units.of(first.pod) == NO_GANG
    return (
        *(-first.priority, is_alone, -len(pods)),
        *(min(one.start_ms for one in pods), first.pod),
    )
