"""The images of a table's nodes: a column for each image that a signature names.

Columns are made when a score first needs them and kept up to date as nodes change; a cluster
without images, and a pod whose images no node has, cost one comparison. Not state: without them
every score is the same but slower.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from shared.model.columns import pack, unpack
from shared.model.images import number, size_bytes
from shared.model.objects import Node
from shared.scheduling.table.layout import I64

COLUMNS_MAX = 1_024


class Spread(NamedTuple):
    """The number of nodes of the whole cluster, and how many have an image, by image number."""

    nodes: int
    holders: dict[int, int]

    def dump(self) -> list[object]:
        """Return the nodes, and images and holders as columns."""
        images = sorted(self.holders)
        return [self.nodes, pack(images), pack([self.holders[one] for one in images])]

    @classmethod
    def load(cls, saved: tuple[int, bytes, bytes]) -> "Spread":
        """Restore what `dump` returned."""
        nodes, images, holders = saved
        return cls(nodes, dict(zip(unpack(images).tolist(), unpack(holders).tolist(), strict=True)))


class ImageColumn:
    """The size of one image on each node, -1 where missing; `here` nodes of the table have it."""

    __slots__ = ("here", "key", "number", "sizes", "version")

    def __init__(self, name: str, nodes: Sequence[Node], version: int) -> None:
        self.number = number(name)
        self.key = self.number.to_bytes(8, "little", signed=True)
        self.sizes = _sizes(nodes, self.key)
        self.here = int(np.count_nonzero(self.sizes >= 0))
        self.version = version


def _sizes(nodes: Sequence[Node], key: bytes) -> I64:
    return np.fromiter((size_bytes(node.images, key) for node in nodes), np.int64, len(nodes))


class Images:
    """The images of a table's nodes. `spread` None: the table has all nodes of the cluster."""

    def __init__(self) -> None:
        self.spread: Spread | None = None
        self._nodes: Sequence[Node] = ()
        self._are_any = False
        self._version = 1
        self._columns: dict[str, ImageColumn] = {}

    def grow(self, nodes: Sequence[Node]) -> None:
        """Add rows for these nodes at the end; `keep` must follow."""
        for column in self._columns.values():
            column.sizes = np.concatenate((column.sizes, _sizes(nodes, column.key)))

    def keep(self, order: I64, nodes: Sequence[Node]) -> None:
        """Reorder the rows: they become those of `order`, with these nodes."""
        self._nodes = nodes
        self._are_any = any(node.images for node in nodes)
        self._version += 1
        for column in self._columns.values():
            column.sizes = column.sizes[order]
            column.here = int(np.count_nonzero(column.sizes >= 0))
            column.version = self._version

    def changed(self, row: int, before: Node, node: Node) -> None:
        """Update a node's images; columns of unchanged images stay."""
        if before.images == node.images:
            return
        self._are_any = self._are_any or bool(node.images)
        self._version += 1
        for column in self._columns.values():
            size, old = size_bytes(node.images, column.key), int(column.sizes[row])
            if size != old:
                column.sizes[row] = size
                column.here += (size >= 0) - (old >= 0)
                column.version = self._version

    def set_spread(self, spread: Spread | None) -> None:
        """Set the present image counts of the cluster."""
        before, self.spread = self.spread, spread
        if spread is None or before is None or spread.nodes != before.nodes:
            self._forget()
            return
        self._version += 1
        for column in self._columns.values():
            if spread.holders.get(column.number) != before.holders.get(column.number):
                column.version = self._version

    def _forget(self) -> None:
        self._columns = {}
        self._version += 1

    def stamp(self, names: tuple[str, ...]) -> int:
        """Return a number that changes with the nodes' copies of these images; 0 while no node has
        any.
        """
        if not names or not self._are_any:
            return 0
        columns = [self.column(name) for name in names]
        if not any(column.here for column in columns):
            return 0
        return max(column.version for column in columns)

    def column(self, name: str) -> ImageColumn:
        """Return the column of one image."""
        found = self._columns.get(name)
        if found is None:
            if len(self._columns) >= COLUMNS_MAX:
                self._forget()
            found = self._columns[name] = ImageColumn(name, self._nodes, self._version)
        return found

    def share(self, column: ImageColumn) -> float:
        """Return the share of the cluster's nodes that have an image."""
        if self.spread is None:
            return column.here / len(self._nodes)
        # A node may arrive here before it is counted.
        nodes = max(self.spread.nodes, len(self._nodes))
        return self.spread.holders.get(column.number, 0) / nodes
