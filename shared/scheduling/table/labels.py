"""One label of all nodes as a column of codes, so that a requirement is a comparison of integers.

Nodes are not grouped by their labels: kubernetes.io/hostname alone would make every node a group.
"""

from collections.abc import Sequence

import numpy as np

from shared.scheduling.table.layout import I32, I64, Mask

ABSENT = -1
DIGITS_MAX = 63  # of a label's value


class LabelColumn:
    """Codes, shape (n,), and their distinct values."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self.values: dict[str, int] = {}
        self.codes: I32 = np.full(len(values), ABSENT, np.int32)
        self._slots: I64 | None = None
        for row, value in enumerate(values):
            if value is not None:
                self.codes[row] = self.values.setdefault(value, len(self.values))

    @property
    def slots(self) -> I64:
        """Return codes from 1 on, 0 where the label is absent: places in a sum by domain."""
        if self._slots is None:
            self._slots = self.codes.astype(np.int64) + 1
        return self._slots

    @property
    def width(self) -> int:
        """Return the number of places that `slots` needs."""
        return len(self.values) + 1

    def present(self) -> Mask:
        """Return the nodes that have the label."""
        return self.codes >= 0

    def among(self, values: Sequence[str]) -> Mask:
        """Return the nodes whose value is one of these."""
        codes = [self.values[value] for value in values if value in self.values]
        if len(codes) == 1:
            same: Mask = self.codes == codes[0]
            return same
        chosen: Mask = np.zeros(len(self.values) + 1, np.bool_)  # the last entry is ABSENT's
        chosen[codes] = True
        return chosen[self.codes]

    def compared(self, bound: int, greater: bool) -> Mask:
        """Return the nodes whose value is an integer above (or below) the bound."""
        chosen = np.zeros(len(self.values) + 1, np.bool_)
        for value, code in self.values.items():
            number = integer(value)
            if number is not None:
                chosen[code] = number > bound if greater else number < bound
        return chosen[self.codes]


def integer(text: str) -> int | None:
    """Return the value as Go's strconv.ParseInt(text, 10, 64) reads it, None if that fails."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > DIGITS_MAX:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None
