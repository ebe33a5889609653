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
- wide: in numpy, all nodes at once, one round for each pod that a node takes (sweep_level.py). For
  signatures without host ports, and only when no class can run empty.
"""

from heapq import heapify, heappop, heapreplace
from itertools import repeat

import numpy as np

from shared.scheduling.cycle.one_node import BatchNode, one_node
from shared.scheduling.cycle.score_classes import Static
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.cycle.sweep_level import add_pods, wide_level
from shared.scheduling.table.devices import by_device, drop_devices
from shared.scheduling.table.layout import I32, I64, INFEASIBLE, Held, Totals
from shared.scheduling.table.table import NodeTable

WIDE_MIN = 40  # nodes to work on from which numpy beats Python (`bench_kernel wide`: about 25)
BAND_FEW, BAND_MANY, BAND_SCORES_MAX = 16, 128, 64
NO_DEVICES: list[int] = []
ROW_BITS = 32
ROW_MASK = (1 << ROW_BITS) - 1


class Sweep:
    """One batch in progress. `totals` is the row of totals as it would be after the picks so far,
    negative where a node is not feasible.
    """

    def __init__(
        self, table: NodeTable, sig: Signature, static: Static, local: Totals, held: Held | None
    ) -> None:
        self.table, self.sig, self.static, self.held = table, sig, static, held
        self.left = 0
        self._counts = static.counts(local >= 0)
        self.feasible = sum(self._counts)
        self.terms = static.terms(self._counts)
        self.totals = static.totals(local, self.terms)
        self._number = static.number
        self._nodes: dict[int, BatchNode] = {}
        self._ahead: dict[int, tuple[list[float], list[int]]] = {}  # columns and devices by row
        # Pods by row and free devices by row that no BatchNode knows of.
        self._taken: I64 | None = None
        self._free: I32 = table.gpu_free
        self._band = 2
        self._rows: list[int] = []
        self._row_totals: list[int] = []
        self._masks: list[int] = []
        self._parts: list[tuple[I64, Totals, I64]] = []

    def run(self, k: int) -> tuple[I64, Totals, I64]:
        """Rows, totals and device masks of up to k picks."""
        self.left = k
        totals = self.totals
        while self.left:
            level = int(totals[totals.argmax()])
            if level < 0:
                break
            rows = np.flatnonzero(totals == level)
            if min(len(rows), self.left) >= WIDE_MIN and self._wide_allowed():
                self._wide(rows[: self.left], level)
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
            after = self._take_while_first(row, total, heap, bound)
            self.totals[row] = after
            if after < 0 and self._left_class(row):
                return  # the totals of all rows have changed
            if after >= floor:
                heapreplace(heap, (-after << ROW_BITS) | row)
            else:
                heappop(heap)

    def _candidates(self, rows: I64, level: int) -> tuple[int, list[int]]:
        """The lowest total that this heap may serve, and the heap: keys in the order of picking.

        A wide level comes alone, and no more of it than pods are left; else the band below it
        comes along. The band's width follows how many nodes it held last time.
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
        if not self.held:
            self._read_ahead(rows)
        return floor, self._keys(np.full(len(rows), level, self._number), rows)

    def _keys(self, totals: Totals, rows: I64) -> list[int]:
        """What totals and rows are picked by, least first; of totals beyond 16 bits these are too
        large for numpy.
        """
        if self._number is not np.int16:
            both = zip(totals.tolist(), rows.tolist(), strict=True)
            return [(-total << ROW_BITS) | row for total, row in both]
        keys: list[int] = ((-totals.astype(np.int64) << ROW_BITS) | rows).tolist()
        return keys

    def _take_while_first(self, row: int, total: int, heap: list[int], bound: int) -> int:
        """Put pods on the row as long as it comes first; its total afterwards."""
        node = self._nodes.get(row) or self._node(row)
        # First = before the next in the heap, and not below what the heap may serve.
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
            total = node.take()
            if total < 0:
                break
            total += term
            if not left or ((-total << ROW_BITS) | row) > last:
                break
        self.left = left
        return total

    def _read_ahead(self, rows: I64) -> None:
        """Read together nodes that are all taken soon: a look at each alone costs far more."""
        values = self.table.cols.take(rows, axis=1).T.tolist()
        devices = self._free[rows].tolist() if self.sig.gpu_count else repeat(NO_DEVICES)
        self._ahead = dict(zip(rows.tolist(), zip(values, devices, strict=False), strict=True))

    def _node(self, row: int) -> BatchNode:
        taken = 0 if self._taken is None else int(self._taken[row])
        found = self._ahead.get(row)
        if found is not None:
            values, devices = found
        elif self.held:
            node = one_node(self.table, row, self.held)
            values, devices = node.values, node.devices
        else:
            values = self.table.cols[:, row].tolist()
            devices = self._free[row].tolist() if self.sig.gpu_count else NO_DEVICES
        made = self._nodes[row] = BatchNode(self.sig, values, devices, taken)
        return made

    def _left_class(self, row: int) -> bool:
        """A node filled up: whether that changed class terms (and with them the totals)."""
        class_of = self.static.class_of
        if class_of is None:
            return False
        group = int(class_of[row])
        self._counts[group] -= 1
        if self._counts[group]:
            return False
        terms = self.static.terms(self._counts)
        delta = np.array(terms, self._number) - np.array(self.terms, self._number)
        if not delta.any():
            return False
        feasible = self.totals >= 0
        self.totals[feasible] += delta[class_of[feasible]]
        self.terms = terms
        return True

    # --------------------------------------------------------------------------------- wide

    def _wide_allowed(self) -> bool:
        if self.sig.checked_ports or self.held:
            return False
        if self.static.class_of is None:
            return True
        # A class with more nodes than pods are left cannot run empty.
        return all(count == 0 or count > self.left for count in self._counts)

    def _wide(self, rows: I64, level: int) -> None:
        taken, free = self._leave_python()
        cols = self.table.cols.take(rows, axis=1)
        before = taken[rows]
        if before.any():
            add_pods(self.sig, cols, before)
        devices = by_device(free, rows) if self.sig.gpu_count else free
        terms = self._terms_of(rows)
        done = wide_level(self.sig, cols, devices, terms, level, self.left, self.table.whole)
        self._parts.append((np.repeat(rows, done.taken)[: self.left], done.totals, done.masks))
        self.left -= len(done.totals)
        if not self.left:
            return  # the last node may hold pods too many here, and nobody will ask
        taken[rows] += done.taken
        if self.sig.gpu_count:
            free[rows] = devices.T
        self.totals[rows] = np.where(done.after < 0, INFEASIBLE, done.after)
        if self.static.class_of is not None:
            for row in rows[done.after < 0].tolist():
                changed = self._left_class(row)
                assert not changed, "a class ran empty in a wide level"

    def _leave_python(self) -> tuple[I64, I32]:
        """Pods of this batch by row and free devices by row, with the picks made in Python."""
        if self._taken is None:
            self._taken = np.zeros(self.table.size, np.int64)
            self._free = self.table.gpu_free
            if self.sig.gpu_count:
                self._free = self._free.copy()
        self._nodes.clear()
        self._ahead = {}
        if self._rows:
            self._close_part()
            rows, _, masks = self._parts[-1]
            np.add.at(self._taken, rows, 1)
            if self.sig.gpu_count:
                drop_devices(self._free, self.sig.gpu_milli, rows, masks)
        return self._taken, self._free

    def _terms_of(self, rows: I64) -> Totals:
        class_of = self.static.class_of
        if class_of is None:
            return np.full(len(rows), self.terms[0], self._number)
        return np.array(self.terms, self._number)[class_of[rows]]
