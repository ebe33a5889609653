"""The nodes of one table by topology domain: by the values of several labels, the broadest first
(shared/model/groups/topology.py).
"""

from collections.abc import Sequence

import numpy as np

from shared.model.groups.topology import REST, Path
from shared.scheduling.table.labels import LabelColumn
from shared.scheduling.table.layout import I64, Mask

NO_ROWS = np.zeros(0, np.int64)


class LevelDomains:
    """The domains of the narrowest level, by path, and sums over them. Nodes without one of the
    labels are in none; the whole cluster and the rest have them.
    """

    def __init__(self, columns: Sequence[LabelColumn], nodes: int) -> None:
        """`columns`: one for each level, with a code for each of the `nodes`."""
        there = np.logical_and.reduce([column.present() for column in columns])
        rows = np.flatnonzero(there)
        numbers = np.zeros(len(rows), np.int64)
        for column in columns:
            numbers = numbers * column.width + column.codes[rows]
        distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        values = [list(column.values) for column in columns]
        found = [column.codes[rows[first]].tolist() for column in columns]
        paths = [tuple(map(list.__getitem__, values, codes)) for codes in zip(*found, strict=True)]
        order = sorted(range(len(distinct)), key=paths.__getitem__)
        place = np.empty(len(distinct), np.int64)
        place[order] = np.arange(len(distinct))
        self.paths: list[Path] = [paths[at] for at in order]
        self._of = np.full(nodes, -1, np.int64)  # by row: the place of its path
        self._of[rows] = place[inverse]
        self._rows = rows[place[inverse].argsort(kind="stable")]
        counts = np.bincount(place[inverse], minlength=len(distinct))
        self._starts = np.cumsum(counts) - counts
        self._masks: dict[Path, Mask] = {(): np.ones(nodes, np.bool_), REST: self._of < 0}

    def sums(self, column: I64) -> I64:
        """Return the sum over each domain, parallel to `paths`."""
        if not self.paths:
            return NO_ROWS
        return np.add.reduceat(column[self._rows], self._starts)

    def upto(self, depth: int) -> list[Path]:
        """Return the paths of the `depth` broadest levels, ascending; depth 0: the empty path."""
        return list(dict.fromkeys(path[:depth] for path in self.paths)) if depth else [()]

    def within(self, path: Path) -> Mask:
        """Return the nodes of a domain of any level; of the empty path all nodes."""
        found = self._masks.get(path)
        if found is None:
            chosen = np.array([one[: len(path)] == path for one in self.paths] + [False], np.bool_)
            found = self._masks[path] = chosen[self._of]
        return found

    def path_of(self, row: int) -> Path:
        """Return the path of a node's domain; empty if it is in none."""
        at = int(self._of[row])
        return self.paths[at] if at >= 0 else ()
