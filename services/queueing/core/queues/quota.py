"""What the pods of each queue use, and the room that is left below its max and those above it.

Pods that are being tried or have a node are *used*. Pods for which preemption makes room are
*nominated*: others leave them their part, but only what is used must stay below the max.

What a queue uses above its guarantee is *borrowed*, and a pod that borrows nothing *claims*. Of
each resource that a pod asks for, the first queue of its chain with a guarantee for it counts: a
queue keeps its guarantee also while others below the same parent have borrowed the parent's.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

from shared.model.cluster_objects import Queue
from shared.model.ids import GangId, PodId, SignatureId
from shared.model.queues import chains, full_message, granted, missing_message

PLENTY = 1 << 60
PLAIN, CLAIMS, BORROWS = range(3)
"""The standing of what waits: in no queue, or without any guarantees; claims one; or borrows."""
Amounts = tuple[tuple[str, int], ...]
Chain = tuple[tuple[str, dict[str, int]], ...]
"""A queue and those above it, with their max."""
Sums = dict[str, dict[str, int]]
"""Amounts by queue and resource."""
GangEntry = tuple[int, int, GangId, int]
"""(-priority, age, gang, standing) in a heap of gangs that can be tried."""


class Quota:
    """The limits of a tree of queues, with what their pods use."""

    def __init__(self, queues: Iterable[Queue]) -> None:
        """Start without pods."""
        queues = tuple(queues)
        tree = chains(queues)
        self._chains = {
            name: tuple((one.name, dict(one.max)) for one in chain) for name, chain in tree.items()
        }
        self._guaranteed = {name: dict(chain[0].guaranteed) for name, chain in tree.items()}
        self._granted = granted(queues)
        # Queue -> resource -> the first queue of its chain that guarantees it.
        self._guarantors = {
            name: {resource: one.name for one in reversed(chain) for resource, _n in one.guaranteed}
            for name, chain in tree.items()
        }
        self.has_guarantees = any(self._guaranteed.values())
        # What is guaranteed and not used: of a queue or those below it, and of those below it.
        self._kept: Sums = {}
        self._kept_below: Sums = {}
        self.used: Sums = {}
        self.nominated: Sums = {}
        self.nominees: dict[PodId, SignatureId] = {}
        # Queue -> signatures that it holds back, and other things that wait for any queue.
        self.held: dict[str, dict[SignatureId, None]] = {}
        self.held_gangs: dict[GangId, None] = {}
        self.held_asks: dict[SignatureId, None] = {}
        # Queue -> what would borrow because its guarantee is used up.
        self.borrowers: dict[str, dict[SignatureId, None]] = {}
        self.borrowing_gangs: dict[str, dict[GangId, None]] = {}
        # Gangs that can be tried: those whose standing is not known yet, and the others by it.
        self.unsorted_gangs: dict[GangId, None] = {}
        self.gangs_ready: dict[int, list[GangEntry]] = {CLAIMS: [], BORROWS: []}
        self.freed: dict[str, None] = {}  # queues that use less since the last look
        # Wait until a queue uses more or less, as they asked preemption in vain.
        self.vain_asks: dict[SignatureId, None] = {}
        self.untold: dict[SignatureId, None] = {}  # may have ready pods without a message
        for name in self._chains:
            self._keep(name, self._guaranteed[name])

    def charge(self, queue: str, amounts: Amounts, count: int) -> None:
        """Count `count` more pods of a queue as used; fewer if it is negative."""
        self._add(self.used, queue, amounts, count)

    def nominate(self, queue: str, amounts: Amounts, count: int) -> None:
        """Count `count` more pods of a queue as nominated; fewer if it is negative."""
        self._add(self.nominated, queue, amounts, count)

    def _add(self, sums: Sums, queue: str, amounts: Amounts, count: int) -> None:
        self.add(sums, queue, amounts, count)
        if self.has_guarantees:
            self._keep(queue, (resource for resource, _amount in amounts))
        if count < 0:
            self.freed.update((name, None) for name, _most in self._chains.get(queue, ()))

    def room(
        self,
        queue: str,
        amounts: Amounts,
        but_nominated: bool = False,
        also: Sums | None = None,
    ) -> int:
        """Return how many more pods fit below all limits; 0 in a queue that does not exist.
        `but_nominated`: beside what is used alone. `also`: counts as used, too.
        """
        chain = self._chains.get(queue)
        if chain is None:
            return 0
        pods, kept = PLENTY, PLENTY
        for level, (name, most) in enumerate(chain):
            if not most:
                continue
            used = self._used(name, but_nominated)
            more = also.get(name, {}) if also else {}
            for resource, amount in amounts:
                if resource in most:
                    left = most[resource] - used.get(resource, 0) - more.get(resource, 0)
                    pods = min(pods, max(left, 0) // amount)
                    if resource in self._kept_below.get(name, {}) and not but_nominated:
                        kept = min(
                            kept, self._beside_kept(chain, level, resource, amount, left, also)
                        )
        return pods if kept >= pods else max(kept, min(pods, self.claimed(queue, amounts, also)[0]))

    def _used(self, name: str, but_nominated: bool) -> Mapping[str, int]:
        used, nominated = self.used.get(name, {}), self.nominated.get(name)
        if but_nominated or not nominated:
            return used
        return {one: used.get(one, 0) + nominated.get(one, 0) for one in (used | nominated)}

    def _keep(self, queue: str, resources: Iterable[str]) -> None:
        """Follow what a queue and those above it keep of these resources."""
        chain = self._chains.get(queue, ())
        for resource in resources:
            change = 0
            for name, _most in chain:
                below = self._kept_below.get(name, {}).get(resource, 0) + change
                if change:
                    self._kept_below.setdefault(name, {})[resource] = below
                kept = max(self._left(name, resource, 0), below)
                change = kept - self._kept.get(name, {}).get(resource, 0)
                if not change:
                    break
                self._kept.setdefault(name, {})[resource] = kept

    def _left(self, name: str, resource: str, also: int) -> int:
        """Return what is left of a queue's guarantee, beside `also`."""
        least = self._guaranteed[name].get(resource, 0)
        return max(least - self._used(name, False).get(resource, 0) - also, 0) if least else 0

    def _kept_beside(
        self, chain: Chain, level: int, resource: str, also: Callable[[str], int]
    ) -> int:
        """Return what the queues below one of the chain keep, with what is used `also` by name."""
        change = 0
        for name, _most in chain[:level]:
            below = self._kept_below.get(name, {}).get(resource, 0) + change
            kept = max(self._left(name, resource, also(name)), below)
            change = kept - self._kept.get(name, {}).get(resource, 0)
        return self._kept_below.get(chain[level][0], {}).get(resource, 0) + change

    def _beside_kept(
        self, chain: Chain, level: int, resource: str, amount: int, left: int, also: Sums | None
    ) -> int:
        """Return how many pods fit in what is `left` of a max, beside what is kept."""

        def fit(pods: int) -> bool:
            def more(name: str) -> int:
                return pods * amount + (also.get(name, {}).get(resource, 0) if also else 0)

            return pods * amount + self._kept_beside(chain, level, resource, more) <= left

        return bisect_left(range(max(left, 0) // amount), True, key=lambda n: not fit(n + 1))

    def add(self, sums: Sums, queue: str, amounts: Amounts, count: int) -> None:
        """Add pods to the sums of their queue and those above it."""
        for name, _most in self._chains.get(queue, ()):
            total = sums.setdefault(name, {})
            for resource, amount in amounts:
                total[resource] = total.get(resource, 0) + amount * count

    def holder(self, queue: str, amounts: Amounts) -> str:
        """Return the first queue of the chain without room for one more pod; empty if none."""
        found = self._limit(queue, amounts)
        return found[0] if found else ""

    def message(self, queue: str, amounts: Amounts, also: Sums | None = None) -> str:
        """Return why one more pod of this queue waits; empty if there is room."""
        found = self._limit(queue, amounts, also)
        if found is None:
            return ""
        name, resource, most, kept = found
        if not resource:
            return missing_message(name)
        return full_message(name, resource, self._used(name, False).get(resource, 0), most, kept)

    def _limit(
        self, queue: str, amounts: Amounts, also: Sums | None = None
    ) -> tuple[str, str, int, int] | None:
        """Return the first queue of the chain without room for one more pod, the resource, its max,
        and what is kept of it.
        """
        chain = self._chains.get(queue)
        if chain is None:
            return queue, "", 0, 0
        found: tuple[str, str, int, int] | None = None
        for level, (name, most) in enumerate(chain):
            used = self._used(name, False) if most else {}
            more = also.get(name, {}) if also else {}
            for resource, amount in amounts:
                taken = used.get(resource, 0) + more.get(resource, 0)
                if resource not in most:
                    continue
                left = most[resource] - taken
                if amount > left:
                    return name, resource, most[resource], 0
                is_kept = found is None and resource in self._kept_below.get(name, {})
                if is_kept and not self._beside_kept(chain, level, resource, amount, left, also):
                    found = name, resource, most[resource], self._kept_below[name][resource]
        return found if found is None or not self.claims(queue, amounts, also) else None

    def claims(self, queue: str, amounts: Amounts, also: Sums | None = None) -> bool:
        """Return whether one more pod of this queue is within what is guaranteed, of at least one
        resource that it asks for and of all others that are guaranteed. `also`: counts as used,
        too.
        """
        return self.claimed(queue, amounts, also)[0] > 0

    def claimed(self, queue: str, amounts: Amounts, also: Sums | None = None) -> tuple[int, str]:
        """Return how many more pods of this queue claim, and the queue whose guarantee allows no
        more; (0, "") if nothing that they ask for is guaranteed.
        """
        pods, first = PLENTY, ""
        guarantors = self._guarantors.get(queue)
        if not guarantors:
            return 0, ""
        for resource, amount in amounts:
            name = guarantors.get(resource, "")
            if name:
                left = self._guaranteed[name][resource] - self._used(name, False).get(resource, 0)
                left -= also.get(name, {}).get(resource, 0) if also else 0
                if max(left, 0) // amount < pods:
                    pods, first = max(left, 0) // amount, name
        return (pods, first) if first else (0, "")

    def is_within(self, queue: str, amounts: Amounts) -> bool:
        """Return whether, of each guaranteed resource in `amounts`, no more is used than is
        guaranteed; False if none is guaranteed.
        """
        guarantors = self._guarantors.get(queue, {})
        names = [(guarantors[one], one) for one, _amount in amounts if one in guarantors]
        return bool(names) and all(
            self._used(name, False).get(one, 0) <= self._guaranteed[name][one]
            for name, one in names
        )

    def lane(self, sig: SignatureId, queue: str, amounts: Amounts, mask: int, all_mask: int) -> int:
        """Return the key of the heap for a signature that cannot be tried at the shards of `mask`:
        above their bits is whether it claims or borrows. If it borrows, it is kept until the queue
        whose guarantee is used up uses less.
        """
        if not self.has_guarantees or mask == all_mask:
            return mask
        pods, name = self.claimed(queue, amounts)
        if not pods and name:
            self.borrowers.setdefault(name, {})[sig] = None
        return mask | (CLAIMS if pods else BORROWS) << all_mask.bit_length()

    def may_claim(self, queue: str) -> bool:
        """Return whether pods of this queue may be within a guarantee."""
        return bool(self._guarantors.get(queue))

    def borrowed(self, queue: str) -> dict[str, int]:
        """Return what a queue uses above what is guaranteed to it, or together to those below it.
        A resource without a guarantee is borrowed wholly.
        """
        used, least = self.used.get(queue, {}), self._granted.get(queue, {})
        over = {one: used[one] - least.get(one, 0) for one in sorted(used)}
        return {one: amount for one, amount in over.items() if amount > 0}

    def hold(self, sig: SignatureId, queue: str, amounts: Amounts) -> bool:
        """Return whether a signature must wait; it is kept until the queue without room uses
        less.
        """
        name = self.holder(queue, amounts)
        if name:
            self.held.setdefault(name, {})[sig] = None
        return bool(name)
