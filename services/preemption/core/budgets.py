"""Disruption budgets: their allowances, minus our evictions that their status does not show yet.

A budget's status lags behind our evictions. So a victim counts against its budgets from its choice
until the status must show it: it is named in `disrupted`, or it is deleted and a status came after
the API accepted its eviction.
"""

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from shared.events.ingest import BudgetSet
from shared.events.preemption import BudgetLeft, BudgetNamed
from shared.model.columns import I64, pack, unpack
from shared.model.ids import PodId


class Coverage:
    """The budgets that cover each pod."""

    def __init__(self) -> None:
        """Create an empty coverage."""
        self._budgets: dict[PodId, tuple[int, ...]] = {}  # by pod, ascending

    def add(self, budget: int, ids: I64) -> None:
        """Add pods to a budget."""
        alone, known = (budget,), self._budgets
        for pod in ids.tolist():
            before = known.setdefault(pod, alone)
            if budget not in before:
                known[pod] = tuple(sorted((*before, budget)))

    def of(self, pod: PodId) -> tuple[int, ...]:
        """Return the budgets of a pod, ascending."""
        return self._budgets.get(pod, ())

    def forget(self, ids: I64) -> None:
        """Forget deleted pods."""
        if self._budgets:
            for pod in ids.tolist():
                self._budgets.pop(pod, None)

    def drop(self, budget: int) -> None:
        """Remove a deleted budget."""
        for pod in [pod for pod, budgets in self._budgets.items() if budget in budgets]:
            left = tuple(other for other in self._budgets.pop(pod) if other != budget)
            if left:
                self._budgets[pod] = left

    def dump(self) -> Any:
        """Return the covered pods, ascending, each with its lowest budget; then the pods with more
        budgets.
        """
        found = sorted(self._budgets.items())
        ids = np.array([pod for pod, _budgets in found], np.int64)
        lowest = np.array([budgets[0] for _pod, budgets in found], np.int64)
        more = [[pod, list(budgets[1:])] for pod, budgets in found if len(budgets) > 1]
        return [pack(ids), pack(lowest), more]

    @classmethod
    def load(cls, body: Any) -> "Coverage":
        """Restore what `dump` returned."""
        ids, lowest, more = body
        found = cls()
        pairs = zip(unpack(ids).tolist(), unpack(lowest).tolist(), strict=True)
        found._budgets = {pod: (budget,) for pod, budget in pairs}
        for pod, budgets in more:
            found._budgets[pod] += tuple(budgets)
        return found


class Budgets:
    """All budgets, with our own evictions counted against them."""

    def __init__(self) -> None:
        """Create a state without budgets. `counts_all`: a victim uses all budgets that cover it,
        even after one that it exceeds.
        """
        self.counts_all = True
        self.allowed: dict[int, int] = {}
        self.disrupted: dict[int, set[PodId]] = {}
        self.coverage = Coverage()
        # budget -> victim -> whether a status came after its eviction was accepted
        self.charges: dict[int, dict[PodId, bool]] = {}

    def set(self, event: BudgetSet, victims: dict[PodId, bool]) -> None:
        """Apply a budget's status. `victims`: victims still there -> whether their eviction was
        accepted.
        """
        self.allowed[event.budget] = event.allowed
        self.disrupted[event.budget] = set(unpack(event.disrupted).tolist())
        self.cover(event.budget, unpack(event.covered), victims)
        charged = self.charges.get(event.budget, {})
        for pod in sorted(charged):
            if pod in self.disrupted[event.budget] or pod not in victims:
                del charged[pod]
            elif victims[pod]:
                charged[pod] = True

    def cover(self, budget: int, ids: I64, victims: dict[PodId, bool]) -> None:
        """Add pods to a budget; some may be victims already."""
        self.coverage.add(budget, ids)
        for pod in ids.tolist() if victims else ():
            if pod in victims:
                self.charges.setdefault(budget, {}).setdefault(pod, False)

    def drop(self, budget: int) -> None:
        """Remove a deleted budget."""
        self.allowed.pop(budget, None)
        self.disrupted.pop(budget, None)
        self.charges.pop(budget, None)
        self.coverage.drop(budget)

    def charge(self, pod: PodId) -> None:
        """Count a chosen victim."""
        for budget in self.coverage.of(pod):
            if pod not in self.disrupted.get(budget, ()):
                self.charges.setdefault(budget, {}).setdefault(pod, False)

    def release(self, pod: PodId) -> None:
        """Stop counting a pod that is no victim after all."""
        for budget in sorted(self.charges):
            self.charges[budget].pop(pod, None)

    def forget_victim(self, pod: PodId) -> None:
        """Stop counting a deleted victim in budgets whose status has come since its eviction."""
        for budget in sorted(self.charges):
            if self.charges[budget].get(pod, False):
                del self.charges[budget][pod]

    def allowance(self, budget: int) -> int:
        """Return the disruptions still allowed, at least 0."""
        return max(0, self.allowed.get(budget, 0) - len(self.charges.get(budget, ())))

    def allowances(self) -> tuple[BudgetLeft, ...]:
        """Return the allowance of every budget, by number."""
        return tuple(BudgetLeft(budget, self.allowance(budget)) for budget in sorted(self.allowed))

    def counted_pods(self, victims: Container[PodId]) -> tuple[BudgetNamed, ...]:
        """Return the pods still there, without our victims, that a budget's status counts as
        disrupted.
        """
        found = []
        for budget, pods in sorted(self.disrupted.items()):
            there = (pod for pod in sorted(pods) if pod not in victims)
            ids = [pod for pod in there if budget in self.coverage.of(pod)]
            if ids:
                found.append(BudgetNamed(budget, pack(ids)))
        return tuple(found)

    def violations(self, victims: Sequence[PodId]) -> int:
        """Return the number of victims beyond their budgets' allowances."""
        return len(self.beyond(victims))

    def beyond(self, victims: Sequence[PodId]) -> list[PodId]:
        """Return the victims beyond their budgets' allowances (filterPodsWithPDBViolation)."""
        left: dict[int, int] = {}
        found = []
        for pod in victims:
            is_violating = False
            for budget in self.coverage.of(pod):
                if pod in self.disrupted.get(budget, ()):
                    continue
                left[budget] = left.get(budget, self.allowance(budget)) - 1
                is_violating = is_violating or left[budget] < 0
                if is_violating and not self.counts_all:
                    break
            if is_violating:
                found.append(pod)
        return found

    def dump(self) -> Any:
        """Return canonical plain values."""
        return [
            [
                [budget, allowed, sorted(self.disrupted.get(budget, ()))]
                for budget, allowed in sorted(self.allowed.items())
            ],
            self.coverage.dump(),
            [
                [budget, sorted(charged.items())]
                for budget, charged in sorted(self.charges.items())
                if charged
            ],
        ]

    @classmethod
    def load(cls, body: Any) -> "Budgets":
        """Restore what `dump` returned."""
        budgets, coverage, charges = body
        found = cls()
        for budget, allowed, disrupted in budgets:
            found.allowed[budget] = allowed
            found.disrupted[budget] = set(disrupted)
        found.coverage = Coverage.load(coverage)
        found.charges = {budget: dict(charged) for budget, charged in charges}
        return found
