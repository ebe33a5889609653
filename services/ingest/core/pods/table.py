"""The table of live pods: uid -> slot, and numpy columns by slot.

Slots are reused, so memory follows the number of live pods and not of pods ever seen. A slot is an
encoding only: nothing that leaves the core depends on it.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.model.columns import I64, join, split

I32 = NDArray[np.int32]

COLUMNS: tuple[tuple[str, type[np.integer]], ...] = (
    ("ids", np.int64),
    ("revisions", np.int64),
    ("nodes", np.int32),
    ("sigs", np.int32),
    ("gangs", np.int32),
    ("labelsets", np.int32),
    ("marks", np.int32),
    ("gated", np.int8),
    ("is_published", np.int8),
    ("terminating", np.int8),
    ("started_s", np.uint32),
)
CAPACITY_MIN = 64


class PodTable:
    """The table. `ids` 0 marks a free slot. `nodes` holds the node's id, 0 if unassigned, and a
    negative number for a name without a known node; `is_published`: the pod was published as
    assigned. `started_s`: when the pod was started, seconds since the epoch, 0 if not yet;
    `any_started`: at least one was.
    """

    ids: I64
    revisions: I64
    nodes: I32
    sigs: I32
    gangs: I32
    labelsets: I32
    marks: I32
    gated: NDArray[np.int8]
    is_published: NDArray[np.int8]
    terminating: NDArray[np.int8]
    started_s: NDArray[np.uint32]

    def __init__(self) -> None:
        """Create an empty table."""
        self.slots: dict[str, int] = {}
        self.clear()

    def __len__(self) -> int:
        """Return the number of live pods."""
        return len(self.slots)

    def clear(self) -> None:
        """Remove all pods and shrink to the smallest size."""
        self.slots.clear()
        self.free: list[int] = []
        self.used = 0
        self.any_started = False
        for name, dtype in COLUMNS:
            setattr(self, name, np.zeros(CAPACITY_MIN, dtype))

    def _grow(self, capacity: int) -> None:
        for name, dtype in COLUMNS:
            grown = np.zeros(capacity, dtype)
            old = getattr(self, name)
            grown[: len(old)] = old
            setattr(self, name, grown)

    def allocate_one(self) -> int:
        """Return a free slot."""
        if self.free:
            return self.free.pop()
        if self.used == len(self.ids):
            self._grow(2 * self.used)
        self.used += 1
        return self.used - 1

    def allocate(self, uids: Sequence[str]) -> slice | I64:
        """Return slots for new pods, in the order of their uids: a slice if no slot is reused,
        which makes every column cheaper.
        """
        count = len(uids)
        reused = min(count, len(self.free))
        old = [self.free.pop() for _ in range(reused)]
        first = self.used
        self.used += count - reused
        if self.used > len(self.ids):
            self._grow(max(self.used, 2 * len(self.ids)))
        if not old:
            self.slots.update(zip(uids, range(first, self.used), strict=True))
            return slice(first, self.used)
        slots = [*old, *range(first, self.used)]
        self.slots.update(zip(uids, slots, strict=True))
        return np.array(slots, np.int64)

    def find(self, uids: Sequence[str]) -> I64:
        """Return the slots of uids, -1 for unknown ones."""
        return np.fromiter(map(self.slots.get, uids, repeat(-1)), np.int64, len(uids))

    def forget(self, slots: list[int]) -> None:
        """Free slots whose uids are already removed from `slots`."""
        self.ids[slots] = 0
        self.nodes[slots] = 0
        if self.any_started:
            self.started_s[slots] = 0
        self.free.extend(slots)
        if not self.slots:
            self.clear()

    def live(self) -> I64:
        """Return the slots of all live pods, by ascending id."""
        return self.by_id(np.flatnonzero(self.ids[: self.used]))

    def by_id(self, slots: I64) -> I64:
        """Return the slots in the order of their pods' ids."""
        return slots[np.argsort(self.ids[slots], kind="stable")]

    def uids(self) -> list[str]:
        """Return the uids of all live pods, by ascending id: mostly their order of arrival."""
        uids = list(self.slots)
        ids = self.ids[np.fromiter(self.slots.values(), np.int64, len(uids))]
        if np.count_nonzero(ids[1:] > ids[:-1]) == max(len(ids) - 1, 0):
            return uids
        return [uids[place] for place in np.argsort(ids, kind="stable").tolist()]

    def dump(self) -> list[Any]:
        """Return the live pods by ascending id: the joined uids and the columns."""
        slots = self.live()
        columns = [getattr(self, name)[slots].tobytes() for name, _dtype in COLUMNS]
        return [join(self.uids()), columns]

    @classmethod
    def load(cls, saved: list[Any]) -> "PodTable":
        """Restore what `dump` returned."""
        uids, columns = saved
        table = cls()
        slots = table.allocate(split(uids))
        for (name, dtype), column in zip(COLUMNS, columns, strict=True):
            getattr(table, name)[slots] = np.frombuffer(column, dtype)
        table.any_started = bool(table.started_s.any())
        return table

    def on_node(self, code: int) -> I64:
        """Return the slots of pods whose node column holds `code`, by ascending id."""
        slots = np.flatnonzero(self.nodes[: self.used] == code)
        return slots[np.argsort(self.ids[slots], kind="stable")]
