"""The changed rows of a table, for caches to refresh.

Not state: forgetting them costs work and never changes a result.
"""

import numpy as np

from shared.scheduling.table.layout import I64

KEPT_MAX = 65_536


def runs(rows: I64) -> I64:
    """Return where runs of one row start, and after them the length of the column (at least 1)."""
    changes = np.flatnonzero(rows[1:] != rows[:-1])
    bounds = np.empty(len(changes) + 2, np.int64)
    bounds[0], bounds[-1] = 0, len(rows)
    bounds[1:-1] = changes
    bounds[1:-1] += 1
    return bounds


class ChangeLog:
    """Rows in the order of their changes; only the last `KEPT_MAX` or so are kept."""

    def __init__(self) -> None:
        self.restarts = 0  # rises when rows are renumbered: earlier positions are void
        self.position = 0
        self._first = 0
        self._rows: I64 = np.zeros(1_024, np.int64)

    def append(self, rows: I64) -> None:
        """Note changed rows; consecutive repeats are noted once."""
        if len(rows) > 1:
            rows = rows[runs(rows)[:-1]]
        held = self.position - self._first
        if held + len(rows) > len(self._rows):
            held = self._make_space(held, len(rows))
        self._rows[held : held + len(rows)] = rows
        self.position += len(rows)

    def append_one(self, row: int) -> None:
        """Note a changed row."""
        held = self.position - self._first
        if held == len(self._rows):
            held = self._make_space(held, 1)
        self._rows[held] = row
        self.position += 1

    def _make_space(self, held: int, wanted: int) -> int:
        keep = min(held, KEPT_MAX // 2)
        size = len(self._rows)
        while size < keep + wanted or (size < KEPT_MAX and size < 2 * len(self._rows)):
            size *= 2
        if size > len(self._rows) and held + wanted <= size:
            keep = held
        grown = np.zeros(size, np.int64)
        grown[:keep] = self._rows[held - keep : held]
        self._rows = grown
        self._first = self.position - keep
        return keep

    def since(self, position: int) -> I64 | None:
        """Return the rows changed from `position` on (with repeats), None if that is no longer
        known.
        """
        if position < self._first:
            return None
        return self._rows[position - self._first : self.position - self._first]

    def restart(self) -> None:
        """Note that rows were renumbered."""
        self.restarts += 1
        self._first = self.position
