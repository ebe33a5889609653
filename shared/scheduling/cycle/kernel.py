"""The placement kernel: k pods of one signature onto the nodes of one table, as k single cycles.

Pure: tables are never changed; the caller charges the picks. Caches make it fast and never change
a result.
"""

import numpy as np
from msgspec.structs import replace

from shared.scheduling.cycle.inter_pod_rules import (
    Cycles,
    Rules,
    as_columns,
    refused_with,
    rules_of,
)
from shared.scheduling.cycle.node_scores import fits_rows
from shared.scheduling.cycle.one_node import one_node
from shared.scheduling.cycle.report import pre_filter, reasons, resolvable_rows
from shared.scheduling.cycle.sampling import search, wanted
from shared.scheduling.cycle.score_classes import Static
from shared.scheduling.cycle.score_rows import RowCache, feasible_count, fresh_row, update
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.cycle.sweep import Sweep
from shared.scheduling.table.devices import pick_devices
from shared.scheduling.table.layout import I64, INFEASIBLE, Held, Mask, Totals
from shared.scheduling.table.picks import Pick, Picks, Reasons, Sampled
from shared.scheduling.table.table import NodeTable

CACHE_BYTES = 64 * 1024 * 1024
ALIKE_MAX = 256
NO_ROWS = np.zeros(0, np.int64)
LOWEST = np.iinfo(np.int64).min
FEW_ROWS = 10  # rows up to which asking one by one in Python is quicker than numpy's fixed cost


