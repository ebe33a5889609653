"""A set of pod ids as one dense column: for facts about very many pods (gone, assigned).

Ids are dense and never used twice, so a byte per pod ever met is small and needs no hashing. It
never forgets; it knows nothing of why a pod is in it. Other ids of that kind may be in one, too.
"""

import numpy as np
from numpy.typing import NDArray

from shared.model.columns import I64

GROWTH_MIN = 1024


class PodSet:
    """Ids from 0 up; anything not added is outside, however large."""

    def __init__(self) -> None:
        """Empty."""
        self._marks: NDArray[np.bool_] = np.zeros(GROWTH_MIN, np.bool_)

    def add(self, ids: I64) -> None:
        """Put ids, shape (n,), into the set."""
        if not len(ids):
            return
        top = int(ids.max())
        if top >= len(self._marks):
            grown = np.zeros(max(top + 1, 2 * len(self._marks)), np.bool_)
            grown[: len(self._marks)] = self._marks
            self._marks = grown
        self._marks[ids] = True

    def __contains__(self, pod: int) -> bool:
        return pod < len(self._marks) and bool(self._marks[pod])

    def outside(self, ids: list[int]) -> list[int]:
        """Those of the ids that are not in the set, in the same order."""
        return [pod for pod in ids if pod not in self]

    def dump(self) -> bytes:
        """Canonical bits: eight pods a byte, no zero byte at the end."""
        return np.packbits(self._marks, bitorder="little").tobytes().rstrip(b"\0")

    @classmethod
    def load(cls, bits: bytes) -> "PodSet":
        """Inverse of dump."""
        found = cls()
        marks = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little").astype(np.bool_)
        found.add(np.flatnonzero(marks).astype(np.int64))
        return found
