"""NodeVolumeLimits: the limit of attached volumes of each CSI driver on a node, and the nodes
without a driver that must be there.
"""

from collections.abc import Iterator

import numpy as np

from shared.model.objects import PodSpec
from shared.model.volumes import ClaimUse
from shared.scheduling.table.counters import Counts
from shared.scheduling.table.layout import I64, Mask
from shared.scheduling.table.table import NodeTable
from shared.scheduling.volumes.csi_columns import NO_LIMIT
from shared.scheduling.volumes.migration import DRIVERS_BY_NODE
from shared.scheduling.volumes.storage import Attached
from shared.scheduling.volumes.volume_uses import AttachedColumns

NAME = "NodeVolumeLimits"
EXCEEDED = "node(s) exceed max volume count"
NOT_INSTALLED = "CSI driver is not installed on the node"
"""After the name of the driver."""


class NodeVolumeLimits:
    """The rule for one pod."""

    def __init__(self, table: NodeTable, spec: PodSpec, needs_drivers: bool = False) -> None:
        """`needs_drivers`: drivers may keep pods with their volumes off nodes without them."""
        self._table = table
        self.missing = self._missing(spec)
        found = (table.storage.attached(spec.namespace, one) for one in spec.volumes)
        # By driver, the pod's volumes, each with the nodes where it counts; None: everywhere.
        self._new: dict[str, dict[Attached, Mask | None]] = {}
        for volume in dict.fromkeys(one for one in found if one is not None):
            self._add(volume)
        self._lacking = self._lacking_drivers(spec) if needs_drivers else {}
        csi, where = table.storage.csi, (table.nodes, table.static_version)
        limits = {driver: csi.limits(driver, *where) for driver in self._new}
        self._limited = {
            driver: column for driver, column in limits.items() if csi.lowest(driver) != NO_LIMIT
        }

    def _add(self, volume: Attached) -> None:
        driver, where = DRIVERS_BY_NODE.get(volume[0]), None
        if driver is not None:
            table, volume = self._table, (driver, volume[1])
            where = table.storage.with_portworx(table.nodes, table.static_version)
        new = self._new.setdefault(volume[0], {})
        new[volume] = None if volume in new else where

    @property
    def apply(self) -> bool:
        """Return whether a node has a limit for the pod's volumes, or lacks a driver."""
        return bool(self.missing or self._limited or self._lacking)

    def _lacking_drivers(self, spec: PodSpec) -> dict[str, Mask]:
        """Return the drivers that must be there, with the nodes that lack them."""
        table, storage = self._table, self._table.storage
        csi, at = storage.csi, (table.nodes, table.static_version)
        found: dict[str, Mask] = {}
        for one in spec.volumes:
            attached = storage.attached(spec.namespace, one)
            driver = "" if attached is None else DRIVERS_BY_NODE.get(attached[0], attached[0])
            known = storage.drivers.get(driver)
            if known is None or not known.is_needed:
                continue
            lacking = ~csi.installed(driver, *at)
            if attached is not None and attached[0] in DRIVERS_BY_NODE:
                lacking &= storage.with_portworx(*at)
            elif storage.is_in_tree(spec.namespace, one):
                lacking &= csi.present(*at)  # without a CSINode no driver has taken over
            found[driver] = found.get(driver, False) | lacking
        return {driver: found[driver] for driver in sorted(found) if found[driver].any()}

    def _missing(self, spec: PodSpec) -> str | None:
        """Return the message about a missing claim that no earlier plugin has reported."""
        for one in spec.volumes:
            if isinstance(one, ClaimUse) and not self._table.storage.claim_of(spec.namespace, one):
                what = f'persistentvolumeclaim "{one.name}" not found'
                return f"looking up PVC {spec.namespace}/{one.name}: {what}"
        return None

    def refusals(self, counts: Counts) -> Iterator[tuple[str, Mask, bool]]:
        """Yield the nodes with too many volumes: (message, nodes, resolvable)."""
        if self.missing:
            yield self.missing, np.ones(counts.nodes, np.bool_), False
            return
        lacking = np.zeros(counts.nodes, np.bool_)
        for driver, mask in self._lacking.items():
            yield f"{driver} {NOT_INSTALLED}", mask & ~lacking, True
            lacking |= mask
        refused = np.zeros(counts.nodes, np.bool_)
        for driver, limits in self._limited.items():
            if self._has_room(counts, driver, limits):
                continue
            used, here = self._attached(counts, driver)
            more = self._asked(driver) - here
            refused |= (limits != NO_LIMIT) & (more > 0) & (used + more > limits)
        yield EXCEEDED, refused & ~lacking, True

    def _has_room(self, counts: Counts, driver: str, limits: I64) -> bool:
        """Return whether every node has room for all of the pod's volumes, whatever is attached."""
        if counts.changed_uses():
            return False
        used, new = self._columns(counts).count(driver), len(self._new[driver])
        if int(used.max(initial=0)) + new <= self._table.storage.csi.lowest(driver):
            return True
        most = used + new
        return not ((most > limits) & (limits != NO_LIMIT)).any()

    def _asked(self, driver: str) -> I64:
        """Return how many of the pod's volumes count on each node."""
        asked = np.zeros(len(self._table.nodes), np.int64)
        for where in self._new[driver].values():
            asked += 1 if where is None else where
        return asked

    def _columns(self, counts: Counts) -> AttachedColumns:
        table = self._table
        return counts.volumes.attached(table.storage, table.nodes, table.static_version)

    def _attached(self, counts: Counts, driver: str) -> tuple[I64, I64]:
        """Return the volumes of a driver on each node, and how many of the pod's own are in use
        there already.
        """
        columns, new = self._columns(counts), self._new[driver]
        used, here = columns.count(driver).copy(), np.zeros(counts.nodes, np.int64)
        for volume, where in new.items():
            rows = sorted(columns.rows(volume))
            here[rows] += 1 if where is None else where[rows]
        for row in counts.changed_uses():
            by_pods, everything = columns.of(row, counts.uses(row))
            used[row] = sum(one[0] == driver for one in everything)
            mine = (where for volume, where in new.items() if volume in by_pods)
            here[row] = sum(where is None or bool(where[row]) for where in mine)
        return used, here
