"""The table of pods: rows by ascending id, numpy columns, and their names in chunks.

Ids are dense, so a row is usually the id minus the first one. When most rows belong to deleted
pods, the others are compacted and rows are found by bisection, so memory follows the live pods.
"""

from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.model.columns import I64, join, split, unpack
from shared.model.ids import NodeId, PodId

I32 = NDArray[np.int32]

NAMED = 1
MAYBE = 2
FACT = 4
DEAD = 8
NEEDED = 16
"""Flags of a row: its name is known; another POST of ours may be under way besides the present one;
it has a node for certain (`nodes`); it is deleted; its name may still be needed for a bind.
"""

COLUMNS: tuple[tuple[str, type[np.signedinteger]], ...] = (
    ("ids", np.int64),
    ("revisions", np.int64),
    ("effects", np.int64),
    ("nodes", np.int32),
    ("chunks", np.int32),
    ("places", np.int32),
    ("tries", np.int16),
    ("phases", np.int8),
    ("flags", np.int8),
)
SAVED = tuple(column for column in COLUMNS if column[0] not in ("chunks", "places"))
CAPACITY_MIN = 64
COMPACT_MIN = 4_096
CHUNK_PODS = 8_192
JOINING_PODS, GROWN_PODS = 8, 64


class Chunk:
    """Names of pods that arrived together or one after the other. They stay while the pods live
    (victims need them); the lists made of them go when no bind needs them.
    """

    __slots__ = ("_name_list", "_uid_list", "count", "live", "names", "namespace", "needed", "uids")

    def __init__(self, namespace: str, uids: str, names: str, count: int) -> None:
        """Create a chunk of `count` live pods."""
        self.namespace, self.uids, self.names = namespace, uids, names
        self.count = self.live = self.needed = count
        self._uid_list: list[str] | None = None
        self._name_list: list[str] | None = None

    def add(self, uids: str, names: str, count: int) -> int:
        """Append joined names of live pods; return the place of the first one."""
        self.uids += "\n" + uids
        self.names += "\n" + names
        if self._uid_list is not None:
            self._uid_list += split(uids)
        if self._name_list is not None:
            self._name_list += split(names)
        place = self.count
        self.count, self.live, self.needed = place + count, self.live + count, self.needed + count
        return place

    def uid_list(self) -> list[str]:
        """Return the uids by place."""
        if self._uid_list is None:
            self._uid_list = split(self.uids)
        return self._uid_list

    def name_list(self) -> list[str]:
        """Return the names by place."""
        if self._name_list is None:
            self._name_list = split(self.names)
        return self._name_list

    def uids_at(self, places: list[int]) -> str:
        """Return the joined uids of ascending places."""
        if len(places) == self.count:
            return self.uids
        return join(map(self.uid_list().__getitem__, places))

    def names_at(self, places: list[int]) -> str:
        """Return the joined names of ascending places."""
        if len(places) == self.count:
            return self.names
        return join(map(self.name_list().__getitem__, places))

    def release_names(self, count: int) -> None:
        """Note that `count` pods need no bind any more."""
        self.needed -= count
        assert self.needed >= 0, f"chunk: {self.needed} names needed"
        if self.needed == 0:
            self._name_list = self._uid_list = None


