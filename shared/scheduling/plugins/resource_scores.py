"""NodeResourcesFit's strategies and NodeResourcesBalancedAllocation over any resources.

The defaults of both, over cpu and memory only, are in node_resources_fit.py and
balanced_allocation.py: the same scores, faster. Here a resource is two columns. Scores of arrays
and of one node agree bit by bit. Amounts are at most SCORED_MAX, so that percents are exact (see
layout.py).
"""

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from shared.model.profile import LEAST_ALLOCATED, Strategy
from shared.scheduling.table.layout import F64, I64, PERCENT

X = TypeVar("X", float, F64)
"""Amounts of one node, or of many."""
X_co = TypeVar("X_co", covariant=True)

FULL = 100  # percent: the highest utilization, and the highest score
HALF = FULL // 2


class Columns(Protocol[X_co]):
    """The columns of one node, or of many."""

    def __getitem__(self, column: int, /) -> X_co: ...


class Part(NamedTuple):
    """One resource for one pod: the columns of allocatable and requested amounts, the pod's amount,
    and the weight. `is_room`: the second column holds 100 times the free amount instead (ROOM).
    """

    have: int
    column: int
    is_room: bool
    ask: float
    weight: int = 1

    def amounts(self, values: "Columns[X]") -> tuple[X, X]:
        """Return the allocatable amounts, and the requested ones including the pod."""
        have, used = values[self.have], values[self.column]
        return have, (have - used / PERCENT if self.is_room else used) + self.ask


class ResourceScore(Protocol):
    """A score of 0..100 for each node from its own resources."""

    def scores(self, cols: F64) -> I64:
        """Return the scores of gathered nodes, shape (m,)."""

    def score(self, values: Sequence[float]) -> int:
        """Return the score of one node."""


class Utilization:
    """The weighted mean over the resources of what is free (LeastAllocated), of what is requested
    (MostAllocated), or of what a curve makes of that (RequestedToCapacityRatio), in percent.

    A resource of which the node has none is left out, and with a curve also one that it gives 0.
    """

    def __init__(self, strategy: Strategy, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)
        self._of_free = strategy.kind == LEAST_ALLOCATED
        self._curve = [on_curve(strategy.shape, at) for at in range(FULL + 1)]
        self._has_curve = bool(strategy.shape)
        self._curve_array = np.array(self._curve, np.int64)

    def scores(self, cols: F64) -> I64:
        """Return the scores of gathered nodes, shape (m,)."""
        total = np.zeros(cols.shape[1], np.int64)
        weights = np.zeros(cols.shape[1], np.int64)
        for part in self.parts:
            have, used = part.amounts(cols)
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
        """Return the score of one node."""
        total = weights = 0
        for part in self.parts:
            have, used = part.amounts(values)
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


def on_curve(shape: Sequence[tuple[int, int]], utilization: int) -> int:
    """Return the value on the line between the neighbouring points, cut towards the lower point."""
    before: tuple[int, int] | None = None
    for at, score in shape:
        if utilization <= at:
            if before is None:
                return score
            rise = (score - before[1]) * (utilization - before[0])
            run = at - before[0]
            # Go rounds towards 0, Python's // down.
            return before[1] + (rise // run if rise >= 0 else -(-rise // run))
        before = at, score
    return before[1] if before is not None else 0


class Balance:
    """How evenly the resources are used: 100 minus their standard deviation, in the operations and
    order of kube-scheduler 1.35, so that the bits are equal.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)

    def scores(self, cols: F64) -> I64:
        """Return the scores of gathered nodes, shape (m,)."""
        shares, there = [], []
        for part in self.parts:
            have, used = part.amounts(cols)
            shares.append(np.minimum(used / np.maximum(have, 1.0), 1.0))
            there.append(have > 0.0)
        found = np.full(cols.shape[1], FULL, np.int64)
        # Few sets of resources occur, mostly all of them on every node.
        codes = np.zeros(cols.shape[1], np.int64)
        for at, has in enumerate(there):
            codes += has.astype(np.int64) << at
        for code in np.unique(codes).tolist():
            rows = codes == code
            chosen = [share[rows] for at, share in enumerate(shares) if code >> at & 1]
            found[rows] = (1.0 - _deviation(chosen)) * FULL
        return found

    def score(self, values: Sequence[float]) -> int:
        """Return the score of one node."""
        shares = []
        for part in self.parts:
            have, used = part.amounts(values)
            if have:
                shares.append(min(used / have, 1.0))
        return int((1.0 - _deviation(shares)) * FULL)


class BalanceGained:
    """How the pod changes the node's balance, 75: not at all; kube-scheduler's score since 1.36."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._after = Balance(parts)
        self._before = Balance([part._replace(ask=0.0) for part in parts])

    def scores(self, cols: F64) -> I64:
        """Return the scores of gathered nodes, shape (m,)."""
        gained: I64 = self._after.scores(cols) - self._before.scores(cols)
        return HALF + (HALF + gained) // 2

    def score(self, values: Sequence[float]) -> int:
        """Return the score of one node."""
        return HALF + (HALF + self._after.score(values) - self._before.score(values)) // 2


def _deviation(shares: Sequence[X]) -> X | float:
    if len(shares) < 2:
        return 0.0
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2.0)
    mean = shares[0]
    for share in shares[1:]:  # sum() may add in another order
        mean = mean + share
    mean = mean / len(shares)
    squares = (shares[0] - mean) * (shares[0] - mean)
    for share in shares[1:]:
        squares = squares + (share - mean) * (share - mean)
    variance = squares / len(shares)
    return sqrt(variance) if isinstance(variance, float) else np.sqrt(variance)
