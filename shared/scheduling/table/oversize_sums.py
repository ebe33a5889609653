"""Sums that float64 does not hold, as Python integers beside the node table.

What nodes have is cut to what is exact (layout.py). What is charged to a node is not: anybody may
create pods with a node's name in them, of any amounts and in any number. Without this, what such a
pod leaves behind differs by some bytes from what was there before, and depends on the order.
"""

from collections.abc import Iterable

LARGE = 2.0**38
"""Requests from here on are added up exactly: below it takes 32,768 pods on one node to leave what
float64 holds (in ROOM, which is for scores alone, 1,300).
"""
EXACT_MAX = 1 << 52


class Beyond:
    """By node id and column the sums beyond 2^52; their columns hold the nearest float64."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        """None."""
        self.sums: dict[tuple[int, int], int] = {}

    def add(self, node_id: int, column: int, value: float, amount: int) -> float:
        """What a column becomes that holds `value`."""
        total = self.sums.pop((node_id, column), None)
        total = (int(value) if total is None else total) + amount
        if abs(total) > EXACT_MAX:
            self.sums[node_id, column] = total
        return float(total)

    def forget(self, node_ids: Iterable[int]) -> None:
        """These nodes are gone."""
        gone = frozenset(node_ids)
        self.sums = {key: total for key, total in self.sums.items() if key[0] not in gone}

    def copy(self) -> "Beyond":
        """An independent one with the same sums."""
        twin = Beyond()
        twin.sums = dict(self.sums)
        return twin
