"""Lower bounds of a table's columns, so that a cycle over all nodes can skip comparisons.

A pod that requests less of a column than every node has need not be compared with it. Unless a
cluster is nearly full this holds for most pods and columns. Not state: a bound that is too low
costs work and never changes a result.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shared.scheduling.table.table import NodeTable

FEW_ROWS = 10  # up to this many rows, plain numbers are faster than arrays
MISSES_MAX = 64  # calls with a too low bound before the bounds are recomputed


class ColumnMinima:
    """Bounds by column; each is at most the least value of its column."""

    __slots__ = ("_bounds", "_misses", "_position", "_restarts")

    def __init__(self) -> None:
        self._bounds: list[float] = []
        self._misses = 0
        self._position = 0
        self._restarts = -1

    def missed(self) -> None:
        """Note that a bound was too low; it may be better now."""
        self._misses += 1

    def of(self, table: "NodeTable") -> Sequence[float]:
        """Return the bounds of the present columns, in their order."""
        changes = table.changes
        changed = changes.since(self._position)
        bounds = self._bounds
        if (
            changed is None
            or self._restarts != changes.restarts
            or len(bounds) != len(table.cols)
            or self._misses >= MISSES_MAX
        ):
            bounds = self._bounds = table.cols.min(axis=1, initial=np.inf).tolist()
            self._restarts, self._misses = changes.restarts, 0
        elif len(changed) > FEW_ROWS:
            least = table.cols.take(changed, axis=1).min(axis=1).tolist()
            bounds[:] = map(min, bounds, least)
        else:
            for row in changed.tolist():
                values = table.cols[:, row].tolist()
                # min() would be a call for each of them.
                bounds[:] = [a if a < b else b for a, b in zip(values, bounds, strict=True)]
        self._position = changes.position
        return bounds