class BindTable:
    """The table. `last` is the highest id that has or had a row."""

    ids: I64
    revisions: I64
    effects: I64
    nodes: I32
    chunks: I32
    places: I32
    tries: NDArray[np.int16]
    phases: NDArray[np.int8]
    flags: NDArray[np.int8]

    def __init__(self, last: int = 0) -> None:
        """Create an empty table; ids up to `last` are deleted."""
        self.used = 0
        self.dead = 0
        self.last = last
        self.base = last + 1
        self.is_dense = True
        self.names: dict[int, Chunk] = {}
        self.next_chunk = 1
        for name, dtype in COLUMNS:
            setattr(self, name, np.zeros(CAPACITY_MIN, dtype))

    def extend(self, last: int) -> None:
        """Add rows for all ids up to `last`."""
        if last > self.last:
            self._append(np.arange(self.last + 1, last + 1), last)

    def follow(self, ids: I64) -> slice | None:
        """Add rows for pods that follow the last one without a gap and return them; None if they do
        not.
        """
        first, count = self.last + 1, len(ids)
        if count == 0 or ids.item(0) != first:
            return None
        fresh = np.arange(first, first + count)
        if np.count_nonzero(ids == fresh) < count:
            return None
        self._append(fresh, first + count - 1)
        return slice(self.used - count, self.used)

    def _append(self, ids: I64, last: int) -> None:
        used = self.used + len(ids)
        if used > len(self.ids):
            self._resize(max(used, 2 * len(self.ids)))
        self.ids[self.used : used] = ids
        if self.used == 0:
            self.base, self.is_dense = self.last + 1, True
        self.used, self.last = used, last

    def _resize(self, capacity: int) -> None:
        for name, dtype in COLUMNS:
            grown = np.zeros(capacity, dtype)
            grown[: self.used] = getattr(self, name)[: self.used]
            setattr(self, name, grown)

    def row(self, pod: PodId) -> int:
        """Return the row of one pod, -1 if deleted; unknown later ids get a row."""
        if pod > self.last:
            self.extend(pod)
        return self.find(pod)

    def find(self, pod: PodId) -> int:
        """Return the row of one pod, -1 if it has none; adds no row."""
        if pod > self.last:
            return -1
        if self.is_dense:
            row = pod - self.base
        else:
            row = int(np.searchsorted(self.ids[: self.used], pod))
            if row == self.used or self.ids[row] != pod:
                return -1
        return -1 if row < 0 or self.flags.item(row) & DEAD else row

    def pod_at(self, row: int) -> PodId:
        """Return the pod of a row."""
        return PodId(self.ids.item(row))

    def node_at(self, row: int) -> NodeId:
        """Return the node in a row."""
        return NodeId(self.nodes.item(row))

    def rows(self, ids: I64) -> I64:
        """Return the rows of pods, -1 for deleted ones; unknown later ids get a row."""
        if not len(ids):
            return ids
        self.extend(int(ids.max()))
        return self._found(ids)

    def find_all(self, ids: I64) -> I64:
        """Return the rows of the pods that have one; adds no row."""
        rows = self._found(ids[ids <= self.last])
        return rows[rows >= 0]

    def _found(self, ids: I64) -> I64:
        if self.is_dense:
            rows = ids - self.base
            found = rows >= 0
        else:
            rows = np.minimum(np.searchsorted(self.ids[: self.used], ids), max(self.used - 1, 0))
            found = self.ids[rows] == ids
        if not found.all():
            rows = np.where(found, rows, -1)
            found[found] = (self.flags[rows[found]] & DEAD) == 0
        else:
            found = (self.flags[rows] & DEAD) == 0
        return rows if found.all() else np.where(found, rows, -1)

    def name(self, rows: I64 | slice, namespace: str, uids: str, names: str, count: int) -> None:
        """Add the joined names of `count` new pods. A few pods join the newest chunk while it is
        small, as a dump walks the chunks.
        """
        if count > CHUNK_PODS:
            self.name_many(rows, namespace, split(uids), split(names))
            return
        newest = self.names.get(self.next_chunk - 1) if count <= JOINING_PODS else None
        place = 0
        if newest is not None and newest.count < GROWN_PODS and newest.namespace == namespace:
            place = newest.add(uids, names, count)
        else:
            self.names[self.next_chunk] = Chunk(namespace, uids, names, count)
            self.next_chunk += 1
        self.chunks[rows] = self.next_chunk - 1
        self.places[rows] = np.arange(place, place + count, dtype=np.int32)
        self.flags[rows] |= NAMED | NEEDED

    def name_many(
        self, rows: I64 | slice, namespace: str, uids: list[str], names: list[str]
    ) -> None:
        """Add the names of any number of pods, a chunk at a time."""
        at = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows
        for start in range(0, len(at), CHUNK_PODS):
            part = at[start : start + CHUNK_PODS]
            stop = start + len(part)
            self.name(part, namespace, join(uids[start:stop]), join(names[start:stop]), len(part))

    def name_one(self, row: int, namespace: str, uid: str, name: str) -> None:
        """Add the name of one pod, without arrays."""
        number, place = self.next_chunk - 1, 0
        newest = self.names.get(number)
        if newest is not None and newest.count < GROWN_PODS and newest.namespace == namespace:
            place = newest.add(uid, name, 1)
        else:
            number += 1
            self.next_chunk += 1
            self.names[number] = Chunk(namespace, uid, name, 1)
        self.chunks[row] = number
        self.places[row] = place
        self.flags[row] |= NAMED | NEEDED

    def release_name(self, row: int) -> None:
        """Note that no bind needs this pod's name any more."""
        flags = self.flags.item(row)
        if flags & NEEDED:
            self.flags[row] = flags & ~NEEDED
            self.names[self.chunks.item(row)].release_names(1)

    def release_names(self, rows: I64) -> None:
        """Note that no bind needs these pods' names any more."""
        needed = rows[(self.flags[rows] & NEEDED) != 0]
        if len(needed):
            self.flags[needed] &= ~NEEDED
            for number, count in _counted(self.chunks[needed]):
                self.names[number].release_names(count)

    def forget(self, rows: I64) -> None:
        """Delete these pods."""
        self.release_names(rows)
        named = rows[(self.flags[rows] & NAMED) != 0]
        for number, count in _counted(self.chunks[named]):
            chunk = self.names[number]
            chunk.live -= count
            if chunk.live == 0:
                del self.names[number]
        self.flags[rows] = DEAD
        self.phases[rows] = 0
        self.dead += len(rows)
        if self.dead > COMPACT_MIN and 2 * self.dead > self.used:
            self._compact()

    def _compact(self) -> None:
        kept = np.flatnonzero((self.flags[: self.used] & DEAD) == 0)
        for name, dtype in COLUMNS:
            column = np.zeros(max(CAPACITY_MIN, len(kept)), dtype)
            column[: len(kept)] = getattr(self, name)[kept]
            setattr(self, name, column)
        self.used, self.dead = len(kept), 0
        self._find_dense()

    def _find_dense(self) -> None:
        """Note whether rows can be found by subtraction: the ids have no gap up to `last`."""
        self.base = int(self.ids[0]) if self.used else self.last + 1
        self.is_dense = self.last - self.base == self.used - 1

    def live(self) -> I64:
        """Return the rows of all live pods, by ascending id."""
        return np.flatnonzero((self.flags[: self.used] & DEAD) == 0)

    def dump(self) -> list[Any]:
        """Return the live pods: the highest id, columns, (namespace, number of pods in a row), and
        the joined uids and names of named pods. Rows and chunks are private encodings.
        """
        rows = self.live()
        runs = self._runs(rows[(self.flags[rows] & NAMED) != 0])
        by_namespace = groupby(runs, key=lambda run: run[0].namespace)
        return [
            self.last,
            [getattr(self, name)[rows].tobytes() for name, _dtype in SAVED],
            [(name, sum(len(places) for _, places in part)) for name, part in by_namespace],
            join(chunk.uids_at(places) for chunk, places in runs),
            join(chunk.names_at(places) for chunk, places in runs),
        ]

    @classmethod
    def load(cls, saved: list[Any]) -> "BindTable":
        """Restore what `dump` returned."""
        last, columns, namespaces, uids, names = saved
        table = cls(last)
        table._resize(max(CAPACITY_MIN, len(unpack(columns[0]))))
        for (name, dtype), column in zip(SAVED, columns, strict=True):
            values = np.frombuffer(column, dtype)
            getattr(table, name)[: len(values)] = values
            table.used = len(values)
        table._find_dense()
        flags = table.flags[: table.used].copy()
        named = np.flatnonzero(flags & NAMED)
        uid_list, name_list, start = split(uids), split(names), 0
        for namespace, count in namespaces:
            stop = start + count
            table.name_many(
                named[start:stop], namespace, uid_list[start:stop], name_list[start:stop]
            )
            start = stop
        # Naming marked all of them as needed: unmark those that are not.
        table.release_names(named[(flags[named] & NEEDED) == 0])
        return table

    def _runs(self, rows: I64) -> list[tuple[Chunk, list[int]]]:
        """Return named rows as runs of one chunk with ascending places, which can be joined at
        once.
        """
        if not len(rows):
            return []
        chunks, places = self.chunks[rows], self.places[rows]
        breaks = np.flatnonzero((chunks[1:] != chunks[:-1]) | (places[1:] <= places[:-1])) + 1
        starts = [0, *breaks.tolist()]
        listed = places.tolist()
        return [
            (self.names[number], listed[start:stop])
            for number, start, stop in zip(
                chunks[starts].tolist(), starts, [*starts[1:], len(listed)], strict=True
            )
        ]


def _counted(numbers: I32) -> list[tuple[int, int]]:
    """Return the distinct chunk numbers with their counts."""
    if len(numbers) == 1:
        return [(int(numbers[0]), 1)]
    values, counts = np.unique(numbers, return_counts=True)
    return list(zip(values.tolist(), counts.tolist(), strict=True))
