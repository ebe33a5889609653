"""k pods of one signature in one go, equal to k single cycles: the level sweep.

A single cycle takes the first row (rows are in tie order) among those with the highest total.
Suppose rows r1 < r2 < ... have it. Placing on r1 changes r1 alone. While r1's total stays at the
level or rises, r1 is taken again; once it falls below, r2 is taken, and r1 cannot come back before
the whole level is used up. So a level is `repeat(rows, counts)`, and the nodes of a level can be
worked on side by side. This holds while class terms stand. Terms change only when a score class
loses its last feasible node (a batch never makes a node feasible), and then the sweep starts over
with new terms at exactly that pick.

Two ways to work on a level:
- narrow: in Python, node by node. Nodes a little below the level (a band) come along in a heap, so
  that a level of one node does not cost a search through the row.
- wide: in numpy, all nodes at once, one round for each pod that a node takes (`fill_level`). For
  signatures without host ports, and only when no class can run empty.
"""

from heapq import heapify, heappop, heapreplace
from itertools import repeat
from typing import NamedTuple

import numpy as np

from shared.scheduling.cycle.node_scores import local_columns
from shared.scheduling.cycle.one_node import BatchNode, one_node
from shared.scheduling.cycle.score_classes import StaticResult, with_class_scores
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.devices import (
    by_device,
    derived,
    drop_devices,
    pick_and_charge_devices,
)
from shared.scheduling.table.layout import (
    F64,
    GPU_EMPTY,
    GPU_LARGEST,
    I32,
    I64,
    INFEASIBLE,
    NominatedPods,
    Totals,
)
from shared.scheduling.table.table import NodeTable

LEVEL_NODES_MIN = (
    40  # nodes to work on from which numpy beats Python (`bench_kernel wide`: about 25)
)
BAND_FEW, BAND_MANY, BAND_SCORES_MAX = 16, 128, 64
NO_DEVICES: list[int] = []
ROW_BITS = 32
ROW_MASK = (1 << ROW_BITS) - 1


