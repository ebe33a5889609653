"""A signature's queue of ready pods, oldest first; entries of pods that left are skipped.

Ids and order numbers lie in two growing buffers, so a batch is a slice: no object per pod and no
joining of small pieces. An entry is valid while its pod is ready under the same number and
signature. New pods are appended; pods that return with an old number are inserted.
"""

from array import array
from collections.abc import Sequence

import numpy as np

from services.queueing.core.pods.table import Pods
from services.queueing.core.transitions import Pod
from shared.model.columns import I64
from shared.model.ids import PodId, SignatureId

READY = int(Pod.READY)
COMPACT_MIN = 4_096
SCAN = 256


def view(values: "array[int]", start: int, stop: int) -> I64:
    """Return a copy of [start, stop) as an int64 array."""
    return np.frombuffer(values, np.int64, stop - start, start * 8).copy() if stop > start else NONE


NONE: I64 = np.empty(0, np.int64)


class Fifo:
    """The queue. `live` counts valid entries; the others are of pods that left."""

    __slots__ = ("head", "ids", "live", "seqs", "sig")

    def __init__(self, sig: SignatureId) -> None:
        """Create an empty queue."""
        self.sig = sig
        self.ids = array("q")
        self.seqs = array("q")
        self.head = 0
        self.live = 0

    def push(self, ids: bytes, seqs: bytes) -> None:
        """Append packed columns of equal length."""
        self.ids.frombytes(ids)
        self.seqs.frombytes(seqs)
        self.live += len(ids) >> 3

    def push_few(self, ids: Sequence[PodId], seq: int) -> None:
        """Append a few pods under order numbers from `seq` on."""
        self.ids.extend(ids)
        self.seqs.extend(range(seq, seq + len(ids)))
        self.live += len(ids)

    def insert(self, pods: Pods, ids: I64, seqs: I64) -> bool:
        """Insert pods, sorted by order number; return whether the head changed."""
        was_empty = not self.live
        if was_empty or int(seqs[0]) > self.seqs[-1]:
            self.push(ids.tobytes(), seqs.tobytes())
            return was_empty
        first = self.head_seq(pods)
        stop = len(self.ids)
        here, numbers = view(self.ids, self.head, stop), view(self.seqs, self.head, stop)
        stays = self._mask(pods, here, numbers) & ~np.isin(numbers, seqs)
        ids, seqs = np.concatenate((here[stays], ids)), np.concatenate((numbers[stays], seqs))
        order = seqs.argsort(kind="stable")
        assert int(np.count_nonzero(stays)) == self.live, f"signature {self.sig}: pods lost"
        self.ids, self.seqs, self.head, self.live = array("q"), array("q"), 0, 0
        self.push(ids[order].tobytes(), seqs[order].tobytes())
        return self.seqs[0] < first

    def _valid(self, pods: Pods, at: int) -> bool:
        row = self.ids[at] - pods.base
        if row < 0 or pods.state_at[row] != READY:
            return False
        return pods.seq_at[row] == self.seqs[at] and pods.sig_at[row] == self.sig

    def _mask(self, pods: Pods, ids: I64, seqs: I64) -> "np.ndarray[tuple[int], np.dtype[np.bool]]":
        rows = ids - pods.base
        known = rows >= 0
        rows = np.maximum(rows, 0)
        mask: np.ndarray[tuple[int], np.dtype[np.bool]] = (
            known
            & (pods.state[rows] == READY)
            & (pods.seq[rows] == seqs)
            & (pods.sig[rows] == self.sig)
        )
        return mask

    def head_seq(self, pods: Pods) -> int:
        """Return the order number of the oldest pod; there must be one."""
        assert self.live > 0
        if len(self.ids) - self.head != self.live:
            self._skip(pods)
        return self.seqs[self.head]

    def first(self, pods: Pods) -> int:
        """Return the oldest pod."""
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
        """Return the first `count` pods (or all) and their order numbers; removes none."""
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

    def remove_oldest(self, ids: bytes) -> None:
        """Remove dispatched pods: the oldest ones, unless an older release ordered them
        differently.
        """
        stop = self.head + (len(ids) >> 3)
        if len(self.ids) - self.head == self.live and self.ids[self.head : stop].tobytes() == ids:
            self.head = stop
        self.note_removed(len(ids) >> 3)

    def note_removed(self, count: int) -> None:
        """`count` pods are no longer ready."""
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
