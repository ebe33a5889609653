"""Sums beyond float64's exact range, as Python integers beside the node table.

What nodes have is cut to what is exact (layout.py). Charges are not: any client may create pods
with a node's name, of any amount and number. Without this module such a pod would leave rounding
errors that depend on the order.
"""

from collections.abc import Iterable

LARGE = 2.0**38
"""Requests from here on are summed exactly: below it takes 32,768 pods on one node to exceed
float64's range (1,300 in ROOM, which only scores use).
"""
EXACT_MAX = 1 << 52


class OversizeSums:
    """The sums beyond 2^52 by node id and column; the columns hold the nearest float64."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        """Start without sums."""
        self.sums: dict[tuple[int, int], int] = {}

    def add(self, node_id: int, column: int, value: float, amount: int) -> float:
        """Return the new value of a column that has `value` now."""
        total = self.sums.pop((node_id, column), None)
        total = (int(value) if total is None else total) + amount
        if abs(total) > EXACT_MAX:
            self.sums[node_id, column] = total
        return float(total)

    def forget(self, node_ids: Iterable[int]) -> None:
        """Forget these nodes."""
        gone = frozenset(node_ids)
        self.sums = {key: total for key, total in self.sums.items() if key[0] not in gone}

    def copy(self) -> "OversizeSums":
        """Return an independent copy."""
        twin = OversizeSums()
        twin.sums = dict(self.sums)
        return twin
