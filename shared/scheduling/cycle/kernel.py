"""The placement kernel: k pods of one signature onto the nodes of one table, as k single cycles.

Pure: tables are never changed; the caller charges the picks. Caches make it fast and never change
a result.
"""

import numpy as np
from msgspec.structs import replace

from shared.scheduling.cycle.grouped_cycles import grouped
from shared.scheduling.cycle.inter_pod_rules import (
    Rules,
    SingleCycles,
    as_columns,
    refusal,
    refused_with,
    rules_of,
    single_node_scores,
)
from shared.scheduling.cycle.node_scores import fits_rows
from shared.scheduling.cycle.one_node import one_node
from shared.scheduling.cycle.report import pre_filter, reasons, resolvable_rows
from shared.scheduling.cycle.sampling import search, wanted
from shared.scheduling.cycle.score_classes import StaticResult, static_of
from shared.scheduling.cycle.score_rows import (
    RowCache,
    feasible_count,
    fresh_row,
    keep_within,
    update,
)
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.cycle.sweep import Sweep
from shared.scheduling.table.devices import pick_devices
from shared.scheduling.table.layout import AMOUNT_MAX, I64, INFEASIBLE, Mask, NominatedPods, Totals
from shared.scheduling.table.picks import Pick, Picks, Reasons, Sampled
from shared.scheduling.table.table import NodeTable

CACHE_BYTES = 64 * 1024 * 1024
ALIKE_MAX = 256
NO_ROWS = np.zeros(0, np.int64)
LOWEST = np.iinfo(np.int64).min
FEW_ROWS = 10  # up to this many rows, plain Python is faster than numpy's fixed cost


