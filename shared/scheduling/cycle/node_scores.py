"""The node-local half of a cycle over arrays: dynamic filters and local scores.

The result is one number per node: the sum of the local scores, or INFEASIBLE. one_node.py has the
same for one node in plain Python; the two agree bit by bit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared.scheduling.profile import BALANCED_ALLOCATION, LEAST_ALLOCATED, PORTS
from shared.scheduling.table.layout import F64, FREE, I64, INFEASIBLE, ROOM, Mask, Totals

if TYPE_CHECKING:
    from shared.scheduling.cycle.score_classes import StaticResult
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable


def fits_columns(sig: "Signature", cols: F64) -> Mask:
    """Return which gathered nodes pass the column filters."""
    span, floors = sig.floors
    fits: Mask = np.logical_and.reduce(cols[span] >= floors)
    return fits


def _scores(sig: "Signature", cols: F64, whole: bool, within: bool) -> Totals:
    if sig.scores is not None:
        return sig.scores.scores(cols)
    scores = LEAST_ALLOCATED.scores(sig, cols, whole, within)
    if not sig.best_effort:
        scores += BALANCED_ALLOCATION.scores(sig, cols, whole, within)
    return scores


def local_columns(sig: "Signature", cols: F64, whole: bool) -> Totals:
    """Return the scores of gathered nodes, INFEASIBLE where a column filter refuses; `whole`: every
    node has some cpu and some memory.
    """
    scores = _scores(sig, cols, whole, within=False)
    np.putmask(scores, ~fits_columns(sig, cols), INFEASIBLE)
    return scores


def full_row(
    table: "NodeTable", sig: "Signature", static_result: "StaticResult"
) -> tuple[Totals, int]:
    """Return the scores of all rows, static and port filters included, and the number of feasible
    nodes. Comparisons that no node can fail are skipped, and so are nodes that static filters
    refuse if these leave few.
    """
    few, bounds = static_result.few, table.lowest.of(table)
    cols = table.cols if few is None else table.cols.take(few, axis=1)
    refused: Mask | None = (
        None if static_result.ok is None or few is not None else ~static_result.ok
    )
    for column, amount in sig.checks:
        if bounds[column] < amount:
            table.lowest.missed()
            refused = _either(refused, cols[column] < amount)
    ports = PORTS.refuses(table, sig.checked_ports) if sig.checked_ports else None
    if ports is not None:
        refused = _either(refused, ports if few is None else ports[few])
    scores = _scores(sig, cols, table.whole, stays_within(sig, bounds))
    feasible = len(scores)
    if refused is not None:
        np.putmask(scores, refused, INFEASIBLE)
        feasible -= int(np.count_nonzero(refused))
    if few is None:
        return scores, feasible
    row = np.full(table.size, INFEASIBLE, scores.dtype)
    row[few] = scores
    return row, feasible


def stays_within(sig: "Signature", lowest: Sequence[float]) -> bool:
    """Return whether requests and non-zero requests stay within what is allocatable, with one more
    pod, on nodes whose columns are at least these.
    """
    return (
        lowest[FREE] >= sig.cpu
        and lowest[FREE + 1] >= sig.memory
        and lowest[ROOM] >= sig.room_cpu
        and lowest[ROOM + 1] >= sig.room_memory
    )


def _either(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one | other


def fits_rows(table: "NodeTable", sig: "Signature", rows: I64) -> Mask:
    """Return which rows pass the dynamic filters; the caller applies static filters."""
    fits = fits_columns(sig, table.cols.take(rows, axis=1))
    refused = PORTS.refuses(table, sig.checked_ports)
    return fits if refused is None else fits & ~refused[rows]


def local_rows(
    table: "NodeTable", sig: "Signature", static_result: "StaticResult", rows: I64
) -> Totals:
    """Return the scores of these rows, static and port filters included."""
    scores = local_columns(sig, table.cols.take(rows, axis=1), table.whole)
    if static_result.ok is not None:
        np.putmask(scores, ~static_result.ok[rows], INFEASIBLE)
    refused = PORTS.refuses(table, sig.checked_ports)
    if refused is not None:
        scores[refused[rows]] = INFEASIBLE
    return scores
