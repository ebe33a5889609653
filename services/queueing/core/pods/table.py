"""The table of pending pods: numpy columns by pod id, changed only along the legal transitions.

Row = id - base. Rows below base are finished pods; the base rises when the table would otherwise
grow. A column has a meaning only in certain states of the pod.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from services.queueing.core.transitions import TRANSITIONS, Pod
from shared.model.columns import I64
from shared.model.ids import AttemptId, GangId, PodId, SignatureId

ILLEGAL = -1
SMALL = 8  # up to this many pods, plain loops are faster than arrays
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


SAVED = tuple(name for name in COLUMNS if name != "state")


def open_rows(codes: Small) -> I64:
    """Return the rows of known pods that are not finished."""
    return np.flatnonzero((codes != Pod.UNKNOWN) & (codes < Pod.BOUND))


def _ascend(ids: I64) -> bool:
    count = len(ids)
    return count <= 2 or int(np.count_nonzero(ids[1:] > ids[:-1])) == count - 1


def _cells_of(column: NDArray[Any]) -> Any:
    return memoryview(cast(Any, column))


PERMIT_REJECTED = -1
"""Value in place of errors: a user's Permit plugin rejected the pod; see permit_rejections.py."""


def backoff_ends(pods: "Pods", rows: Rows) -> I64:
    """Return the bucket keys of pods in backoff: twice the end time, plus 1 after an error or a
    permit rejection. Such a backoff is never cut short.
    """
    ends: I64 = pods.until_ms[rows] * 2 + (pods.errors[rows] != 0)
    return ends


class Pods:
    """The table. `sig`, `gang`: the pod's signature and gang. `refusals`: how often every shard
    refused it. `errors`: failed tries or binds since. `askable`: preemption was not asked since it
    was parked. `attempt`: the open attempt, or the one that left it over. `until_ms`: end of
    backoff. `order_ms`, `seq`: time and order of its arrival or last failure. `watch` is called
    with pods and their new state.
    """

    def __init__(self, base: int = 1, capacity: int = CAPACITY_MIN) -> None:
        """Create a table that knows no pod from `base` on."""
        self.base = base
        self.top = base  # one above the highest known id
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
        self.watch: Callable[[Sequence[PodId], int], None] | None = None
        self._cells()

    def _cells(self) -> None:
        """Make memoryviews of the columns for single reads and writes, which cost a tenth of an
        array's.
        """
        self.state_at: memoryview = _cells_of(self.state)
        self.sig_at: memoryview[SignatureId] = _cells_of(self.sig)
        self.gang_at: memoryview[GangId] = _cells_of(self.gang)
        self.attempt_at: memoryview[AttemptId] = _cells_of(self.attempt)
        self.order_ms_at: memoryview = _cells_of(self.order_ms)
        self.seq_at: memoryview = _cells_of(self.seq)

    def dump(self) -> list[Any]:
        """Return the base, the top, the states, and the other columns of unfinished pods. Finished
        pods below the first unfinished one are left out.
        """
        first, stop = self.settled(), self.top - self.base
        codes = self.state[first:stop]
        rows = open_rows(codes)
        columns = [getattr(self, name)[first:stop][rows].tobytes() for name in SAVED]
        return [self.base + first, self.top, codes.tobytes(), *columns]

    @classmethod
    def load(cls, saved: list[Any]) -> "Pods":
        """Restore what `dump` returned."""
        base, top, states, *columns = saved
        codes = np.frombuffer(states, np.int8)
        capacity = CAPACITY_MIN
        while capacity < len(codes) * 2:
            capacity *= 2
        pods = cls(base, capacity)
        pods.top = top
        pods.state[: len(codes)] = codes
        rows = open_rows(codes)
        for name, column in zip(SAVED, columns, strict=True):
            getattr(pods, name)[rows] = np.frombuffer(column, COLUMNS[name])
        pods.counts = np.bincount(codes, minlength=STATES).tolist()
        assert len(codes) == top - base
        return pods

    # ------------------------------------------------------------------ rows

    def cover(self, highest: int) -> None:
        """Grow the table for ids up to `highest`."""
        if highest < self.top:
            return
        if highest - self.base >= len(self.state):
            self._grow(highest)
        self.counts[0] += highest + 1 - self.top
        self.top = highest + 1

    def cover_next(self, ids: I64) -> bool:
        """Grow the table for new pods with consecutive ids; return whether they are such."""
        first, count = int(ids[0]), len(ids)
        if first < self.top or int(ids[-1]) - first != count - 1 or not _ascend(ids):
            return False
        self.cover(first + count - 1)
        return True

    def settled(self) -> int:
        """Return how many rows from the base on are finished."""
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
        """Return the ids that the table covers and that are not finished."""
        if self.base > 1 and len(ids) and int(ids.min()) < self.base:
            ids = ids[ids >= self.base]
        return ids

    def rows(self, ids: I64) -> Rows:
        """Return the rows of covered ids: a slice if they are consecutive, which is much faster."""
        count = len(ids)
        first = int(ids[0])
        if int(ids[-1]) - first != count - 1:
            return ids - self.base
        if not _ascend(ids):
            return ids - self.base
        return slice(first - self.base, first - self.base + count)

    def state_of(self, pod: PodId) -> Pod:
        """Return the pod's state: finished below the base, unknown above the top."""
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
            if self.watch is not None:
                self.watch(ids.tolist(), new)
            return
        moved = NEXT_COLUMN[event][old]
        assert int(moved.min()) != ILLEGAL, self.story(event, ids)
        # Counted before the write: `old` is a view if `rows` is a slice.
        gained, lost = np.bincount(moved, minlength=STATES), np.bincount(old, minlength=STATES)
        self.state[rows] = moved
        for state in range(STATES):
            counts[state] += int(gained[state]) - int(lost[state])
            if self.watch is not None and gained[state]:
                self.watch(ids[moved == state].tolist(), state)

    def move_one(self, event: str, row: int) -> None:
        """Apply `event` to one row."""
        old = self.state_at[row]
        new = NEXT[event][old]
        assert new != ILLEGAL, self.story(event, np.array([row + self.base], np.int64))
        self.state_at[row] = new
        self.counts[old] -= 1
        self.counts[new] += 1
        if self.watch is not None:
            self.watch((PodId(row + self.base),), new)

    def story(self, event: str, ids: I64) -> str:
        """Return the text for assertions about the first pod for which `event` is illegal."""
        for pod in ids.tolist():
            row = pod - self.base
            if NEXT[event][int(self.state[row])] == ILLEGAL:
                facts = {name: int(getattr(self, name)[row]) for name in COLUMNS}
                return f"pod {pod}: {event} in {Pod(facts['state']).name}: {facts}"
        return f"{event}: legal for all"

    def select(self, ids: I64, state: Pod, attempt: AttemptId | None = None) -> I64:
        """Return those of `ids` that are in this state (and in this attempt)."""
        ids = self.known(ids)
        if not len(ids):
            return ids
        self.cover(int(ids.max()))
        rows = self.rows(ids)
        mask = self.state[rows] == int(state)  # an enum member costs microseconds here
        if attempt is not None:
            mask &= self.attempt[rows] == attempt
        return ids if np.count_nonzero(mask) == len(ids) else ids[mask]

    def in_state(self, state: Pod) -> I64:
        """Return all pods in this state, by id. Scans the whole table."""
        used = self.state[: self.top - self.base]
        return (np.flatnonzero(used == state) + self.base).astype(np.int64)
