"""A signature's queue of ready pods, oldest first; pods that left are skipped when met.

Ids and their order numbers lie in two growing buffers, so a batch is a slice: no object per pod
and no joining of small pieces. An entry counts while its pod is ready under the same number.
"""

from array import array
from collections.abc import Sequence

import numpy as np

from services.queueing.core.pods import Pods
from services.queueing.transitions import Pod
from shared.model.columns import I64

READY = int(Pod.READY)
COMPACT_MIN = 4_096
SCAN = 256


def view(values: "array[int]", start: int, stop: int) -> I64:
    """A copy of [start, stop) as an int64 array."""
    return np.frombuffer(values, np.int64, stop - start, start * 8).copy() if stop > start else NONE


NONE: I64 = np.empty(0, np.int64)


class Fifo:
    """`live` counts valid entries; the rest are left-overs of pods that went elsewhere."""

    __slots__ = ("head", "ids", "live", "seqs")

    def __init__(self) -> None:
        """Empty."""
        self.ids = array("q")
        self.seqs = array("q")
        self.head = 0
        self.live = 0

    def push(self, ids: bytes, seqs: bytes) -> None:
        """Append packed columns of equal length."""
        self.ids.frombytes(ids)
        self.seqs.frombytes(seqs)
        self.live += len(ids) >> 3

    def push_few(self, ids: Sequence[int], seq: int) -> None:
        """Append a few pods under order numbers from `seq` on."""
        self.ids.extend(ids)
        self.seqs.extend(range(seq, seq + len(ids)))
        self.live += len(ids)

    def _valid(self, pods: Pods, at: int) -> bool:
        row = self.ids[at] - pods.base
        return row >= 0 and pods.state_at[row] == READY and pods.seq_at[row] == self.seqs[at]

    def _mask(self, pods: Pods, ids: I64, seqs: I64) -> "np.ndarray[tuple[int], np.dtype[np.bool]]":
        rows = ids - pods.base
        known = rows >= 0
        rows = np.maximum(rows, 0)
        mask: np.ndarray[tuple[int], np.dtype[np.bool]] = (
            known & (pods.state[rows] == READY) & (pods.seq[rows] == seqs)
        )
        return mask

    def head_seq(self, pods: Pods) -> int:
        """Order number of the oldest pod; there must be one."""
        assert self.live > 0
        if len(self.ids) - self.head != self.live:
            self._skip(pods)
        return self.seqs[self.head]

    def first(self, pods: Pods) -> int:
        """The oldest pod."""
        self.head_seq(pods)
        return self.ids[self.head]

    def _skip(self, pods: Pods) -> None:
        """Move the head to the oldest valid entry."""
        while not self._valid(pods, self.head):
            stop = min(self.head + SCAN, len(self.ids))
            ids, seqs = view(self.ids, self.head, stop), view(self.seqs, self.head, stop)
            mask = self._mask(pods, ids, seqs)
            first = int(mask.argmax())
            self.head += first if mask[first] else len(mask)
        self._compact()

    def oldest(self, pods: Pods, count: int) -> tuple[I64, I64]:
        """The first `count` pods (or all) and their order numbers; takes nothing out."""
        self.head_seq(pods)
        count = min(count, self.live)
        if len(self.ids) - self.head == self.live:
            stop = self.head + count
            return view(self.ids, self.head, stop), view(self.seqs, self.head, stop)
        found_ids, found_seqs, found, at = [], [], 0, self.head
        while found < count:
            stop = min(at + max(count, SCAN), len(self.ids))
            ids, seqs = view(self.ids, at, stop), view(self.seqs, at, stop)
            mask = self._mask(pods, ids, seqs)
            found_ids.append(ids[mask])
            found_seqs.append(seqs[mask])
            found, at = found + len(found_ids[-1]), stop
        return np.concatenate(found_ids)[:count], np.concatenate(found_seqs)[:count]

    def left(self, count: int, from_head: bool) -> None:
        """`count` pods are no longer ready; `from_head` says that they are the oldest entries."""
        if from_head and len(self.ids) - self.head == self.live:
            self.head += count
        self.live -= count
        assert self.live >= 0
        self._compact()

    def _compact(self) -> None:
        if self.live == 0:
            self.ids, self.seqs, self.head = array("q"), array("q"), 0
        elif self.head > COMPACT_MIN and self.head * 2 > len(self.ids):
            del self.ids[: self.head]
            del self.seqs[: self.head]
            self.head = 0
