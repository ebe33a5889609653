"""One node as plain Python numbers: what a batch or a dry run changes without touching the table.

Reading a node is one gather; from there on adding a pod and asking again costs about a
microsecond, against twenty for numpy on a single row.
"""

from typing import TYPE_CHECKING

from shared.framework.devices import devices_of, pick_devices
from shared.framework.layout import DEVICE_MILLI, FREE, GPU_EMPTY, GPU_LARGEST, PODS_INDEX
from shared.framework.ports import add, clashes
from shared.model.objects import HostPort

if TYPE_CHECKING:
    from shared.framework.signature import Signature
    from shared.framework.table import NodeTable


class OneNode:
    """A private copy of one row's ledger. `values` are the table's columns of that row."""

    __slots__ = ("free_devices", "node_id", "ports", "row", "values")

    def __init__(self, table: "NodeTable", row: int) -> None:
        self.row = row
        self.node_id = int(table.ids[row])
        self.values: list[float] = table.cols[:, row].tolist()
        self.free_devices: list[int] | None = None
        if table.gpu_count[row]:
            self.free_devices = table.gpu_free[row].tolist()
        self.ports: dict[HostPort, int] = dict(table.ports.used(self.node_id))

    def fits(self, sig: "Signature") -> bool:
        """The dynamic filters (resources, pod count, devices, ports) for one more pod."""
        values = self.values
        for column, amount in sig.checks:
            if values[column] < amount:
                return False
        return not sig.ports or not any(clashes(port, self.ports) for port in sig.ports)

    def pick_devices(self, sig: "Signature") -> int:
        """Device mask the next pod would get; 0 for pods without GPUs."""
        if not sig.gpu_count or self.free_devices is None:
            return 0
        return pick_devices(sig, self.free_devices)

    def add(self, sig: "Signature", mask: int = 0) -> None:
        """One pod more, in what Filter and Score read."""
        values = self.values
        for column, amount in sig.score_delta:
            values[column] += amount
        self.hold(sig, mask)

    def remove(self, sig: "Signature", mask: int = 0) -> None:
        """One pod less."""
        values = self.values
        for column, amount in sig.score_delta:
            values[column] -= amount
        self._filter_part(sig, mask, -1)

    def hold(self, sig: "Signature", mask: int = 0) -> None:
        """One pod more for Filter alone: a nomination."""
        self._filter_part(sig, mask, 1)

    def _filter_part(self, sig: "Signature", mask: int, sign: int) -> None:
        values = self.values
        for column, amount in sig.filter_delta:
            values[column] += amount * sign
        if mask and self.free_devices is not None:
            free = self.free_devices
            for device in devices_of(mask):
                free[device] -= sig.gpu_milli * sign
            values[GPU_LARGEST] = float(max(free))
            values[GPU_EMPTY] = float(free.count(DEVICE_MILLI))
        if sig.ports:
            add(self.ports, sig.ports, sign)

    @property
    def pods_free(self) -> int:
        """Pod slots left."""
        return int(self.values[FREE + PODS_INDEX])
