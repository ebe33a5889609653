"""The results of placements; types only."""

from typing import NamedTuple

from shared.scheduling.table.layout import I64, Totals


class Pick(NamedTuple):
    """One placement: row, weighted total, device mask; `feasible` and `runner_up` as in Picks."""

    row: int
    total: int
    mask: int
    feasible: int
    runner_up: int


class Picks(NamedTuple):
    """m <= k placements in decision order: rows, weighted totals and device masks, shape (m,).

    `feasible` counts nodes before the first pick; `runner_up` is the best total among the other
    nodes then, -1 if there is none. A total is given even if only one node was feasible.
    """

    rows: I64
    totals: Totals
    masks: I64
    feasible: int
    runner_up: int


class Sampled(NamedTuple):
    """One placement by a search that may end early; None: no node fits. Rows `found` fit the pod
    and were among those `looked_at`, both in search order; the next search starts `examined` nodes
    later.
    """

    pick: Pick | None
    found: I64
    looked_at: I64
    examined: int


class Reasons(NamedTuple):
    """Why no node fits a pod: (message, nodes) sorted by message as strings, and how many nodes
    could fit it if pods were removed.
    """

    messages: tuple[tuple[str, int], ...]
    resolvable: int
