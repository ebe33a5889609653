"""Sums over topology domains: nodes with the same value of a label."""

from collections.abc import Iterator, Sequence
from copy import copy

import numpy as np

from shared.scheduling.table.counters import Counts
from shared.scheduling.table.labels import LabelColumn
from shared.scheduling.table.layout import I32, I64, Mask


class Domains:
    """The domains of one topology key on one table. Nodes without the label are in none; sums by
    domain have 0 for them, at place 0.
    """

    __slots__ = ("_codes", "absent", "alone", "anywhere", "counted", "place", "width")

    def __init__(
        self, column: LabelColumn, counted: Mask | None = None, *, absent_is_empty: bool = False
    ) -> None:
        """`counted`: the nodes whose pods enter the sums, None: all. `absent_is_empty`: nodes
        without the label share the domain of nodes with an empty value.
        """
        self._codes = column.values
        self.place = column.slots
        self.width = column.width
        self.absent: Mask = self.place == 0
        if absent_is_empty and "" in column.values:
            self.place = np.where(self.absent, column.values[""] + 1, self.place)
        self.counted = self.place if counted is None else np.where(counted, self.place, 0)
        self.anywhere = not self.absent.any()  # every node is in a domain
        # No two nodes share a domain, as with hostnames: each is its own sum.
        self.alone = self.width == len(self.place) + 1 and self.anywhere and counted is None

    def columns(self) -> Iterator[I64 | Mask]:
        """Yield what tells nodes apart, shape (n,) each."""
        yield self.place
        yield self.absent
        if self.counted is not self.place:
            yield self.counted == self.place

    def among(self, rows: I64) -> "Domains":
        """Return the same domains with these nodes only."""
        found = copy(self)
        found.place, found.absent = self.place[rows], self.absent[rows]
        found.counted = self.counted[rows]
        return found

    def sums(self, counts: I32) -> I64:
        """Return the sum of the counted nodes of each domain, shape (width,)."""
        found = np.bincount(self.counted, counts, self.width).astype(np.int64)
        found[0] = 0
        return found

    def by_node(self, counts: Counts, at: int) -> I64 | I32:
        """Return the sum of each node's domain, shape (n,); 0 for nodes in none."""
        if self.alone:
            return counts.each(at)
        found: I64 = self.sums(counts.row(at))[self.place]
        return found

    def there(self) -> Mask:
        """Return the domains with a counted node, shape (width,)."""
        found: Mask = np.bincount(self.counted, minlength=self.width) > 0
        found[0] = False
        return found

    def place_of(self, value: str) -> int:
        """Return the place of a value in sums; 0 if no node of the table has it."""
        return self._codes.get(value, -1) + 1

    def of_values(self, values: Sequence[tuple[str, int]]) -> I64:
        """Return the counts of values that nodes of the table have, shape (width,)."""
        found = np.zeros(self.width, np.int64)
        for value, count in values:
            found[self.place_of(value)] += count
        found[0] = 0
        return found

    def values(self, sums: I64, there: Mask | None = None) -> tuple[tuple[str, int], ...]:
        """Return the sums that are not 0, and those of the domains `there`, by value."""
        chosen = sums != 0 if there is None else (sums != 0) | there
        return tuple(
            (value, int(sums[code + 1]))
            for value, code in sorted(self._codes.items())
            if chosen[code + 1]
        )
