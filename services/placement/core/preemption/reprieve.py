"""The dry run of many nodes at once, for preemptors that request amounts only.

The steps are those for one node (dry_run.py), as columns over nodes: remove all pods of lower
priority, then put pods back one position at a time, the most important of every node first. A pod
that does not fit again is a victim. Nodes whose pods have budgets or leave with others are not
handled here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from services.placement.core.books.ledger import IS_VICTIM
from services.placement.core.preemption.unit_parts import Victim
from services.placement.core.state import PlacementState
from shared.events.placement import Candidate
from shared.model.columns import pack
from shared.model.ids import NodeId, PodId, SignatureId
from shared.model.preemption.victims import keys_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import F64, I32, I64, Mask, NominatedPods


@dataclass
class Chosen:
    """Victims on the nodes of `rows`: `pods`, their `priorities` and `starts_ms`, most important
    first, node by node; `ends` are the ends of each node's part.
    """

    rows: I64
    pods: list[PodId]
    priorities: list[int]
    starts_ms: list[int]
    ends: list[int]


class TrialNominee(NamedTuple):
    """A pod and the candidate that a dry run has for it, before preemption chooses."""

    wanted: Signature
    mask: int
    candidate: Candidate


class LowerColumns:
    """Pods that a preemptor may evict, or that are leaving already, on the table's rows; sorted by
    row, most important first.
    """

    def __init__(
        self,
        state: PlacementState,
        wanted: Signature,
        taken: I64,
        nominated_pods: NominatedPods | None,
        protected: I64,
        may_leave: Callable[[SignatureId], bool] | None = None,
    ) -> None:
        """`taken`: pods that leave for other preemptors already; `protected`: those that may not be
        evicted yet. `may_leave`: whether such pods may, instead of those of lower priority; no row
        is handled here then, but those without enough room are known.
        """
        table, ledger = state.table, state.ledger
        at = np.flatnonzero(IS_VICTIM[ledger.kind])
        sigs, which = np.unique(ledger.sig[at], return_inverse=True)
        priorities = np.array([state.specs[sig].priority for sig in sigs.tolist()], np.int64)[which]
        ids = at + ledger.base
        leaving = np.isin(ids, taken)
        lower = (priorities < state.specs[wanted.sig_id].priority) & ~leaving
        if may_leave is not None:
            lower = np.array([may_leave(sig) for sig in sigs.tolist()], np.bool_)[which] & ~leaving
        if len(protected):
            lower &= ~np.isin(ids, protected)
        rows = np.full(int(ledger.node.max(initial=0)) + 1, -1, np.int64)
        known = table.ids[table.ids < len(rows)]
        rows[known] = np.flatnonzero(table.ids < len(rows))
        row_of = rows[ledger.node[at]]
        amounts = [_amounts(state, sigs, column)[which] for column, _ in wanted.amount_checks]
        self._needs = wanted.amount_checks
        self._takes = [amount_of(wanted, column) for column, _ in self._needs]
        self._free = [
            table.cols[column]
            + np.bincount(row_of[leaving], amount[leaving], table.size)
            - on_nodes
            for (column, _), amount, on_nodes in zip(
                self._needs, amounts, _held_amounts(state, wanted, nominated_pods), strict=True
            )
        ]
        self.fits_already = self._fits(self._free)
        self.number: I64 = np.bincount(row_of[lower], minlength=table.size)
        without = [
            free + np.bincount(row_of[lower], amount[lower], table.size)
            for free, amount in zip(self._free, amounts, strict=True)
        ]
        self.short: list[Mask] = [
            free < need for free, (_, need) in zip(without, self._needs, strict=True)
        ]
        self.covered: Mask = np.full(table.size, may_leave is not None)
        self.covered[row_of[lower & (ledger.budget[at] != 0)]] = True
        if state.units:
            self.covered[row_of[lower & np.isin(ids, state.units.pods())]] = True
        self._without = without
        self._row_of, self._amounts = row_of[lower], [amount[lower] for amount in amounts]
        self._ids, self._priorities = ids[lower], priorities[lower]
        self._starts_ms = ledger.start_ms[at[lower]]
        self._stays = np.ones(len(self._ids), np.bool_)  # not leaving yet

    def _fits(self, free: Sequence[F64]) -> Mask:
        found = np.ones(len(free[0]) if free else len(self._free), np.bool_)
        for column, (_, need) in zip(free, self._needs, strict=True):
            found &= column >= need
        return found

    def leave(self, row: int, pods: I64) -> bool:
        """Mark pods of a row as leaving for a member held there. Return whether an equal member
        could get the row too.
        """
        at = np.searchsorted(self._ids, pods)
        self._stays[at] = False
        self.number[row] -= len(pods)
        for number, (taken, (_, need)) in enumerate(zip(self._takes, self._needs, strict=True)):
            self._free[number][row] += sum(self._amounts[number][at].tolist()) - taken
            self._without[number][row] -= taken
            self.short[number][row] = self._without[number][row] < need
        self.fits_already[row] = all(
            free[row] >= need for free, (_, need) in zip(self._free, self._needs, strict=True)
        )
        return not any(short[row] for short in self.short)

    def victims(self, rows: I64) -> Chosen:
        """Return the victims on each of these rows, where the pod fits without the pods of lower
        priority.
        """
        place = np.full(len(self.number), -1, np.int64)
        place[rows] = np.arange(len(rows))
        lower_rows = np.flatnonzero((place[self._row_of] >= 0) & self._stays)
        ids, starts_ms, priorities = (
            self._ids[lower_rows],
            self._starts_ms[lower_rows],
            self._priorities[lower_rows],
        )
        order = np.lexsort((ids, starts_ms, -priorities, place[self._row_of[lower_rows]]))
        lower_rows = lower_rows[order]
        node = place[self._row_of[lower_rows]]
        counts = np.bincount(node, minlength=len(rows))
        position = np.arange(len(lower_rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        free = [column[rows] for column in self._without]
        goes = np.zeros(len(lower_rows), np.bool_)
        for number in range(int(counts.max(initial=0))):
            here = np.flatnonzero(position == number)
            nodes = node[here]
            fits = np.ones(len(here), np.bool_)
            for column, amount, (_, need) in zip(free, self._amounts, self._needs, strict=True):
                fits &= column[nodes] - amount[lower_rows[here]] >= need
            stays = here[fits]
            for column, amount in zip(free, self._amounts, strict=True):
                column[node[stays]] -= amount[lower_rows[stays]]
            goes[here[~fits]] = True
        gone = lower_rows[goes]
        ends = np.cumsum(np.bincount(node[goes], minlength=len(rows)))
        columns = (self._ids[gone], self._priorities[gone], self._starts_ms[gone], ends)
        return Chosen(rows, *(column.tolist() for column in columns))


def _amounts(state: PlacementState, sigs: I32, column: int) -> F64:
    """Return the amount of a column that a pod of each signature requests."""
    found = np.zeros(len(sigs))
    for at, sig in enumerate(sigs.tolist()):
        found[at] = amount_of(state.sigs[sig], column)
    return found


def amount_of(sig: Signature, column: int) -> float:
    """Return the amount of a column that one pod requests."""
    return -sum(amount for taken, amount in sig.filter_delta if taken == column)


def _held_amounts(
    state: PlacementState, wanted: Signature, nominated_pods: NominatedPods | None
) -> list[F64]:
    """Return the amounts of nominations, by row, for each column that `wanted` requests."""
    nominated: NominatedPods = nominated_pods or {}
    rows: list[int] = []
    which: list[int] = []
    sigs: dict[Signature, int] = {}
    for node in sorted(nominated):
        row = state.table.row_of(node)
        for sig, _ in nominated[node] if row is not None else ():
            assert row is not None
            rows.append(row)
            which.append(sigs.setdefault(sig, len(sigs)))
    found: list[F64] = []
    for column, _ in wanted.amount_checks:
        each: F64 = np.array([amount_of(sig, column) for sig in sigs])
        taken = each[np.array(which, np.int64)]
        amounts = np.bincount(np.array(rows, np.int64), taken, state.table.size)
        found.append(amounts.astype(np.float64, copy=False))
    return found


def candidate_of(
    node: NodeId, victims: Sequence[Victim], violations: int, generation: int
) -> Candidate:
    """Return the candidate with the values that pickOneNodeForPreemption compares."""
    highest, priority_sum, earliest_start_ms = keys_of(
        [one.priority for one in victims], [one.start_ms for one in victims]
    )
    return Candidate(
        node=node,
        victims=pack([one.pod for one in victims]),
        violations=violations,
        highest=highest,
        priority_sum=priority_sum,
        earliest_start_ms=earliest_start_ms,
        generation=generation,
    )
