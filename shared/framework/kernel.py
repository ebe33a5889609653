"""The placement kernel: k pods of one signature onto the nodes of one table, as k single cycles.

Pure: tables are never changed; the caller charges the picks. Caches make it fast and never change
a result.
"""

import numpy as np

from shared.framework.layout import I64, Held
from shared.framework.local import HeldNode, local_rows, score_node
from shared.framework.picks import Picks, Reasons
from shared.framework.report import reasons, resolvable_rows
from shared.framework.scratch import OneNode
from shared.framework.signature import Signature
from shared.framework.static import Static
from shared.framework.table import NodeTable

CACHE_BYTES = 64 * 1024 * 1024


class Kernel:
    """Score rows of one owner's signatures, bounded in bytes; one kernel may serve many tables."""

    def __init__(self, cache_bytes: int = CACHE_BYTES) -> None:
        self.cache_bytes = cache_bytes

    def place(self, table: NodeTable, sig: Signature, k: int, held: Held | None = None) -> Picks:
        """Up to k pods, each on the node a single cycle would take after the picks before it.

        `held`: nominations by node id that Filter must count for this signature (those of higher
        or equal priority, without the pod's own).
        """
        trial = table.trial()
        found: list[Picks] = []
        for _ in range(k):
            pick = self.place_naive(trial, sig, held)
            if len(pick.rows) == 0:
                break
            trial.charge(sig, pick.rows, pick.masks)
            found.append(pick)
        if not found:
            return self.place_naive(trial, sig, held)
        return Picks(
            np.concatenate([pick.rows for pick in found]),
            np.concatenate([pick.totals for pick in found]),
            np.concatenate([pick.masks for pick in found]),
            found[0].feasible,
            found[0].runner_up,
        )

    def place_naive(self, table: NodeTable, sig: Signature, held: Held | None = None) -> Picks:
        """One single cycle without any cache: the reference the rest is compared with."""
        static = Static(table, sig.spec)
        local = local_rows(table, sig, static, None)
        for row in table.rows_of(held or ()).tolist():
            if static.ok is None or static.ok[row]:
                local[row] = HeldNode(table, row, held or {}).score(sig)
        feasible = local >= 0
        totals = static.totals(local, static.terms(static.counts(feasible)))
        count = int(np.count_nonzero(feasible))
        if count == 0:
            return Picks(np.zeros(0, np.int64), totals[:0], np.zeros(0, np.int64), 0, -1)
        row = int(totals.argmax())
        others = np.delete(totals, row)
        node = HeldNode(table, row, held or {})
        return Picks(
            np.array([row], np.int64),
            totals[row : row + 1],
            np.array([node.pick_devices(sig)], np.int64),
            count,
            max(-1, int(others.max(initial=-1))),
        )

    def feasible_any(
        self, table: NodeTable, sig: Signature, rows: I64, held: Held | None = None
    ) -> bool:
        """Whether one more pod fits on any of these rows."""
        static = Static(table, sig.spec)
        for row in rows.tolist():
            if static.ok is not None and not static.ok[row]:
                continue
            if held and table.node_id_at(row) in held:
                if HeldNode(table, row, held).score(sig) >= 0:
                    return True
            elif score_node(sig, OneNode(table, row)) >= 0:
                return True
        return False

    def reasons(self, table: NodeTable, sig: Signature, held: Held | None = None) -> Reasons:
        """Why no node takes the pod, in kube-scheduler's words."""
        return reasons(table, sig, held)

    def resolvable_rows(self, table: NodeTable, sig: Signature, held: Held | None = None) -> I64:
        """Rows, ascending, that refuse the pod and could take it if pods were removed."""
        return resolvable_rows(table, sig, held)
