"""NodeResourcesFit: amounts and pod count (filter), LeastAllocated over cpu and memory (score).

Formulas of kube-scheduler 1.35, integers throughout; see layout.py for why float64 may hold them.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared.model.objects import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, PodSpec
from shared.scheduling.api.plugin import Check, Refusal
from shared.scheduling.table.layout import ALLOC, F64, FREE, I16, PODS_INDEX, ROOM, Mask

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable

ONE_SLOT: Check = (FREE + PODS_INDEX, 1.0)

ORDER = (PODS, CPU, MEMORY, EPHEMERAL_STORAGE)


def _rank(resource: str) -> tuple[int, str]:
    """Return the sort key of a resource. Extended resources come last; kube-scheduler's order of
    them varies, here it is by name.
    """
    return (ORDER.index(resource) if resource in ORDER else len(ORDER)), resource


def is_extended(resource: str) -> bool:
    """Return whether kube-scheduler calls it an extended resource."""
    return "/" in resource and "kubernetes.io/" not in resource


class NodeResourcesFit:
    """Column filter. Extended resources in `ignored`, or in a group (the part before the slash) of
    `ignored_groups`, are skipped.
    """

    name = "NodeResourcesFit"

    def __init__(self, ignored: tuple[str, ...] = (), ignored_groups: tuple[str, ...] = ()) -> None:
        self._ignored, self._ignored_groups = frozenset(ignored), frozenset(ignored_groups)

    def _passes_over(self, resource: str) -> bool:
        named = resource in self._ignored or resource.partition("/")[0] in self._ignored_groups
        return named and is_extended(resource)

    def checks(self, table: "NodeTable", spec: PodSpec) -> list[Check]:
        """Return the checks of one pod slot and every requested resource.

        A resource that is not requested is not checked: such pods still fit on a node that is
        over-committed in it.
        """
        found = [ONE_SLOT]
        for name, value in spec.requests:
            if name != PODS and value > 0 and not self._passes_over(name):
                found.append((FREE + table.resource(name), float(value)))
        return found

    def refusals(self, table: "NodeTable", sig: "Signature", cols: F64) -> list[Refusal]:
        """Return every short resource, for every node, in kube-scheduler's order.

        A node whose allocatable is below the request stays refused whatever is removed, except for
        the pod count, which kube-scheduler always calls resolvable.
        """
        names = {index: name for name, index in table.resources.items()}
        hopeless = np.zeros(table.size, np.bool_)
        found: list[tuple[str, Mask]] = []
        checks = sorted(self.checks(table, sig.spec), key=lambda one: _rank(names[one[0] - FREE]))
        for column, amount in checks:
            index = column - FREE
            refused = cols[column] < amount
            if index == PODS_INDEX:
                found.append(("Too many pods", refused))
            else:
                hopeless |= refused & (table.allocatable[index] < amount)
                found.append((f"Insufficient {names[index]}", refused))
        return [Refusal(text, refused, refused & ~hopeless) for text, refused in found]


class LeastAllocated:
    """Local score: the mean of the free shares of cpu and memory, as whole percents.

    A resource of which the node has none is left out of the mean. A node may hold more non-zero
    requests than it has (best-effort pods): its share is 0 then, not negative.
    """

    name = "NodeResourcesFit"

    def applies(self, sig: "Signature") -> bool:
        """Return True."""
        return True

    def scores(self, sig: "Signature", cols: F64, whole: bool, within: bool) -> I16:
        """Return the scores. Cutting to int16 is the integer division, as nothing is negative."""
        alloc = cols[ALLOC : ALLOC + 2]
        share = cols[ROOM : ROOM + 2] - sig.room
        if not within:
            np.maximum(share, 0.0, out=share)
        if whole:
            share /= alloc
            percents = share.astype(np.int16)
            score: I16 = percents[0] + percents[1]
            score >>= 1
            return score
        has = alloc > 0.0
        share /= np.maximum(alloc, 1.0)
        percents = np.where(has, share, 0.0).astype(np.int16)
        weights = np.maximum(has.sum(axis=0, dtype=np.int16), np.int16(1))
        mean: I16 = (percents[0] + percents[1]) // weights
        return mean

    def score(self, sig: "Signature", values: Sequence[float]) -> int:
        """Return the score of one node."""
        cpu, memory = values[ALLOC], values[ALLOC + 1]
        total, weights = 0, 0
        if cpu:
            room = values[ROOM] - sig.room_cpu
            weights = 1
            if room > 0.0:
                total = int(room / cpu)
        if memory:
            room = values[ROOM + 1] - sig.room_memory
            weights += 1
            if room > 0.0:
                total += int(room / memory)
        return total // weights if weights else 0
