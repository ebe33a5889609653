"""NodeResourcesFit's strategies and NodeResourcesBalancedAllocation over any resources.

The default of both, over cpu and memory alone, is in node_resources_fit.py and
balanced_allocation.py: the same scores, faster. Here a resource is two columns, and everything is
written twice, for arrays and for one node; the two agree bit by bit. Amounts are at most
SCORED_MAX, so that percents are exact (see layout.py).
"""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple, Protocol

import numpy as np

from shared.model.profile import LEAST_ALLOCATED, Strategy
from shared.scheduling.table.layout import F64, I64, PERCENT

FULL = 100  # percent: the highest utilization, and the highest score
HALF = FULL // 2


class Part(NamedTuple):
    """One resource as one pod sees it: the columns of what is allocatable and of what is requested,
    what the pod adds to it, and how much it counts. `is_room`: the second column holds 100 times
    what is left instead (ROOM).
    """

    have: int
    column: int
    is_room: bool
    ask: float
    weight: int = 1


class ResourceScore(Protocol):
    """A score of 0..100 for each node from its own resources."""

    def scores(self, cols: F64) -> I64:
        """Of gathered nodes, shape (m,)."""

    def score(self, values: Sequence[float]) -> int:
        """The same of one node."""


def _arrays(part: Part, cols: F64) -> tuple[F64, F64]:
    """What the nodes have, and what is requested of it with the pod."""
    have: F64 = cols[part.have]
    used: F64 = cols[part.column]
    return have, (have - used / PERCENT if part.is_room else used) + part.ask


def _numbers(part: Part, values: Sequence[float]) -> tuple[float, float]:
    have, used = values[part.have], values[part.column]
    return have, (have - used / PERCENT if part.is_room else used) + part.ask


class Utilization:
    """The weighted mean over the resources of what is free (LeastAllocated), of what is requested
    (MostAllocated), or of what a curve makes of that (RequestedToCapacityRatio), in percent.

    A resource of which the node has none is left out, and with a curve also one that it gives 0.
    """

    def __init__(self, strategy: Strategy, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._of_free = strategy.kind == LEAST_ALLOCATED
        self._curve = [_on_curve(strategy.shape, at) for at in range(FULL + 1)]
        self._has_curve = bool(strategy.shape)
        self._curve_array = np.array(self._curve, np.int64)

    def scores(self, cols: F64) -> I64:
        """Of gathered nodes, shape (m,)."""
        total = np.zeros(cols.shape[1], np.int64)
        weights = np.zeros(cols.shape[1], np.int64)
        for part in self.parts:
            have, used = _arrays(part, cols)
            amount = np.clip(have - used if self._of_free else used, 0.0, have)
            percent = (amount * PERCENT / np.maximum(have, 1.0)).astype(np.int64)
            counts = have > 0.0
            if self._has_curve:
                percent = self._curve_array[percent]
                counts &= percent > 0
            total += np.where(counts, percent * part.weight, 0)
            weights += np.where(counts, part.weight, 0)
        some = np.maximum(weights, 1)
        return (2 * total + some) // (2 * some) if self._has_curve else total // some

    def score(self, values: Sequence[float]) -> int:
        """The same of one node."""
        total = weights = 0
        for part in self.parts:
            have, used = _numbers(part, values)
            if not have:
                continue
            amount = have - used if self._of_free else used
            percent = int(min(max(amount, 0.0), have) * PERCENT / have)
            if self._has_curve:
                percent = self._curve[percent]
                if not percent:
                    continue
            total += percent * part.weight
            weights += part.weight
        if not weights:
            return 0
        return (2 * total + weights) // (2 * weights) if self._has_curve else total // weights


def _on_curve(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    """The straight line between the points around it, cut towards the point before."""
    before: tuple[int, int] | None = None
    for at, score in shape:
        if utilization <= at:
            if before is None:
                return score
            rise = (score - before[1]) * (utilization - before[0])
            run = at - before[0]
            # Go cuts towards 0, Python's // towards below.
            return before[1] + (rise // run if rise >= 0 else -(-rise // run))
        before = at, score
    return before[1] if before is not None else 0


class Balance:
    """How alike the resources are filled: 100 less their standard deviation, in the operations of
    kube-scheduler 1.35 and in their order, so that the bits are as well.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)

    def scores(self, cols: F64) -> I64:
        """Of gathered nodes, shape (m,)."""
        shares, there = [], []
        for part in self.parts:
            have, used = _arrays(part, cols)
            shares.append(np.minimum(used / np.maximum(have, 1.0), 1.0))
            there.append(have > 0.0)
        found = np.full(cols.shape[1], FULL, np.int64)
        # Few sets of resources occur, most often all of them on every node.
        codes = np.zeros(cols.shape[1], np.int64)
        for at, has in enumerate(there):
            codes += has.astype(np.int64) << at
        for code in np.unique(codes).tolist():
            rows = codes == code
            chosen = [share[rows] for at, share in enumerate(shares) if code >> at & 1]
            even = 1.0 - _deviations(chosen, int(np.count_nonzero(rows)))
            found[rows] = (even * FULL).astype(np.int64)
        return found

    def score(self, values: Sequence[float]) -> int:
        """The same of one node."""
        shares = []
        for part in self.parts:
            have, used = _numbers(part, values)
            if have:
                shares.append(min(used / have, 1.0))
        return int((1.0 - _deviation(shares)) * FULL)


class BalanceGained:
    """What the pod does for the node's balance, 75 = nothing: kube-scheduler's score since 1.36."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._after = Balance(parts)
        self._before = Balance([part._replace(ask=0.0) for part in parts])

    def scores(self, cols: F64) -> I64:
        """Of gathered nodes, shape (m,)."""
        gained: I64 = self._after.scores(cols) - self._before.scores(cols)
        return HALF + (HALF + gained) // 2

    def score(self, values: Sequence[float]) -> int:
        """The same of one node."""
        return HALF + (HALF + self._after.score(values) - self._before.score(values)) // 2


def _deviations(shares: Sequence[F64], count: int) -> F64:
    if len(shares) < 2:
        return np.zeros(count)
    if len(shares) == 2:
        return np.abs((shares[0] - shares[1]) / 2.0)
    mean = np.zeros(count)
    for share in shares:
        mean = mean + share
    mean /= len(shares)
    squares = np.zeros(count)
    for share in shares:
        squares = squares + (share - mean) * (share - mean)
    return np.sqrt(squares / len(shares))


def _deviation(shares: Sequence[float]) -> float:
    if len(shares) < 2:
        return 0.0
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2.0)
    mean = 0.0
    for share in shares:  # sum() may add in another way
        mean += share
    mean /= len(shares)
    squares = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
    return sqrt(squares / len(shares))