class Sweep:
    """One batch in progress. `totals`: the row of totals after the picks so far, negative for
    infeasible nodes.
    """

    def __init__(
        self,
        table: NodeTable,
        sig: Signature,
        static_result: StaticResult,
        local: Totals,
        nominated_pods: NominatedPods | None,
    ) -> None:
        self.table, self.sig, self.static, self.nominated_pods = (
            table,
            sig,
            static_result,
            nominated_pods,
        )
        self.left = 0
        self._counts = static_result.counts(local >= 0)
        self.feasible = sum(self._counts)
        self.terms = static_result.class_scores(self._counts)
        self.totals = static_result.totals(local, self.terms)
        self._number = static_result.number
        self._nodes: dict[int, BatchNode] = {}
        self._ahead: dict[int, tuple[list[float], list[int]]] = {}  # columns and devices by row
        # Pods and free devices by row without a BatchNode.
        self._placed_by_row: I64 | None = None
        self._free: I32 = table.gpu_free
        self._band = 2
        self._rows: list[int] = []
        self._row_totals: list[int] = []
        self._masks: list[int] = []
        self._parts: list[tuple[I64, Totals, I64]] = []

    def run(self, k: int) -> tuple[I64, Totals, I64]:
        """Return rows, totals and device masks of up to k picks."""
        self.left = k
        totals = self.totals
        while self.left:
            level = int(totals[totals.argmax()])
            if level < 0:
                break
            rows = np.flatnonzero(totals == level)
            if min(len(rows), self.left) >= LEVEL_NODES_MIN and self._may_sweep_level():
                self._sweep_level(rows[: self.left], level)
            else:
                self._narrow(rows, level)
        self._close_part()
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0, self._number), np.zeros(0, np.int64)
        rows, row_totals, masks = self._parts[0]
        if len(self._parts) > 1:
            rows = np.concatenate([part[0] for part in self._parts])
            row_totals = np.concatenate([part[1] for part in self._parts])
            masks = np.concatenate([part[2] for part in self._parts])
        return rows, row_totals, masks if self.sig.gpu_count else np.zeros(len(rows), np.int64)

    def _close_part(self) -> None:
        if self._rows:
            rows = np.array(self._rows, np.int64)
            totals = np.array(self._row_totals, self._number)
            masks = np.array(self._masks, np.int64) if self.sig.gpu_count else rows
            self._parts.append((rows, totals, masks))
            self._rows, self._row_totals, self._masks = [], [], []

    def _term(self, row: int) -> int:
        class_of = self.static.class_of
        return self.terms[0 if class_of is None else int(class_of[row])]

    # ------------------------------------------------------------------------------- narrow

    def _narrow(self, rows: I64, level: int) -> None:
        floor, heap = self._candidates(rows, level)
        bound = (-floor << ROW_BITS) | ROW_MASK
        while heap and self.left:
            key = heap[0]
            row, total = key & ROW_MASK, -(key >> ROW_BITS)
            after = self._place_while_first(row, total, heap, bound)
            self.totals[row] = after
            if after < 0 and self._left_class(row):
                return  # the totals of all rows have changed
            if after >= floor:
                heapreplace(heap, (-after << ROW_BITS) | row)
            else:
                heappop(heap)

    def _candidates(self, rows: I64, level: int) -> tuple[int, list[int]]:
        """Return the lowest total that this heap may serve, and the heap: keys in the order of
        picking.

        A wide level comes alone, with at most as many nodes as pods are left; else the band below
        it is included. The band's width follows how many nodes it held last time.
        """
        floor = level
        if len(rows) < BAND_FEW and self._band:
            floor = max(level - self._band, 0)
            rows = np.flatnonzero(self.totals >= floor)
            if len(rows) > BAND_MANY:
                self._band //= 2
            elif len(rows) < BAND_FEW:
                self._band = min(2 * self._band, BAND_SCORES_MAX)
            heap = self._keys(self.totals[rows], rows)
            heapify(heap)
            return floor, heap
        self._band = max(self._band, 1)
        rows = rows[: self.left]
        if not self.nominated_pods:
            self._read_ahead(rows)
        return floor, self._keys(np.full(len(rows), level, self._number), rows)

    def _keys(self, totals: Totals, rows: I64) -> list[int]:
        """Return the pick keys of totals and rows, least first; for totals beyond 16 bits they are
        too large for numpy.
        """
        if self._number is not np.int16:
            both = zip(totals.tolist(), rows.tolist(), strict=True)
            return [(-total << ROW_BITS) | row for total, row in both]
        keys: list[int] = ((-totals.astype(np.int64) << ROW_BITS) | rows).tolist()
        return keys

    def _place_while_first(self, row: int, total: int, heap: list[int], bound: int) -> int:
        """Add pods to the row while it comes first; return its total afterwards."""
        node = self._nodes.get(row) or self._node(row)
        # First: before the next in the heap, and not below what the heap may serve.
        last = bound
        if len(heap) > 1:
            second = heap[1] if len(heap) == 2 or heap[1] < heap[2] else heap[2]
            last = last if last < second else second
        term = self._term(row)
        left = self.left
        rows, row_totals, gpu = self._rows, self._row_totals, self.sig.gpu_count
        while True:
            rows.append(row)
            row_totals.append(total)
            if gpu:
                self._masks.append(node.mask)
            left -= 1
            total = node.add_next()
            if total < 0:
                break
            total += term
            if not left or ((-total << ROW_BITS) | row) > last:
                break
        self.left = left
        return total

    def _read_ahead(self, rows: I64) -> None:
        """Read nodes that are all used soon at once: reading each alone costs far more."""
        values = self.table.cols.take(rows, axis=1).T.tolist()
        devices = self._free[rows].tolist() if self.sig.gpu_count else repeat(NO_DEVICES)
        self._ahead = dict(zip(rows.tolist(), zip(values, devices, strict=False), strict=True))

    def _node(self, row: int) -> BatchNode:
        taken = 0 if self._placed_by_row is None else int(self._placed_by_row[row])
        found = self._ahead.get(row)
        if found is not None:
            values, devices = found
        elif self.nominated_pods:
            node = one_node(self.table, row, self.nominated_pods)
            values, devices = node.values, node.devices
        else:
            values = self.table.cols[:, row].tolist()
            devices = self._free[row].tolist() if self.sig.gpu_count else NO_DEVICES
        made = self._nodes[row] = BatchNode(self.sig, values, devices, taken)
        return made

    def _left_class(self, row: int) -> bool:
        """Note a full node; return whether class terms (and so the totals) changed."""
        class_of = self.static.class_of
        if class_of is None:
            return False
        group = int(class_of[row])
        self._counts[group] -= 1
        if self._counts[group]:
            return False
        terms = self.static.class_scores(self._counts)
        delta = np.array(terms, self._number) - np.array(self.terms, self._number)
        if not delta.any():
            return False
        feasible = self.totals >= 0
        self.totals[feasible] += delta[class_of[feasible]]
        self.terms = terms
        return True

    # --------------------------------------------------------------------------------- wide

    def _may_sweep_level(self) -> bool:
        if self.sig.checked_ports or self.nominated_pods:
            return False
        if self.static.class_of is None:
            return True
        # A class with more nodes than pods are left cannot become empty.
        return all(count == 0 or count > self.left for count in self._counts)

    def _sweep_level(self, rows: I64, level: int) -> None:
        taken, free = self._leave_python()
        cols = self.table.cols.take(rows, axis=1)
        before = taken[rows]
        if before.any():
            add_pods(self.sig, cols, before)
        devices = by_device(free, rows) if self.sig.gpu_count else free
        terms = self._terms_of(rows)
        done = fill_level(self.sig, cols, devices, terms, level, self.left, self.table.whole)
        self._parts.append((np.repeat(rows, done.pods)[: self.left], done.totals, done.masks))
        self.left -= len(done.totals)
        if not self.left:
            return  # the last node may have too many pods here, which is never read
        taken[rows] += done.pods
        if self.sig.gpu_count:
            free[rows] = devices.T
        self.totals[rows] = np.where(done.after < 0, INFEASIBLE, done.after)
        if self.static.class_of is not None:
            for row in rows[done.after < 0].tolist():
                changed = self._left_class(row)
                assert not changed, "a class ran empty in a wide level"

    def _leave_python(self) -> tuple[I64, I32]:
        """Return this batch's pods by row and free devices by row, with the picks made
        in Python.
        """
        if self._placed_by_row is None:
            self._placed_by_row = np.zeros(self.table.size, np.int64)
            self._free = self.table.gpu_free
            if self.sig.gpu_count:
                self._free = self._free.copy()
        self._nodes.clear()
        self._ahead = {}
        if self._rows:
            self._close_part()
            rows, _, masks = self._parts[-1]
            np.add.at(self._placed_by_row, rows, 1)
            if self.sig.gpu_count:
                drop_devices(self._free, self.sig.gpu_milli, rows, masks)
        return self._placed_by_row, self._free

    def _terms_of(self, rows: I64) -> Totals:
        class_of = self.static.class_of
        if class_of is None:
            return np.full(len(rows), self.terms[0], self._number)
        return np.array(self.terms, self._number)[class_of[rows]]


