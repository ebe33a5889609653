"""What a preemptor may take from other queues, in the terms of the dry run.

The rules are those of shared/model/preemption/queue_limits.py. Preemption says what queues use, and
checks the choice against what they use then.
"""

from collections import Counter
from collections.abc import Sequence

from services.placement.core.preemption.unit_parts import Part, Victim
from services.placement.core.state import PlacementState
from shared.events.preemption import DryRunAsked
from shared.model.ids import NO_GANG, PodId, SignatureId
from shared.model.objects import PODS
from shared.model.preemption.queue_limits import Amounts, QueueLimits
from shared.model.queues import amounts


class OtherQueues:
    """The limits of one dry run, with the victims of those before it counted as gone."""

    def __init__(self, state: PlacementState, event: DryRunAsked) -> None:
        """`event` says what queues use."""
        self._state = state
        self._amounts: dict[SignatureId, Amounts] = {}
        used = {one.queue: dict(one.amounts) for one in event.used}
        queue, wanted = state.specs[event.sig].queue, self._amounts_of(event.sig)
        self._limits = QueueLimits(state.guarantees, used, queue, wanted, event.claims)
        self._wanted = wanted

    def _amounts_of(self, sig: SignatureId) -> Amounts:
        if sig not in self._amounts:
            self._amounts[sig] = tuple(sorted(amounts(self._state.specs[sig]).items()))
        return self._amounts[sig]

    def borrows(self, sig: SignatureId) -> int:
        """Return how much the queue of such a pod borrows (`QueueLimits.borrows`); 0 if the pod is
        a victim by priority alone.
        """
        return self._limits.borrows(self._state.specs[sig].queue)

    def in_order(self, parts: Sequence[Part]) -> list[Part]:
        """Return the parts, most important first: of a pod that claims those that borrow more are
        less important; equal ones stay in their order.
        """
        return sorted(parts, key=lambda part: self.borrows(part.here[0].sig))

    def within(self, parts: Sequence[Part], largest_first: bool = False) -> list[Victim]:
        """Return the victims of those parts that may leave together: the least important first, or
        those that make most room, as long as no queue falls below its guarantee.
        """
        order = self.in_order(parts)[::-1]
        if largest_first:
            order.sort(key=self._room, reverse=True)
        found: list[Victim] = []
        stays = {NO_GANG}  # whole groups of which a part stays
        for part in order:
            if (part.unit == NO_GANG or part.unit not in stays) and self._take(part.pods()):
                found += part.pods()
            else:
                stays.add(part.unit)
        for one in found:
            self._limits.give_back(self._state.specs[one.sig].queue, self._amounts_of(one.sig))
        return found

    def _room(self, part: Part) -> int:
        """Return how much room a part makes, in thousandths of what the preemptor asks for."""
        gone = Counter[str]()
        for one in part.here:
            gone.update(dict(self._amounts_of(one.sig)))
        return min((gone[name] * 1_000 // n for name, n in self._wanted if name != PODS), default=0)

    def _take(self, pods: Sequence[Victim]) -> bool:
        done = list[Victim]()
        for one in pods:
            if not self._limits.take(self._state.specs[one.sig].queue, self._amounts_of(one.sig)):
                for other in done:
                    sig = other.sig
                    self._limits.give_back(self._state.specs[sig].queue, self._amounts_of(sig))
                return False
            done.append(one)
        return True

    def leave(self, pods: Sequence[PodId]) -> None:
        """Count the victims of a preemptor before this one as gone."""
        for pod in pods:
            sig = self._state.ledger.sig_at(self._state.ledger.row(pod))
            self._limits.take(self._state.specs[sig].queue, self._amounts_of(sig))