class Kernel:
    """The kernel, with cached score rows of one owner's signatures, bounded in bytes; it may serve
    many tables.
    """

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self.cache = RowCache(cache_bytes)

    def place(
        self, table: NodeTable, sig: Signature, k: int, nominated_pods: NominatedPods | None = None
    ) -> Picks:
        """Place up to k pods, each on the node that a single cycle would pick after the picks
        before it.

        `nominated_pods`: nominations by node id that Filter must count for this signature (those of
        higher or equal priority, without the pod's own).
        """
        assert k >= 1
        if k == 1:
            return as_picks(sig, self.place_one(table, sig, nominated_pods))
        if table.size == 0:
            return as_picks(sig, None)
        if nominated_pods:
            nominated_pods = _nominated_in_table(table, nominated_pods)
        rules = rules_of(table, sig)
        if rules is not None:
            return self._place_with_inter_pod_rules(table, sig, rules, k, nominated_pods)
        sig.asked = True
        static_result, local, _ = self._row(table, sig, once=False)
        if nominated_pods:
            local = _with_nominated(table, sig, local, nominated_pods)
        sweep = Sweep(table, sig, static_result, local, nominated_pods)
        runner_up = _runner_up(sweep.totals)
        rows, totals, masks = sweep.run(k)
        return Picks(rows, totals, masks, sweep.feasible, runner_up)

    def place_one(
        self, table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
    ) -> Pick | None:
        """Run one single cycle; return None if no node fits the pod."""
        if table.size == 0:
            return None
        if nominated_pods:
            nominated_pods = _nominated_in_table(table, nominated_pods)
        rules = rules_of(table, sig)
        # The row of a signature that is used once is not worth its memory.
        shared = shared_by(table, sig)
        once, shared.asked = not shared.asked, True
        static_result, local, feasible = self._row(table, shared, once)
        if rules is not None and not _all_pass(table, rules, nominated_pods):
            return _cycles(
                table, sig, rules, (static_result, local, feasible), nominated_pods
            ).next()
        if nominated_pods:
            local = _with_nominated(table, sig, local, nominated_pods)
            feasible = feasible_count(local)
        if not feasible:
            return None
        if static_result.class_of is None:
            return _best_of_one_class(table, sig, static_result, local, feasible, nominated_pods)
        return _best(table, sig, static_result, local, nominated_pods)

    def place_sampled(
        self,
        table: NodeTable,
        sig: Signature,
        nominated_pods: NominatedPods | None,
        order: I64,
        start: int,
        tried: int | None = None,
    ) -> Sampled:
        """Run one single cycle over the rows of `order` from its `start` on until it has found
        enough. `tried` is a row that refused the pod already: its nominated node.
        """
        if pre_filter(table, sig) is not None:
            return Sampled(None, NO_ROWS, NO_ROWS, 0)
        nominated_pods = _nominated_in_table(table, nominated_pods)
        rules = rules_of(table, sig)
        static_result, local, _ = self._row(table, sig, once=False)
        local = (
            _with_nominated(table, sig, local, nominated_pods) if nominated_pods else local.copy()
        )
        takes: Mask = local >= 0
        if rules is not None:
            takes &= ~refused_with(table, rules, table.counters.now(), nominated_pods)
        named = sig.plugins.left_out(table, sig.spec)
        rows = order if named is None else order[~named[order]]
        found, looked_at = search(rows, start, takes, wanted(sig.plugins.profile, len(rows)))
        examined = len(looked_at) + int(tried is not None and tried not in looked_at)
        # A search without nodes to examine counts as one full round.
        examined = examined or table.size
        takes[:] = True
        takes[found] = False
        np.putmask(local, takes, INFEASIBLE)
        if rules is not None:
            pick = SingleCycles(table, sig, rules, static_result, local, nominated_pods).next()
        else:
            pick = _best(table, sig, static_result, local, nominated_pods)
        return Sampled(pick, found, looked_at, examined)

    def slots(self, table: NodeTable, sig: Signature) -> I64 | None:
        """Return how many pods fit on each node, as if each node had all of them; None if that is
        not a matter of amounts alone.
        """
        shares_device = sig.gpu_count and not sig.whole_devices
        if sig.checked_ports or shares_device or rules_of(table, sig) is not None:
            return None
        fits = np.full(table.size, AMOUNT_MAX)
        for column, amount in sig.checks:
            if amount > 0:
                # Cut to integers at the end: a quotient of amounts never rounds up to the next one.
                np.minimum(fits, table.cols[column] / amount, out=fits)
        static_result = self.cache.static(table.parent or table, sig)
        if static_result.ok is not None:
            fits[~static_result.ok] = 0.0
        found: I64 = np.maximum(fits, 0.0).astype(np.int64)
        return found

    def fitting(
        self, table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
    ) -> I64:
        """Return the rows on which the pod fits."""
        if table.size == 0:
            return NO_ROWS
        return np.flatnonzero(_evaluate(table, sig, _nominated_in_table(table, nominated_pods))[2])

    def place_among(
        self,
        table: NodeTable,
        sig: Signature,
        nominated_pods: NominatedPods | None,
        rows: I64,
        more: I64,
    ) -> tuple[Pick, int] | None:
        """Run one single cycle among these rows, with `more` added to their totals; return the pick
        with its total without that, and the total with it.
        """
        if table.size == 0:
            return None
        nominated_pods = _nominated_in_table(table, nominated_pods)
        totals, among = _totals_among(table, sig, nominated_pods, rows)
        feasible = int(np.count_nonzero(among))
        if not feasible:
            return None
        added = np.zeros(table.size, np.int64)
        added[rows] = more
        sums = np.where(among, totals + added, LOWEST)
        row = int(sums.argmax())
        mask = one_node(table, row, nominated_pods).pick_devices(sig)
        return Pick(row, int(totals[row]), mask, feasible, -1), int(added[row])

    def totals_among(self, table: NodeTable, sig: Signature, rows: I64) -> I64:
        """Return the totals of these rows in a cycle among them, -1 where the pod does not fit."""
        if table.size == 0:
            return NO_ROWS
        totals, among = _totals_among(table, sig, None, rows)
        return np.where(among, totals, -1)[rows].astype(np.int64)

    def place_on(
        self, table: NodeTable, sig: Signature, row: int, nominated_pods: NominatedPods | None
    ) -> Pick | None:
        """Run one single cycle that examines this node only; return None if the pod does not fit
        there.
        """
        static_result = static_of(table, sig.spec, sig.plugins)
        node = one_node(table, row, nominated_pods)
        if table.within is not None and not table.within[row]:
            return None
        passes = static_result.ok is None or static_result.ok[row]
        score = node.local_score(sig) if passes else INFEASIBLE
        if score < 0 or refusal(table, sig, node) is not None:
            return None
        class_row = 0 if static_result.class_of is None else int(static_result.class_of[row])
        counts = [1 if at == class_row else 0 for at in range(len(static_result.raws))]
        score += static_result.class_scores(counts)[class_row]
        total = score + single_node_scores(table, sig, row)
        return Pick(row, total, node.pick_devices(sig), 1, -1)

    def place_naive(
        self, table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
    ) -> Picks:
        """Run one single cycle without any cache or shortcut: the reference for all other paths."""
        if table.size == 0:
            return as_picks(sig, None)
        nominated_pods = _nominated_in_table(table, nominated_pods)
        rules = rules_of(table, sig)
        if rules is not None:
            return as_picks(
                sig, _cycles(table, sig, rules, fresh_row(table, sig), nominated_pods).next()
            )
        static_result, local, _ = fresh_row(table, sig)
        if nominated_pods:
            local = _with_nominated(table, sig, local, nominated_pods)
        return as_picks(sig, _best(table, sig, static_result, local, nominated_pods))

    def _place_with_inter_pod_rules(
        self,
        table: NodeTable,
        sig: Signature,
        rules: Rules,
        k: int,
        nominated_pods: NominatedPods | None,
    ) -> Picks:
        row = self._row(table, sig, once=False)
        cycles = grouped(_cycles(table, sig, rules, row, nominated_pods))
        picks: list[Pick] = []
        while len(picks) < k and (pick := cycles.next()) is not None:
            picks.append(pick)
            cycles.add(pick.row)
        if not picks:
            return as_picks(sig, None)
        return Picks(*as_columns(sig, picks), picks[0].feasible, picks[0].runner_up)

    def feasible_any(
        self,
        table: NodeTable,
        sig: Signature,
        rows: I64,
        nominated_pods: NominatedPods | None = None,
    ) -> bool:
        """Return whether one more pod fits on any of these rows."""
        rules = rules_of(table, sig)
        if rules is not None:
            rows = rows[~refused_with(table, rules, table.counters.now(), nominated_pods)[rows]]
        static_result = self.cache.static(table.parent or table, sig)
        if static_result.ok is not None:
            rows = rows[static_result.ok[rows]]
        if not nominated_pods and len(rows) > FEW_ROWS:
            return bool(fits_rows(table, sig, rows).any())
        return any(one_node(table, row, nominated_pods).fits(sig) for row in rows.tolist())

    def reasons(
        self, table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
    ) -> Reasons:
        """Return why no node fits the pod, in kube-scheduler's words."""
        return reasons(table, sig, nominated_pods)

    def resolvable_rows(
        self, table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None = None
    ) -> I64:
        """Return the rows, ascending, that refuse the pod and could fit it if pods were removed."""
        return resolvable_rows(table, sig, nominated_pods)

    def _row(
        self, table: NodeTable, sig: Signature, once: bool
    ) -> tuple[StaticResult, Totals, int]:
        """Return static part, local scores and number of feasible nodes, read-only. A trial's row
        is its table's row plus the trial's changes, so trials neither fill the cache nor start from
        nothing.
        """
        base = table.parent or table
        if once and self.cache.entry(base, sig) is None:
            return fresh_row(table, sig)
        static_result, local, feasible = self.cache.row(base, sig)
        if table is base:
            return static_result, local, feasible
        assert table.forked_at == base.changes.position, "the table changed under its trial"
        changed = table.changes.since(0)
        if changed is None:
            return fresh_row(table, sig)
        local = local.copy()
        update(local, table, sig, static_result, changed)
        keep_within(table, local)
        return static_result, local, feasible_count(local)


