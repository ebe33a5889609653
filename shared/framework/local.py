"""The node-local half of a cycle: dynamic filters and local scores, for arrays and for one node.

The result is one int16 a node: the sum of the local scores, or INFEASIBLE. Both forms must agree
bit by bit.
"""

from typing import TYPE_CHECKING

import numpy as np

from shared.framework.layout import F64, I16, I64, INFEASIBLE, Held, Mask
from shared.framework.profile import BALANCED_ALLOCATION, LEAST_ALLOCATED, PORTS
from shared.framework.scratch import OneNode

if TYPE_CHECKING:
    from shared.framework.signature import Signature
    from shared.framework.static import Static
    from shared.framework.table import NodeTable


def score_columns(sig: "Signature", cols: F64) -> I16:
    """Local scores of gathered nodes, feasible or not."""
    score = LEAST_ALLOCATED.scores(sig, cols)
    if BALANCED_ALLOCATION.applies(sig):
        score += BALANCED_ALLOCATION.scores(sig, cols)
    return score.astype(np.int16)


def fits_columns(sig: "Signature", cols: F64) -> Mask:
    """Column filters over gathered nodes."""
    checks = sig.checks
    column, amount = checks[0]
    fits: Mask = cols[column] >= amount
    for column, amount in checks[1:]:
        fits &= cols[column] >= amount
    return fits


def local_columns(sig: "Signature", cols: F64) -> I16:
    """Scores of gathered nodes with INFEASIBLE where a column filter refuses."""
    scores = score_columns(sig, cols)
    fits = fits_columns(sig, cols)
    scores[np.logical_not(fits)] = INFEASIBLE
    return scores


def local_rows(table: "NodeTable", sig: "Signature", static: "Static", rows: I64 | None) -> I16:
    """Scores of these rows of the table (None = all), static and port filters included."""
    cols = table.cols if rows is None else table.cols.take(rows, axis=1)
    scores = local_columns(sig, cols)
    if static.ok is not None:
        scores[np.logical_not(static.ok if rows is None else static.ok[rows])] = INFEASIBLE
    refused = PORTS.refuses(table, sig.ports)
    if refused is not None:
        scores[refused if rows is None else refused[rows]] = INFEASIBLE
    return scores


def score_node(sig: "Signature", node: OneNode) -> int:
    """Local score of one node; static filters are the caller's."""
    if not node.fits(sig):
        return INFEASIBLE
    score = LEAST_ALLOCATED.score(sig, node.values)
    if sig.best_effort:
        return score
    return score + BALANCED_ALLOCATION.score(sig, node.values)


class HeldNode:
    """One node with nominations: Filter sees them, Score does not, devices avoid them."""

    __slots__ = ("_filter", "_score")

    def __init__(self, table: "NodeTable", row: int, held: Held) -> None:
        self._score = OneNode(table, row)
        self._filter = OneNode(table, row)
        for nominated, mask in held.get(self._score.node_id, ()):
            self._filter.hold(nominated, mask)

    def add(self, sig: "Signature", mask: int) -> None:
        """One pod more."""
        self._score.add(sig, mask)
        self._filter.add(sig, mask)

    def pick_devices(self, sig: "Signature") -> int:
        """Device mask of the next pod."""
        return self._filter.pick_devices(sig)

    def score(self, sig: "Signature") -> int:
        """Local score, INFEASIBLE where the nominations leave no room."""
        score = score_node(sig, self._score)
        return score if self._filter.fits(sig) else min(score, INFEASIBLE)
