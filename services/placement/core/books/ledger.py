"""The pod ledger: one row of columns per pod, found by arithmetic (row = id - base).

Ids are dense and ascend, so arrays that grow by doubling are index and table in one; a million pods
cost 33 MB and no objects. The ledger holds facts about pods. Free amounts of nodes are derived from
it (see charges.py), and this module knows no nodes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.placement.core.transitions import CHARGED, ILLEGAL, NEXT, VICTIMS, State
from shared.model.columns import I64, pack, unpack
from shared.model.ids import NodeId, PodId, SignatureId

I8 = NDArray[np.int8]
Mask = NDArray[np.bool_]

ROWS_MIN = 1024
UNSTARTED_MS = 1 << 52
"""Added to the arrival time of a pod without a startTime: it counts as started after all pods that
have one, as kube-scheduler uses the present time for its start.
"""
FEW = 4  # up to this many pods, plain Python is faster than arrays

IS_CHARGED: Mask = np.isin(np.arange(len(State)), CHARGED)
IS_VICTIM: Mask = np.isin(np.arange(len(State)), VICTIMS)

NEXT_OF: dict[str, list[int]] = {event: column.tolist() for event, column in NEXT.items()}

_COLUMNS: dict[str, type] = {
    "kind": np.int8,
    "node": np.int32,
    "sig": np.int32,
    "devices": np.int64,
    "start_ms": np.int64,
    "budget": np.int32,
    "latest_sig": np.int32,
}


class Ledger:
    """Columns over pod ids `base .. base + len(kind)`; a row of zeros is a pod not here."""

    def __init__(self) -> None:
        """Create an empty ledger, from id 1."""
        self.base = 1
        self.kind: I8 = np.zeros(ROWS_MIN, np.int8)
        self.node: NDArray[np.int32] = np.zeros(ROWS_MIN, np.int32)
        self.sig: NDArray[np.int32] = np.zeros(ROWS_MIN, np.int32)
        self.devices: I64 = np.zeros(ROWS_MIN, np.int64)
        self.start_ms: I64 = np.zeros(ROWS_MIN, np.int64)
        self.budget: NDArray[np.int32] = np.zeros(ROWS_MIN, np.int32)
        self.latest_sig: NDArray[np.int32] = np.zeros(ROWS_MIN, np.int32)

    def rows(self, ids: I64) -> I64:
        """Return the rows of pods, shape (n,); the columns grow to hold them."""
        if len(ids) == 1:
            low = high = int(ids[0])
        elif len(ids):
            low, high = int(ids.min()), int(ids.max())
        else:
            return ids
        if low < self.base or high >= self.base + len(self.kind):
            self._reshape(low, high)
        return ids - self.base

    def row(self, pod: PodId) -> int:
        """Return the row of one pod; the columns grow to hold it."""
        if not self.base <= pod < self.base + len(self.kind):
            self._reshape(pod, pod)
        return pod - self.base

    def kind_of(self, pod: PodId) -> State:
        """Return the state of one pod."""
        row = pod - self.base
        return State(int(self.kind[row])) if 0 <= row < len(self.kind) else State.FREE

    def placed_row(self, pod: PodId, node: NodeId) -> int | None:
        """Return the row of a pod charged to this node, else None."""
        row = pod - self.base
        if not 0 <= row < len(self.kind) or not IS_CHARGED[self.kind[row]]:
            return None
        return row if int(self.node[row]) == node else None

    def pod_at(self, row: int) -> PodId:
        """Return the pod of a row."""
        return PodId(row + self.base)

    def node_at(self, row: int) -> NodeId:
        """Return the node in a row."""
        return NodeId(self.node.item(row))

    def sig_at(self, row: int) -> SignatureId:
        """Return the signature in a row."""
        return SignatureId(self.sig.item(row))

    def ids(self, rows: I64) -> I64:
        """Return the pod ids of rows."""
        return rows + self.base

    def advance(self, rows: I64, event: str) -> I8:
        """Apply an event to rows and return the states before. Raises AssertionError
        with a story.
        """
        before = self.kind[rows]
        after = NEXT[event][before]
        if len(after) and (after.min() if len(after) > 1 else after[0]) == ILLEGAL:
            worst = int(np.argmin(after))
            raise AssertionError(self.story(self.pod_at(int(rows[worst])), event))
        self.kind[rows] = after
        return before

    def advance_one(self, row: int, event: str) -> int:
        """`advance` for one row."""
        before = int(self.kind[row])
        after = NEXT_OF[event][before]
        if after == ILLEGAL:
            raise AssertionError(self.story(self.pod_at(row), event))
        self.kind[row] = after
        return before

    def story(self, pod: PodId, event: str) -> str:
        """Return one line about a pod that explains why `event` was illegal."""
        row = self.row(pod)
        state = State(int(self.kind[row]))
        return (
            f"pod {pod} is {state.name} (sig {self.sig[row]}, node {self.node[row]}, "
            f"since {self.start_ms[row]} ms): {event} is not a legal transition"
        )

    def write(
        self, rows: I64, sig: SignatureId | I64, nodes: I64, devices: int | I64, now_ms: int
    ) -> None:
        """Write signature, node, device mask and start of pods that take their places."""
        self.sig[rows] = sig
        self.node[rows] = nodes
        self.devices[rows] = devices
        self.start_ms[rows] = now_ms

    def write_one(
        self, row: int, sig: SignatureId, node: NodeId, devices: int, now_ms: int
    ) -> None:
        """`write` for one row."""
        self.sig[row] = sig
        self.node[row] = node
        self.devices[row] = devices
        self.start_ms[row] = now_ms

    def clear(self, rows: I64) -> None:
        """Clear place and charge, but keep budget and latest signature: the pod lives on."""
        self.sig[rows] = 0
        self.node[rows] = 0
        self.devices[rows] = 0
        self.start_ms[rows] = 0

    def dump(self) -> list[Any]:
        """Return the ids in use and their columns. Queued and remembered pods are in other parts of
        the state.
        """
        rows = self.live()
        elsewhere = np.isin(self.kind[rows], (State.QUEUED, State.GONE))
        rows = rows[~elsewhere | (self.budget[rows] != 0) | (self.latest_sig[rows] != 0)]
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        columns["kind"][np.isin(columns["kind"], (State.QUEUED, State.GONE))] = 0
        return [pack(self.ids(rows)), *(column.tobytes() for column in columns.values())]

    @classmethod
    def load(cls, saved: list[Any]) -> "Ledger":
        """Restore what `dump` returned."""
        ids, *columns = saved
        ledger = cls()
        rows = ledger.rows(unpack(ids))
        for (name, dtype), column in zip(_COLUMNS.items(), columns, strict=True):
            getattr(ledger, name)[rows] = np.frombuffer(column, dtype)
        return ledger

    def live(self) -> I64:
        """Return the rows in use, ascending."""
        return np.flatnonzero((self.kind != 0) | (self.budget != 0) | (self.latest_sig != 0))

    def charged(self) -> I64:
        """Return the rows whose pods are charged to a node, ascending."""
        return np.flatnonzero(IS_CHARGED[self.kind])

    def _reshape(self, low: int, high: int) -> None:
        """Move the window so that it holds [low, high] and every live row; it may drop
        unused ends.
        """
        live = self.live()
        if len(live):
            low = min(low, int(live[0]) + self.base)
            high = max(high, int(live[-1]) + self.base)
        if low < self.base:
            low = max(1, low - (high - low) // 8)
        size = ROWS_MIN
        while size < (high - low + 1) * 5 // 4:
            size *= 2
        old = live + self.base - low
        for name, kind in _COLUMNS.items():
            column: NDArray[Any] = np.zeros(size, kind)
            column[old] = getattr(self, name)[live]
            setattr(self, name, column)
        self.base = low


def groups(values: NDArray[np.integer]) -> Iterator[tuple[Any, I64]]:
    """Yield (value, its positions in order) for each distinct value, ascending."""
    if not len(values):
        return
    first = int(values[0])
    if len(values) == 1 or bool((values == first).all()):
        yield first, np.arange(len(values))
        return
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    cuts = np.flatnonzero(sorted_values[1:] != sorted_values[:-1]) + 1
    for part in np.split(order, cuts):
        yield int(values[part[0]]), part