def shared_by(table: NodeTable, sig: Signature) -> Signature:
    """Return the signature whose row serves all that differ from it only in volumes and resource
    claims, which no local score reads: pods with a claim each have a signature each.
    """
    if not (sig.uses or sig.spec.claims) or sig.plugins.custom:
        return sig
    if sig.alike is None:
        base = table.parent or table
        if len(base.alike) > ALIKE_MAX:
            base.alike = {}
        found = base.alike.setdefault((sig.plugins, replace(sig.spec, volumes=(), claims=())), sig)
        if found is sig:  # no reference to itself, which only the collector would free
            return sig
        sig.alike = found
    return sig.alike


def _all_pass(table: NodeTable, rules: Rules, nominated_pods: NominatedPods | None) -> bool:
    """Return whether the rules neither refuse a node now nor score: volumes rarely do."""
    if not rules.are_of_volumes or rules.volumes.has_scores:
        return False
    return not refused_with(table, rules, table.counters.now(), nominated_pods).any()


def _evaluate(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None
) -> tuple[StaticResult, Totals, Mask, Rules | None]:
    """Return static part, local scores, feasible rows and inter-pod rules, uncached."""
    static_result, local, _ = fresh_row(table, sig)
    local = _with_nominated(table, sig, local, nominated_pods) if nominated_pods else local.copy()
    takes: Mask = local >= 0
    rules = rules_of(table, sig)
    if rules is not None:
        refused = refused_with(table, rules, table.counters.now(), nominated_pods)
        takes &= ~refused
    return static_result, local, takes, rules


