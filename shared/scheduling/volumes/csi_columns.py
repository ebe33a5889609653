"""The CSINodes of a table's nodes as columns: built once per driver, not for each pod with one of
its volumes.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from shared.model.cluster_objects import CSINode
from shared.model.objects import Node
from shared.scheduling.table.layout import I64, Mask
from shared.scheduling.volumes.migration import is_migrated

NO_LIMIT = -1


class CsiColumns:
    """Columns for the nodes of one table, whose `version` rises when they change."""

    def __init__(self, known: Mapping[str, CSINode]) -> None:
        """`known`: the present CSINodes by name."""
        self._known = known
        self._version = -1
        self._limits: dict[str, I64] = {}
        self._lowest: dict[str, int] = {}
        self._migrated: dict[str, Mask] = {}
        self._installed: dict[str, Mask] = {}
        self._present: Mask | None = None

    def forget(self) -> None:
        """Drop the columns after a change of a CSINode."""
        self._limits.clear()
        self._lowest.clear()
        self._migrated.clear()
        self._installed.clear()
        self._present = None

    def _at(self, version: int) -> None:
        if version != self._version:
            self.forget()
            self._version = version

    def limits(self, driver: str, nodes: Sequence[Node], version: int) -> I64:
        """Return the driver's volume limit of each node. Read-only for the caller."""
        self._at(version)
        column = self._limits.get(driver)
        if column is None:
            column = self._limits[driver] = np.full(len(nodes), NO_LIMIT, np.int64)
            for row, node in enumerate(nodes):
                known = self._known.get(node.name)
                for one in known.drivers if known is not None else ():
                    if one.name == driver and one.count is not None:
                        column[row] = one.count
            limited = column[column != NO_LIMIT]
            self._lowest[driver] = int(limited.min()) if len(limited) else NO_LIMIT
        return column

    def lowest(self, driver: str) -> int:
        """Return the lowest limit of any node, NO_LIMIT: none has one; `limits` must be called
        before.
        """
        return self._lowest[driver]

    def installed(self, driver: str, nodes: Sequence[Node], version: int) -> Mask:
        """Return the nodes that have a driver. Read-only for the caller."""
        self._at(version)
        mask = self._installed.get(driver)
        if mask is None:
            known = (self._known.get(node.name) for node in nodes)
            there = (any(one.name == driver for one in of.drivers) if of else False for of in known)
            mask = self._installed[driver] = np.fromiter(there, np.bool_, len(nodes))
        return mask

    def present(self, nodes: Sequence[Node], version: int) -> Mask:
        """Return the nodes that have a CSINode. Read-only for the caller."""
        self._at(version)
        if self._present is None:
            there = (node.name in self._known for node in nodes)
            self._present = np.fromiter(there, np.bool_, len(nodes))
        return self._present

    def migrated(self, kind: str, nodes: Sequence[Node], version: int) -> Mask:
        """Return the nodes where a driver has taken over volumes of this kind. Read-only for the
        caller.
        """
        self._at(version)
        mask = self._migrated.get(kind)
        if mask is None:
            there = (is_migrated(kind, self._known.get(node.name)) for node in nodes)
            mask = self._migrated[kind] = np.fromiter(there, np.bool_, len(nodes))
        return mask
