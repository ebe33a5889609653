"""What a preemptor that is in a queue may take from other queues.

Queues are compared below their lowest common ancestor, as in KAI's reclaim: what is above it uses
as much afterwards, or less. There no queue of a victim may fall below its guarantee. A pod that
*claims* uses no more than its queue is guaranteed, and may take what others *borrow*, whatever
their priority; but nothing that counts against the same guarantee as the pod itself.
"""

from collections.abc import Iterable, Mapping

from shared.model.cluster_objects import Queue
from shared.model.objects import PODS
from shared.model.queues import chains

Amounts = tuple[tuple[str, int], ...]
Sums = dict[str, dict[str, int]]
"""Amounts by queue and resource."""


SYSTEM_PRIORITY = 2_000_000_000
"""The priority of system-cluster-critical: users' classes are below it. Pods in no queue with at
least this priority take what they need from any queue (SystemCriticalPriority).
"""


def is_system(queue: str, priority: int) -> bool:
    """Return whether guarantees do not count against a pod."""
    return not queue and priority >= SYSTEM_PRIORITY


class Guarantees:
    """What each queue of a tree is guaranteed."""

    def __init__(self, queues: Iterable[Queue] = ()) -> None:
        """Read a tree without faults."""
        tree = chains(queues)
        self._chains = {name: tuple(one.name for one in chain) for name, chain in tree.items()}
        least = {name: dict(chain[0].guaranteed) for name, chain in tree.items()}
        self._least = {name: amounts for name, amounts in least.items() if amounts}

    def __bool__(self) -> bool:
        """Return whether any queue has a guarantee."""
        return bool(self._least)

    def chain(self, queue: str) -> tuple[str, ...]:
        """Return a queue and those above it; nothing if it does not exist."""
        return self._chains.get(queue, ())

    def least(self, queue: str) -> Mapping[str, int]:
        """Return what is guaranteed to one queue, by resource."""
        return self._least.get(queue, {})

    def may_claim(self, queue: str) -> bool:
        """Return whether pods of a queue may claim."""
        return any(name in self._least for name in self.chain(queue))

    def add(self, sums: Sums, queue: str, amounts: Amounts, count: int) -> None:
        """Add pods to what their queue and those above it use; fewer if `count` is negative."""
        for name in self.chain(queue):
            total = sums.setdefault(name, {})
            for resource, amount in amounts:
                total[resource] = total.get(resource, 0) + amount * count


class QueueLimits:
    """What one preemptor, and equal ones after it, may take from other queues."""

    def __init__(
        self, tree: Guarantees, used: Sums, queue: str, amounts: Amounts, claims: bool
    ) -> None:
        """`used`: what queues use without the pods that leave already; it changes with `take`.
        `amounts` are the preemptor's, which is in `queue`.
        """
        self._tree, self._used, self._chain = tree, used, tree.chain(queue)
        # Resource -> the first queue of the chain with a guarantee for it.
        self._guarantors = {
            resource: name
            for name in reversed(self._chain)
            for resource in tree.least(name)
            if resource in dict(amounts)
        }
        is_wanted = self._guarantors.__contains__
        # On shared levels the preemptor takes the place of what leaves.
        self._own = dict(amounts)
        self._before = {name: dict(used.get(name, {})) for name in self._chain}
        self._wanted = [(one, n) for one, n in amounts if one != PODS or is_wanted(one)]
        # Queue -> how much it borrows; `take` does not change that.
        self._borrowed = {name: self._borrowed_by(name) for name in used} if claims else {}

    def borrows(self, queue: str) -> int:
        """Return how much a queue borrows, if the preemptor may take it, in pods like the
        preemptor, rounded up: of the resource of which it is most, in the queue below the common
        ancestor where it is least. 0: its pods are victims by priority alone.
        """
        return self._borrowed.get(queue, 0)

    def _borrowed_by(self, queue: str) -> int:
        theirs = self._below(queue)
        shared = self._tree.chain(queue)[len(theirs) :]
        is_claimed = any(name not in shared for name in self._guarantors.values())
        if not theirs or not is_claimed:
            return 0
        return min(max(self._over(name, *one) for one in self._wanted) for name in theirs)

    def _over(self, name: str, resource: str, amount: int) -> int:
        used = self._used.get(name, {}).get(resource, 0)
        return max(0, -((self._tree.least(name).get(resource, 0) - used) // amount))

    def _below(self, queue: str) -> tuple[str, ...]:
        """Return the queue and those above it that are not above the preemptor's."""
        return tuple(name for name in self._tree.chain(queue) if name not in self._chain)

    def take(self, queue: str, amounts: Amounts) -> bool:
        """Count a victim as gone; return whether its queues keep their guarantees without it. If
        not, nothing changes.
        """
        for name in self._below(queue):
            used = self._used.get(name, {})
            least = self._tree.least(name)
            if any(used.get(one, 0) - n < least[one] for one, n in amounts if one in least):
                return False
        for name in self._tree.chain(queue) if self._own else ():
            if name in self._chain and self._falls(name, amounts):
                return False
        self._tree.add(self._used, queue, amounts, -1)
        return True

    def _falls(self, name: str, amounts: Amounts) -> bool:
        used, least, before = self._used.get(name, {}), self._tree.least(name), self._before[name]
        return any(
            used.get(one, 0) - n + self._own.get(one, 0) < min(least[one], before.get(one, 0))
            for one, n in amounts
            if one in least
        )

    def give_back(self, queue: str, amounts: Amounts) -> None:
        """Count a victim as staying after all."""
        self._tree.add(self._used, queue, amounts, 1)
