"""A set of pod ids, for facts that eventually hold for nearly every pod (deleted, or on a node).

Ids are dense and never reused. The set never forgets, so it is kept in pages of PAGE ids, and a
page whose ids are all inside costs a number in a range: only pages with other ids remain. Other
kinds of ids may be in such a set, too.
"""

from bisect import bisect_right
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.model.columns import I64
from shared.model.ids import PodId

PAGE = 4096
Marks = NDArray[np.bool_]


class PodSet:
    """A set of ids from 0 up; an id not added is outside, however large."""

    def __init__(self) -> None:
        """Create an empty set."""
        self.partial: dict[int, Marks] = {}
        self._full: list[list[int]] = []  # ascending [first page, page after the last]

    def add(self, ids: I64) -> None:
        """Add ids, shape (n,)."""
        if not len(ids):
            return
        pages = ids // PAGE
        low, high = int(pages.min()), int(pages.max())
        if low == high:
            self._add(low, ids - low * PAGE)
            return
        for page in np.unique(pages).tolist():
            self._add(page, ids[pages == page] - page * PAGE)

    def _add(self, page: int, places: I64) -> None:
        marks = self.partial.get(page)
        if marks is None:
            if self._is_full(page):
                return
            marks = self.partial[page] = np.zeros(PAGE, np.bool_)
        marks[places] = True
        if marks.all():
            del self.partial[page]
            self._fill(page)

    def _fill(self, page: int) -> None:
        self._full.append([page, page + 1])
        self._full.sort()
        joined = self._full[:1]
        for first, end in self._full[1:]:
            if first == joined[-1][1]:
                joined[-1][1] = end
            else:
                joined.append([first, end])
        self._full = joined

    def _is_full(self, page: int) -> bool:
        at = bisect_right(self._full, page, key=itemgetter(0))
        return at > 0 and page < self._full[at - 1][1]

    def __contains__(self, pod: int) -> bool:
        page, place = divmod(pod, PAGE)
        marks = self.partial.get(page)
        return self._is_full(page) if marks is None else bool(marks[place])

    def outside(self, ids: list[PodId]) -> list[PodId]:
        """Return the ids that are not in the set, in the same order."""
        return [pod for pod in ids if pod not in self]

    def dump(self) -> Any:
        """Return canonical values: ranges of full pages, and (page, bits of eight ids a byte) of
        others.
        """
        return [
            [list(pages) for pages in self._full],
            [
                [page, np.packbits(marks, bitorder="little").tobytes()]
                for page, marks in sorted(self.partial.items())
            ],
        ]

    @classmethod
    def load(cls, body: Any) -> "PodSet":
        """Restore what `dump` returned. Older snapshots have the bits of all ids."""
        found = cls()
        if isinstance(body, bytes):
            found.add(np.flatnonzero(_marks(body)).astype(np.int64))
            return found
        full, partial = body
        found._full = [list(pages) for pages in full]
        found.partial = {page: _marks(bits) for page, bits in partial}
        return found


def _marks(bits: bytes) -> Marks:
    return np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").astype(np.bool_)