def _totals_among(
    table: NodeTable, sig: Signature, nominated_pods: NominatedPods | None, rows: I64
) -> tuple[Totals, Mask]:
    """Return the totals of a cycle among these rows, and those of them on which the pod fits."""
    static_result, local, takes, rules = _evaluate(table, sig, nominated_pods)
    among = np.zeros(table.size, np.bool_)
    among[rows] = takes[rows]
    np.putmask(local, ~among, INFEASIBLE)
    totals = static_result.totals(local, static_result.class_scores(static_result.counts(among)))
    if rules is not None and among.any():
        for _, weight, normalised in rules.scores(table.counters.now(), among):
            totals += (weight * normalised).astype(totals.dtype)
    return totals, among


def _cycles(
    table: NodeTable,
    sig: Signature,
    rules: Rules,
    row: tuple[StaticResult, Totals, int],
    nominated_pods: NominatedPods | None,
) -> SingleCycles:
    static_result, local, _ = row
    local = _with_nominated(table, sig, local, nominated_pods) if nominated_pods else local.copy()
    return SingleCycles(table, sig, rules, static_result, local, nominated_pods)


def _nominated_in_table(
    table: NodeTable, nominated_pods: NominatedPods | None
) -> NominatedPods | None:
    """Return the nominations on nodes of this table, None if there are none."""
    if not nominated_pods:
        return None
    here = {
        node: pods
        for node, pods in nominated_pods.items()
        if pods and table.row_of(node) is not None
    }
    return here or None


def _with_nominated(
    table: NodeTable, sig: Signature, local: Totals, nominated_pods: NominatedPods
) -> Totals:
    """Return a copy of a row with the nominated nodes filtered again."""
    local = local.copy()
    for row in table.rows_of(sorted(nominated_pods)).tolist():
        if local[row] >= 0 and not one_node(table, row, nominated_pods).fits(sig):
            local[row] = INFEASIBLE
    return local


def _best(
    table: NodeTable,
    sig: Signature,
    static_result: StaticResult,
    local: Totals,
    nominated_pods: NominatedPods | None,
) -> Pick | None:
    """Return the best node for one pod, from a row of local scores."""
    counts = static_result.counts(local >= 0)
    feasible = sum(counts)
    if not feasible:
        return None
    totals = static_result.totals(local, static_result.class_scores(counts))
    row = int(totals.argmax())
    mask = one_node(table, row, nominated_pods).pick_devices(sig)
    return Pick(row, int(totals[row]), mask, feasible, _runner_up(totals))


def _best_of_one_class(
    table: NodeTable,
    sig: Signature,
    static_result: StaticResult,
    local: Totals,
    feasible: int,
    nominated_pods: NominatedPods | None,
) -> Pick:
    """Return the best node for one pod if all nodes have the same class term: the first maximum of
    the row.
    """
    row = int(local.argmax())
    best = int(local[row])
    assert best >= 0, f"{feasible} nodes are feasible, and the best of them is not"
    second = -1
    if feasible > 1:
        local[row] = INFEASIBLE
        second = int(local[local.argmax()]) + static_result.only_term  # argmax costs a third of max
        local[row] = best
    mask = 0
    if sig.gpu_count:
        if nominated_pods:
            mask = one_node(table, row, nominated_pods).pick_devices(sig)
        else:
            mask = pick_devices(sig, table.gpu_free[row].tolist())
    return Pick(row, best + static_result.only_term, mask, feasible, second)


def _runner_up(totals: Totals) -> int:
    """Return the second best total, -1 if there is none."""
    row = int(totals.argmax())
    best = totals[row]
    totals[row] = INFEASIBLE
    second = int(totals[totals.argmax()])
    totals[row] = best
    return max(second, -1)


def as_picks(sig: Signature, pick: Pick | None) -> Picks:
    """Return one pick, or none, as columns."""
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