class Kernel:
    """Score rows of one owner's signatures, bounded in bytes; one kernel may serve many tables."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self.cache = RowCache(cache_bytes)

    def place(self, table: NodeTable, sig: Signature, k: int, held: Held | None = None) -> Picks:
        """Up to k pods, each on the node a single cycle would take after the picks before it.

        `held`: nominations by node id that Filter must count for this signature (those of higher
        or equal priority, without the pod's own).
        """
        assert k >= 1
        if k == 1:
            return _as_picks(sig, self.place_one(table, sig, held))
        if table.size == 0:
            return _as_picks(sig, None)
        held = _held_here(table, held)
        rules = rules_of(table, sig)
        if rules is not None:
            return self._place_between(table, sig, rules, k, held)
        sig.asked = True
        static, local, _ = self._row(table, sig, once=False)
        if held:
            local = _with_held(table, sig, local, held)
        sweep = Sweep(table, sig, static, local, held)
        runner_up = _runner_up(sweep.totals)
        rows, totals, masks = sweep.run(k)
        return Picks(rows, totals, masks, sweep.feasible, runner_up)

    def place_one(self, table: NodeTable, sig: Signature, held: Held | None = None) -> Pick | None:
        """One single cycle; None when no node takes the pod."""
        if table.size == 0:
            return None
        if held:
            held = _held_here(table, held)
        rules = rules_of(table, sig)
        # A row of a signature that is asked for once is not worth its memory.
        whose = shared_by(table, sig)
        once, whose.asked = not whose.asked, True
        static, local, feasible = self._row(table, whose, once)
        if rules is not None and not _all_pass(table, rules, held):
            return _cycles(table, sig, rules, (static, local, feasible), held).next()
        if held:
            local = _with_held(table, sig, local, held)
            feasible = feasible_count(local)
        if not feasible:
            return None
        if static.class_of is None:
            return _best_of_one_class(table, sig, static, local, feasible, held)
        return _best(table, sig, static, local, held)

    def place_sampled(
        self,
        table: NodeTable,
        sig: Signature,
        held: Held | None,
        order: I64,
        start: int,
        tried: int | None = None,
    ) -> Sampled:
        """One single cycle that looks at the rows of `order` from its `start` on until it has found
        enough. `tried` is a row that refused the pod already: its nominated node.
        """
        if pre_filter(table, sig) is not None:
            return Sampled(None, NO_ROWS, NO_ROWS, 0)
        held = _held_here(table, held)
        rules = rules_of(table, sig)
        static, local, _ = self._row(table, sig, once=False)
        local = _with_held(table, sig, local, held) if held else local.copy()
        takes: Mask = local >= 0
        if rules is not None:
            takes &= ~refused_with(table, rules, table.counters.now(), held)
        named = sig.plugins.left_out(table, sig.spec)
        rows = order if named is None else order[~named[order]]
        found, looked_at = search(rows, start, takes, wanted(sig.plugins.profile, len(rows)))
        examined = len(looked_at) + int(tried is not None and tried not in looked_at)
        # A search that found nobody to look at is one all the same: it goes once round.
        examined = examined or table.size
        takes[:] = True
        takes[found] = False
        np.putmask(local, takes, INFEASIBLE)
        if rules is not None:
            pick = Cycles(table, sig, rules, static, local, held).next()
        else:
            pick = _best(table, sig, static, local, held)
        return Sampled(pick, found, looked_at, examined)

    def fitting(self, table: NodeTable, sig: Signature, held: Held | None = None) -> I64:
        """Rows that take the pod."""
        if table.size == 0:
            return NO_ROWS
        return np.flatnonzero(_judged(table, sig, _held_here(table, held))[2])

    def place_among(
        self, table: NodeTable, sig: Signature, held: Held | None, rows: I64, more: I64
    ) -> tuple[Pick, int] | None:
        """One single cycle among those of these rows that take the pod, with `more` added to their
        totals; the pick has its total without that, which comes second.
        """
        if table.size == 0:
            return None
        held = _held_here(table, held)
        static, local, takes, rules = _judged(table, sig, held)
        among = np.zeros(table.size, np.bool_)
        among[rows] = takes[rows]
        np.putmask(local, ~among, INFEASIBLE)
        counts = static.counts(among)
        if not sum(counts):
            return None
        totals = static.totals(local, static.terms(counts))
        if rules is not None:
            for _, weight, normalised in rules.scores(table.counters.now(), among):
                totals += (weight * normalised).astype(totals.dtype)
        added = np.zeros(table.size, np.int64)
        added[rows] = more
        sums = np.where(among, totals + added, LOWEST)
        row = int(sums.argmax())
        mask = one_node(table, row, held).pick_devices(sig)
        return Pick(row, int(totals[row]), mask, sum(counts), -1), int(added[row])

    def place_naive(self, table: NodeTable, sig: Signature, held: Held | None = None) -> Picks:
        """One single cycle without any cache or shortcut: what the rest is compared with."""
        if table.size == 0:
            return _as_picks(sig, None)
        held = _held_here(table, held)
        rules = rules_of(table, sig)
        if rules is not None:
            return _as_picks(sig, _cycles(table, sig, rules, fresh_row(table, sig), held).next())
        static, local, _ = fresh_row(table, sig)
        if held:
            local = _with_held(table, sig, local, held)
        return _as_picks(sig, _best(table, sig, static, local, held))

    def _place_between(
        self, table: NodeTable, sig: Signature, rules: Rules, k: int, held: Held | None
    ) -> Picks:
        cycles = _cycles(table, sig, rules, self._row(table, sig, once=False), held)
        picks: list[Pick] = []
        while len(picks) < k and (pick := cycles.next()) is not None:
            picks.append(pick)
            cycles.take(pick.row)
        if not picks:
            return _as_picks(sig, None)
        return Picks(*as_columns(sig, picks), picks[0].feasible, picks[0].runner_up)

    def feasible_any(
        self, table: NodeTable, sig: Signature, rows: I64, held: Held | None = None
    ) -> bool:
        """Whether one more pod fits on any of these rows."""
        rules = rules_of(table, sig)
        if rules is not None:
            rows = rows[~refused_with(table, rules, table.counters.now(), held)[rows]]
        static = self.cache.static(table.parent or table, sig)
        if static.ok is not None:
            rows = rows[static.ok[rows]]
        if not held and len(rows) > FEW_ROWS:
            return bool(fits_rows(table, sig, rows).any())
        return any(one_node(table, row, held).fits(sig) for row in rows.tolist())

    def reasons(self, table: NodeTable, sig: Signature, held: Held | None = None) -> Reasons:
        """Why no node takes the pod, in kube-scheduler's words."""
        return reasons(table, sig, held)

    def resolvable_rows(self, table: NodeTable, sig: Signature, held: Held | None = None) -> I64:
        """Rows, ascending, that refuse the pod and could take it if pods were removed."""
        return resolvable_rows(table, sig, held)

    def _row(self, table: NodeTable, sig: Signature, once: bool) -> tuple[Static, Totals, int]:
        """Static part, local scores and feasible nodes; not to be changed. A trial's row is its
        table's row with the trial's changes on top, so trials neither fill the cache nor start
        from nothing.
        """
        base = table.parent or table
        if once and self.cache.entry(base, sig) is None:
            return fresh_row(table, sig)
        static, local, feasible = self.cache.row(base, sig)
        if table is base:
            return static, local, feasible
        assert table.forked_at == base.changes.position, "the table changed under its trial"
        changed = table.changes.since(0)
        if changed is None:
            return fresh_row(table, sig)
        local = local.copy()
        update(local, table, sig, static, changed)
        return static, local, feasible_count(local)


def shared_by(table: NodeTable, sig: Signature) -> Signature:
    """The one whose row stands for all that differ from it in their volumes alone, at which nothing
    local looks: pods with a claim each have a signature each.
    """
    if not sig.uses or sig.plugins.custom:
        return sig
    if sig.alike is None:
        base = table.parent or table
        if len(base.alike) > ALIKE_MAX:
            base.alike = {}
        found = base.alike.setdefault((sig.plugins, replace(sig.spec, volumes=())), sig)
        if found is sig:  # no reference to itself, which only the collector would end
            return sig
        sig.alike = found
    return sig.alike


def _all_pass(table: NodeTable, rules: Rules, held: Held | None) -> bool:
    """Whether the rules neither refuse a node now nor score any: volumes rarely do."""
    if not rules.are_of_volumes:
        return False
    return not refused_with(table, rules, table.counters.now(), held).any()


def _judged(
    table: NodeTable, sig: Signature, held: Held | None
) -> tuple[Static, Totals, Mask, Rules | None]:
    """Static part, local scores, which rows take the pod, and its rules between pods; uncached."""
    static, local, _ = fresh_row(table, sig)
    local = _with_held(table, sig, local, held) if held else local.copy()
    takes: Mask = local >= 0
    rules = rules_of(table, sig)
    if rules is not None:
        refused = refused_with(table, rules, table.counters.now(), held)
        takes &= ~refused
    return static, local, takes, rules


def _cycles(
    table: NodeTable,
    sig: Signature,
    rules: Rules,
    row: tuple[Static, Totals, int],
    held: Held | None,
) -> Cycles:
    static, local, _ = row
    local = _with_held(table, sig, local, held) if held else local.copy()
    return Cycles(table, sig, rules, static, local, held)


def _held_here(table: NodeTable, held: Held | None) -> Held | None:
    """Nominations on nodes of this table, None when there are none."""
    if not held:
        return None
    here = {node: pods for node, pods in held.items() if pods and table.row_of(node) is not None}
    return here or None


def _with_held(table: NodeTable, sig: Signature, local: Totals, held: Held) -> Totals:
    """A copy of a row with the nodes of nominations filtered once more."""
    local = local.copy()
    for row in table.rows_of(sorted(held)).tolist():
        if local[row] >= 0 and not one_node(table, row, held).fits(sig):
            local[row] = INFEASIBLE
    return local


def _best(
    table: NodeTable, sig: Signature, static: Static, local: Totals, held: Held | None
) -> Pick | None:
    """One pod, from a row of local scores."""
    counts = static.counts(local >= 0)
    feasible = sum(counts)
    if not feasible:
        return None
    totals = static.totals(local, static.terms(counts))
    row = int(totals.argmax())
    mask = one_node(table, row, held).pick_devices(sig)
    return Pick(row, int(totals[row]), mask, feasible, _runner_up(totals))


def _best_of_one_class(
    table: NodeTable,
    sig: Signature,
    static: Static,
    local: Totals,
    feasible: int,
    held: Held | None,
) -> Pick:
    """One pod where all nodes have the same class term: the first maximum of the row itself."""
    row = int(local.argmax())
    best = int(local[row])
    assert best >= 0, f"{feasible} nodes are feasible, and the best of them is not"
    second = -1
    if feasible > 1:
        local[row] = INFEASIBLE
        second = int(local[local.argmax()]) + static.only_term  # argmax costs a third of max
        local[row] = best
    mask = 0
    if sig.gpu_count:
        if held:
            mask = one_node(table, row, held).pick_devices(sig)
        else:
            mask = pick_devices(sig, table.gpu_free[row].tolist())
    return Pick(row, best + static.only_term, mask, feasible, second)


def _runner_up(totals: Totals) -> int:
    """The best total beside the first best, -1 when there is none."""
    row = int(totals.argmax())
    best = totals[row]
    totals[row] = INFEASIBLE
    second = int(totals[totals.argmax()])
    totals[row] = best
    return max(second, -1)


def _as_picks(sig: Signature, pick: Pick | None) -> Picks:
    number = sig.plugins.number
    if pick is None:
        none = np.zeros(0, np.int64)
        return Picks(none, np.zeros(0, number), none, 0, -1)
    return Picks(
        np.array([pick.row], np.int64),
        np.array([pick.total], number),
        np.array([pick.mask], np.int64),
        pick.feasible,
        pick.runner_up,
    )
