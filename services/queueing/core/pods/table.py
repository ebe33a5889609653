"""The table of pending pods: numpy columns by pod id, moved only along the legal transitions.

Row = id - base. Rows below base are pods whose story here is over; the base rises when the table
would otherwise grow. A column says something only while the pod's state gives it a meaning.
"""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from services.queueing.core.transitions import TRANSITIONS, Pod
from shared.model.columns import I64

ILLEGAL = -1
SMALL = 8  # up to so many pods, plain loops are cheaper than array calls
CAPACITY_MIN = 1_024
STATES = len(Pod)

Rows = slice | I64
Small = NDArray[np.int8]

EVENTS = sorted({event for _state, event in TRANSITIONS})
NEXT: dict[str, list[int]] = {
    event: [int(TRANSITIONS.get((state, event), ILLEGAL)) for state in Pod] for event in EVENTS
}
CODES = tuple(Pod)
NEXT_COLUMN: dict[str, Small] = {event: np.array(NEXT[event], np.int8) for event in EVENTS}

# name -> dtype of every column; `state` comes first.
COLUMNS: dict[str, type[np.generic]] = {
    "state": np.int8,
    "sig": np.int32,
    "gang": np.int32,
    "refusals": np.int16,
    "askable": np.int8,
    "attempt": np.int64,
    "until_ms": np.int64,
    "order_ms": np.int64,
    "seq": np.int64,
    "errors": np.int16,
}


def _ascend(ids: I64) -> bool:
    count = len(ids)
    return count <= 2 or int(np.count_nonzero(ids[1:] > ids[:-1])) == count - 1


def _cells_of(column: NDArray[Any]) -> memoryview:
    return memoryview(cast(Any, column))


HELD = -1
"""In place of errors: a permit plugin of a user refused the pod; see the module `held`."""


def backoff_ends(pods: "Pods", rows: Rows) -> I64:
    """By what pods in backoff are kept: twice the time of its end, plus 1 after an error or if it
    is held. Such a backoff is never cut short.
    """
    ends: I64 = pods.until_ms[rows] * 2 + (pods.errors[rows] != 0)
    return ends