# --------------------------------------------------------------------------- one wide level


class Level(NamedTuple):
    """The result of a level: for each node the pods it got and its total afterwards, and total and
    device mask of each pick in order. `pods` and `after` are only complete if pods are left; the
    picks always are.
    """

    pods: I64
    after: Totals
    totals: Totals
    masks: I64


class Round(NamedTuple):
    """One pod for each of the nodes (positions on the level) that were still on it."""

    active: I64
    totals: Totals
    masks: I64


def add_pods(sig: Signature, cols: F64, count: I64 | float) -> None:
    """Charge `count` pods to each of the gathered nodes, without devices."""
    for column, amount in sig.delta:
        if amount:
            cols[column] += amount * count


def fill_level(
    sig: Signature, cols: F64, free: I32, terms: Totals, level: int, left: int, whole: bool
) -> Level:
    """Fill the gathered nodes, all of total `level` and in row order, until each is below the level
    or `left` pods are placed. `cols` and `free` (devices, shape (devices, m)) are modified.
    """
    # Each node gets at least one pod, so at most `left` of them matter; those after the one that
    # gets the last pod are dropped round by round.
    active = np.arange(len(terms))
    totals = np.full(len(terms), level, terms.dtype)
    taken = np.zeros(len(terms), np.int64)
    after = np.zeros(len(terms), terms.dtype)
    rounds: list[Round] = []
    while len(active):
        rounds.append(Round(active, totals, _place_round(sig, cols, free, active)))
        taken[active] += 1
        totals = with_class_scores(local_columns(sig, cols, whole), terms[active])
        after[active] = totals
        last = int(np.cumsum(taken).searchsorted(left))
        stay = (totals >= level) & (active <= last)
        active, totals, cols = active[stay], totals[stay], cols[:, stay]
    return Level(taken, after, *_in_order(rounds, left))


def _place_round(sig: Signature, cols: F64, free: I32, active: I64) -> I64:
    """Charge one pod to each active node and return the device masks."""
    add_pods(sig, cols, 1.0)
    if not sig.gpu_count:
        return active  # any column will do: it is not read
    devices = free[:, active]
    masks = pick_and_charge_devices(sig, devices)
    free[:, active] = devices
    cols[GPU_LARGEST], cols[GPU_EMPTY] = derived(devices)
    return masks


def _in_order(rounds: list[Round], left: int) -> tuple[Totals, I64]:
    """Return totals and masks of the picks, node by node and within a node round by round."""
    if len(rounds) == 1:
        return rounds[0].totals[:left], rounds[0].masks[:left]
    order = np.concatenate([each.active for each in rounds]).argsort(kind="stable")[:left]
    totals = np.concatenate([each.totals for each in rounds])
    masks = np.concatenate([each.masks for each in rounds])
    return totals[order], masks[order]
