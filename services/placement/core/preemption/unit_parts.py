"""The parts of preemption units on one node: what the dry run takes away, and puts back, at once.

A unit leaves as a whole, so its pods elsewhere in the shard count for its importance, for budgets
and for the choice among nodes. Those in other shards are added by preemption.

Of a group that keeps its minimum, the least important pods on the node leave one by one, as many as
it can spare. The others there are a part that leaves with all of its pods.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.state import PlacementState
from shared.model.ids import NO_GANG, GangId, PodId, SignatureId

Spare = Mapping[GangId, int]
"""How many pods may leave each group that keeps its minimum."""


class Victim(NamedTuple):
    """A pod of lower priority, as the dry run sees it."""

    pod: PodId
    sig: SignatureId
    mask: int
    priority: int
    start_ms: int


class Part(NamedTuple):
    """Pods that leave together: those on the node, and their mates elsewhere in the shard. With
    those of a whole `unit` its pods that would leave one by one leave, too.
    """

    here: list[Victim]
    elsewhere: Sequence[Victim] = ()
    unit: GangId = NO_GANG
    is_whole: bool = False

    def pods(self) -> list[Victim]:
        """Return the pods, those on the node first."""
        return [*self.here, *self.elsewhere]


def parts_of(
    state: PlacementState, victims: Sequence[Victim], spare: Spare, taken: Collection[PodId]
) -> list[Part]:
    """Return the parts of a node's victims, most important first (kube-scheduler 1.37's
    MoreImportantVictim): higher priority, a unit before a pod, more pods, earlier start.
    """
    units = state.units
    if not units:
        return [Part([victim]) for victim in victims]
    here: dict[int, list[Victim]] = {}
    for victim in victims:
        here.setdefault(units.of(victim.pod) or -victim.pod, []).append(victim)
    found: list[Part] = []
    for number, pods in here.items():
        if number < 0:
            found.append(Part(pods))
        else:
            found += _parts_of_unit(state, GangId(number), pods, spare, taken)
    return sorted(found, key=_importance)


def _parts_of_unit(
    state: PlacementState,
    unit: GangId,
    pods: list[Victim],
    spare: Spare,
    taken: Collection[PodId],
) -> Iterator[Part]:
    singles = min(len(pods), _singles(state, unit, spare, len(pods)))
    whole = pods[: len(pods) - singles]
    if whole:
        leaving = taken if state.units.keeps_minimum(unit) else ()
        yield Part(whole, _mates(state, pods, leaving), unit, is_whole=True)
    for one in pods[len(whole) :]:
        yield Part([one], unit=unit)


def _singles(state: PlacementState, gang: GangId, spare: Spare, pods: int) -> int:
    """Return how many of `pods` pods on a node leave one by one: all if nothing is known about the
    group.
    """
    return spare.get(gang, pods) if state.units.keeps_minimum(gang) else 0


def reprieved(
    parts: Sequence[Part], violations: Sequence[int], stays: Callable[[Part], bool]
) -> list[int]:
    """Return which parts leave, ascending: those that do not stay. Parts with violations are tried
    first.
    """
    gone: set[int] = set()
    whole: set[GangId] = set()  # groups that leave with all of their pods
    # Pods that leave alone come after the part that they would leave with.
    clear = {at for at, count in enumerate(violations) if not count and parts[at].is_whole}
    later = {parts[at].unit for at in clear}
    for beyond in (True, False):
        for number, part in enumerate(parts):
            if (violations[number] > 0 and part.unit not in later) is not beyond:
                continue
            if part.unit not in whole and stays(part):
                continue
            gone.add(number)
            if part.is_whole:
                whole.add(part.unit)
    return sorted(gone)


def on_node(
    state: PlacementState, victims: Sequence[Victim], pods: set[PodId], spare: Spare
) -> list[Victim]:
    """Return the victims among `pods`, and their mates among the victims of the node."""
    leave = set(pods)
    for gang in {state.units.of(pod) for pod in pods} - {NO_GANG}:
        there = {one.pod for one in victims if state.units.of(one.pod) == gang}
        chosen = len(there & pods)
        if chosen > _singles(state, gang, spare, chosen):
            leave |= there
    return [one for one in victims if one.pod in leave]


def _mates(state: PlacementState, here: Sequence[Victim], taken: Collection[PodId]) -> list[Victim]:
    mates = [pod for pod in state.units.mates([one.pod for one in here]) if pod not in taken]
    there = [pod for pod in mates if IS_VICTIM[state.ledger.kind_of(pod)]]
    return [victim_at(state, state.ledger.row(pod)) for pod in there]


def victim_at(state: PlacementState, row: int) -> Victim:
    """Return the pod in a row of the ledger."""
    ledger, sig = state.ledger, state.ledger.sig_at(row)
    priority, start_ms = state.specs[sig].priority, int(ledger.start_ms[row])
    return Victim(ledger.pod_at(row), sig, int(ledger.devices[row]), priority, start_ms)


def _importance(part: Part) -> tuple[int, bool, int, int, PodId]:
    first, pods = part.here[0], part.pods()
    return (
        *(-first.priority, not part.is_whole, -len(pods)),
        *(min(one.start_ms for one in pods), first.pod),
    )