class Pods:
    """`sig`, `gang`: what the pod belongs to. `refusals`: how often every shard refused it;
    `errors`: how often a try or a bind failed since.
    `askable`: no preemption asked since it was parked. `attempt`: the open attempt, or the one
    that left it over. `until_ms`: end of backoff. `order_ms`, `seq`: when and in which order it
    came, or failed last.
    """

    def __init__(self, base: int = 1, capacity: int = CAPACITY_MIN) -> None:
        """No pod from `base` on is known."""
        self.base = base
        self.top = base  # one above the highest id met
        self.counts = [0] * STATES
        self.state: Small = np.zeros(capacity, np.int8)
        self.sig: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.gang: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.refusals: NDArray[np.int16] = np.zeros(capacity, np.int16)
        self.askable: Small = np.zeros(capacity, np.int8)
        self.attempt: I64 = np.zeros(capacity, np.int64)
        self.until_ms: I64 = np.zeros(capacity, np.int64)
        self.order_ms: I64 = np.zeros(capacity, np.int64)
        self.seq: I64 = np.zeros(capacity, np.int64)
        self.errors: NDArray[np.int16] = np.zeros(capacity, np.int16)
        self._cells()

    def _cells(self) -> None:
        """The same memory for single reads and writes, which cost a tenth of an array's."""
        self.state_at = _cells_of(self.state)
        self.sig_at = _cells_of(self.sig)
        self.attempt_at = _cells_of(self.attempt)
        self.order_ms_at = _cells_of(self.order_ms)
        self.seq_at = _cells_of(self.seq)

    # ------------------------------------------------------------------ rows

    def cover(self, highest: int) -> None:
        """Make room for ids up to `highest`."""
        if highest < self.top:
            return
        if highest - self.base >= len(self.state):
            self._grow(highest)
        self.counts[0] += highest + 1 - self.top
        self.top = highest + 1

    def cover_next(self, ids: I64) -> bool:
        """Make room for pods none of which was met before, in a row: whether these are such."""
        first, count = int(ids[0]), len(ids)
        if first < self.top or int(ids[-1]) - first != count - 1 or not _ascend(ids):
            return False
        self.cover(first + count - 1)
        return True

    def settled(self) -> int:
        """How many rows from the base on have their story behind them."""
        used = self.state[: self.top - self.base]
        open_rows = used < Pod.BOUND
        first = int(open_rows.argmax()) if len(used) else 0
        return first if len(used) and open_rows[first] else len(used)

    def _grow(self, highest: int) -> None:
        shift = self.settled()
        used = self.top - self.base - shift
        capacity = len(self.state)
        while highest - self.base - shift >= capacity // 2:
            capacity *= 2
        for name, kind in COLUMNS.items():
            column = np.zeros(capacity, kind)
            column[:used] = getattr(self, name)[shift : shift + used]
            setattr(self, name, column)
        self.base += shift
        self._cells()

    def known(self, ids: I64) -> I64:
        """The ids whose story is not over and which the table covers."""
        if self.base > 1 and len(ids) and int(ids.min()) < self.base:
            ids = ids[ids >= self.base]
        return ids

    def rows(self, ids: I64) -> Rows:
        """Where covered ids lie: a slice when they follow each other, which is much cheaper."""
        count = len(ids)
        first = int(ids[0])
        if int(ids[-1]) - first != count - 1:
            return ids - self.base
        if not _ascend(ids):
            return ids - self.base
        return slice(first - self.base, first - self.base + count)

    def state_of(self, pod: int) -> Pod:
        """Its state; what lies below the base is over, what lies above the top unknown."""
        if pod < self.base:
            return Pod.GONE
        return CODES[self.state_at[pod - self.base]] if pod < self.top else CODES[0]

    # ------------------------------------------------------------------ moves

    def move(self, event: str, ids: I64, rows: Rows) -> None:
        """Apply `event` to all of these rows."""
        old = self.state[rows]
        first = int(old[0])
        counts = self.counts
        if np.count_nonzero(old == first) == len(old):
            new = NEXT[event][first]
            assert new != ILLEGAL, self.story(event, ids)
            self.state[rows] = new
            counts[first] -= len(old)
            counts[new] += len(old)
            return
        moved = NEXT_COLUMN[event][old]
        assert int(moved.min()) != ILLEGAL, self.story(event, ids)
        # Counted before the write, because `old` is a view where `rows` is a slice.
        gained, lost = np.bincount(moved, minlength=STATES), np.bincount(old, minlength=STATES)
        self.state[rows] = moved
        for state in range(STATES):
            counts[state] += int(gained[state]) - int(lost[state])

    def move_one(self, event: str, row: int) -> None:
        """Apply `event` to one row."""
        old = self.state_at[row]
        new = NEXT[event][old]
        assert new != ILLEGAL, self.story(event, np.array([row + self.base], np.int64))
        self.state_at[row] = new
        self.counts[old] -= 1
        self.counts[new] += 1

    def story(self, event: str, ids: I64) -> str:
        """What an assertion says about the first pod for which `event` is illegal."""
        for pod in ids.tolist():
            row = pod - self.base
            if NEXT[event][int(self.state[row])] == ILLEGAL:
                facts = {name: int(getattr(self, name)[row]) for name in COLUMNS}
                return f"pod {pod}: {event} in {Pod(facts['state']).name}: {facts}"
        return f"{event}: legal for all"

    def select(self, ids: I64, state: Pod, attempt: int | None = None) -> I64:
        """Those of `ids` that are in this state (and in this attempt)."""
        ids = self.known(ids)
        if not len(ids):
            return ids
        self.cover(int(ids.max()))
        rows = self.rows(ids)
        mask = self.state[rows] == int(state)  # a member of an enum costs microseconds here
        if attempt is not None:
            mask &= self.attempt[rows] == attempt
        return ids if np.count_nonzero(mask) == len(ids) else ids[mask]

    def in_state(self, state: Pod) -> I64:
        """All pods in this state, by id. Looks at the whole table."""
        used = self.state[: self.top - self.base]
        return (np.flatnonzero(used == state) + self.base).astype(np.int64)
