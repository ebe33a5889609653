"""Score rows of signatures, kept up to date with a table's changes; least recently used leave
first.

Not state: without it every answer is the same but slower. Only raw node-local scores are stored,
never normalised or total ones, which depend on the feasible nodes.
"""

import numpy as np

from shared.scheduling.cycle.node_scores import full_row, local_rows
from shared.scheduling.cycle.one_node import OneNode
from shared.scheduling.cycle.score_classes import StaticResult, static_of
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.layout import I64, INFEASIBLE, Totals
from shared.scheduling.table.table import NodeTable

ENTRY_BYTES = 500  # the cost of an entry besides its arrays
SCALAR_ROWS_MAX = 10  # numpy's fixed cost for a rescore of any size is that of ten nodes in Python


class Entry:
    """The cached row of one signature on one table. `local` is None until a row was needed;
    `feasible` counts the nodes in it that fit one more pod.
    """

    __slots__ = (
        *("bytes", "feasible", "images", "local", "position", "restarts", "static"),
        *("static_version", "table"),
    )

    def __init__(self, table: NodeTable, sig: Signature) -> None:
        self.table = table
        self.local: Totals | None = None
        self.feasible = 0
        self.position = 0
        self._renew(sig)

    def _renew(self, sig: Signature) -> None:
        table = self.table
        self.static = static_of(table, sig.spec, sig.plugins)
        self.static_version = table.static_version
        self.images = table.images.stamp(sig.plugins.images_of(sig.spec))
        self.restarts = table.changes.restarts
        self.local = None
        self.bytes = ENTRY_BYTES + self.static.bytes

    def current(self, sig: Signature) -> StaticResult:
        """Return the static part on the present table."""
        table = self.table
        stale = (
            self.static_version != table.static_version
            or self.restarts != table.changes.restarts
            or (sig.spec.images and self._images_changed(sig))
        )
        if stale:
            self._renew(sig)
        return self.static

    def _images_changed(self, sig: Signature) -> bool:
        return self.images != self.table.images.stamp(sig.plugins.images_of(sig.spec))

    def row(self, sig: Signature) -> Totals:
        """Return the local scores on the present table, shape (n,). Read-only for the caller."""
        static_result, table = self.current(sig), self.table
        changed = None if self.local is None else table.changes.since(self.position)
        width = table.size if static_result.few is None else len(static_result.few)
        if self.local is None or changed is None or 2 * len(changed) > width:
            self.local, self.feasible = full_row(table, sig, static_result)
            self.bytes = ENTRY_BYTES + static_result.bytes + self.local.nbytes
        elif len(changed):
            more = update(self.local, table, sig, static_result, changed)
            self.feasible = feasible_count(self.local) if more is None else self.feasible + more
        self.position = table.changes.position
        return self.local


def update(
    local: Totals, table: NodeTable, sig: Signature, static_result: StaticResult, rows: I64
) -> int | None:
    """Recompute these rows (repeats are harmless) of a row of local scores; return how many more
    nodes are feasible now, None: not counted.
    """
    if len(rows) > SCALAR_ROWS_MAX:
        local[rows] = local_rows(table, sig, static_result, rows)
        return None
    ok, more = static_result.ok, 0
    for row in rows.tolist():
        if ok is None or ok[row]:
            score = OneNode(table, row).local_score(sig)
            more += (score >= 0) - (int(local[row]) >= 0)
            local[row] = score
    return more


class RowCache:
    """Entries by signature, bounded in bytes."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        # Keyed by the compiled signature itself, which belongs to one table. The order is that of
        # use and only decides what is dropped.
        self._entries: dict[Signature, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, table: NodeTable, sig: Signature) -> Entry | None:
        """Return the entry and mark it as most recently used."""
        entry = self._entries.pop(sig, None)
        if entry is not None:
            assert entry.table is table, f"signature {sig.sig_id} is compiled for another table"
            self._entries[sig] = entry
        return entry

    def static(self, table: NodeTable, sig: Signature) -> StaticResult:
        """Return the static part and keep it."""
        entry = self.entry(table, sig)
        if entry is None:
            entry = self._add(table, sig)
        before = entry.bytes
        static_result = entry.current(sig)
        self._account(entry.bytes - before)
        return static_result

    def row(self, table: NodeTable, sig: Signature) -> tuple[StaticResult, Totals, int]:
        """Return the static part, the row of local scores and the number of feasible nodes, and
        keep them.
        """
        entry = self.entry(table, sig)
        if entry is None:
            entry = self._add(table, sig)
        before = entry.bytes
        local = entry.row(sig)
        if entry.bytes != before:
            self._account(entry.bytes - before)
        return entry.static, local, entry.feasible

    def _add(self, table: NodeTable, sig: Signature) -> Entry:
        entry = self._entries[sig] = Entry(table, sig)
        self._account(entry.bytes)
        return entry

    def _account(self, bytes_more: int) -> None:
        self.bytes += bytes_more
        while self.bytes > self.bytes_max and self._entries:
            oldest = next(iter(self._entries))
            self.bytes -= self._entries.pop(oldest).bytes


def fresh_row(table: NodeTable, sig: Signature) -> tuple[StaticResult, Totals, int]:
    """Return the same as `RowCache.row`, computed and not kept."""
    static_result = static_of(table, sig.spec, sig.plugins)
    local, feasible = full_row(table, sig, static_result)
    if table.within is not None:
        keep_within(table, local)
        feasible = feasible_count(local)
    return static_result, local, feasible


def keep_within(table: NodeTable, local: Totals) -> None:
    """Make the nodes infeasible that a trial must not pick."""
    if table.within is not None:
        np.putmask(local, ~table.within, INFEASIBLE)


def feasible_count(local: Totals) -> int:
    """Return the number of nodes that fit one more pod."""
    return int(np.count_nonzero(local >= 0))
