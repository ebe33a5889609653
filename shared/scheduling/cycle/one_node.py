"""One node as plain Python numbers: what a batch or a dry run changes without touching the table.

Reading a node is one gather; from there on adding a pod and asking again costs about a
microsecond, against twenty for numpy on a single row.
"""

from typing import TYPE_CHECKING

from shared.model.objects import HostPort
from shared.scheduling.profile import BALANCED_ALLOCATION, LEAST_ALLOCATED
from shared.scheduling.table.devices import devices_of, largest_and_empty, pick_devices
from shared.scheduling.table.layout import (
    AMOUNT_MAX,
    GPU_EMPTY,
    GPU_LARGEST,
    INFEASIBLE,
    ROOM,
    USED,
    NominatedPods,
)
from shared.scheduling.table.multiset import add
from shared.scheduling.table.ports import clashes

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable


class OneNode:
    """A private copy of one row's ledger; `values` are the table's columns of that row.

    For dry runs: pods go in and out, `fits` is the same rule as the kernel's. Static filters are
    the caller's.
    """

    __slots__ = ("_devices", "_ports", "_table", "moved", "nominated", "row", "values")

    def __init__(self, table: "NodeTable", row: int) -> None:
        self.row = row
        self.values: list[float] = table.cols[:, row].tolist()
        self._table = table
        # Pods that inter-pod rules read: those added and removed, and nominated ones.
        self.moved: list[tuple[Signature, int]] = []
        self.nominated: list[Signature] = []
        # Most pods have neither devices nor ports, so these are read when first needed.
        self._devices: list[int] | None = None
        self._ports: dict[HostPort, int] | None = None

    @property
    def devices(self) -> list[int]:
        """Return the free milli of each device."""
        if self._devices is None:
            self._devices = self._table.gpu_free[self.row].tolist()
        return self._devices

    @property
    def ports(self) -> dict[HostPort, int]:
        """Return the host ports in use."""
        if self._ports is None:
            self._ports = dict(self._table.ports.used(self._table.node_id_at(self.row)))
        return self._ports

    def fits(self, sig: "Signature") -> bool:
        """Return whether one more pod passes the dynamic filters (resources, pod count, devices,
        ports).
        """
        values = self.values
        for column, amount in sig.checks:
            if values[column] < amount:
                return False
        ports = sig.checked_ports
        return not ports or not any(clashes(port, self.ports) for port in ports)

    def pick_devices(self, sig: "Signature") -> int:
        """Return the device mask that the next pod would get; 0 for pods without GPUs."""
        return pick_devices(sig, self.devices) if sig.gpu_count else 0

    def local_score(self, sig: "Signature") -> int:
        """Return the sum of the node-local scores, INFEASIBLE if a dynamic filter refuses."""
        return _scored(sig, self.values) if self.fits(sig) else INFEASIBLE

    def add(self, sig: "Signature", mask: int = 0) -> None:
        """Add one pod for Filter and Score."""
        self._score_part(sig, 1)
        self._filter_part(sig, mask, 1)
        if sig.counted or sig.uses:
            self.moved.append((sig, 1))

    def remove(self, sig: "Signature", mask: int = 0) -> None:
        """Remove one pod."""
        self._score_part(sig, -1)
        self._filter_part(sig, mask, -1)
        if sig.counted or sig.uses:
            self.moved.append((sig, -1))

    def add_nominated(self, sig: "Signature", mask: int = 0) -> None:
        """Add one pod for Filter only: a nomination."""
        self._filter_part(sig, mask, 1)
        if sig.counted or sig.uses:
            self.nominated.append(sig)

    def _score_part(self, sig: "Signature", sign: int) -> None:
        values = self.values
        for column, amount in sig.score_delta:
            values[column] += amount * sign

    def _filter_part(self, sig: "Signature", mask: int, sign: int) -> None:
        values = self.values
        for column, amount in sig.filter_delta:
            values[column] += amount * sign
        if mask:
            free = self.devices
            for device in devices_of(mask):
                free[device] -= sig.gpu_milli * sign
            largest, empty = largest_and_empty(free)
            values[GPU_LARGEST], values[GPU_EMPTY] = float(largest), float(empty)
        if sig.ports:
            add(self.ports, sig.ports, sign)


def _scored(sig: "Signature", values: list[float]) -> int:
    if sig.scores is not None:
        return sig.scores.score(values)
    score = LEAST_ALLOCATED.score(sig, values)
    if sig.best_effort:
        return score
    return score + BALANCED_ALLOCATION.score(sig, values)


def one_node(table: "NodeTable", row: int, nominated_pods: NominatedPods | None) -> OneNode:
    """Return a node as Filter and Score see it, with its nominations."""
    node = OneNode(table, row)
    if nominated_pods:
        for nominated, mask in nominated_pods.get(table.node_id_at(row), ()):
            node.add_nominated(nominated, mask)
    return node


class BatchNode:
    """A node while pods of one signature are added, one `add_next` each.

    The number that fits by amounts is known at the start, so that a pod costs four subtractions and
    a score. `left` = 0 means that the next one does not fit.
    """

    __slots__ = ("_devices", "_sig", "_values", "left", "mask")

    def __init__(
        self, sig: "Signature", values: list[float], devices: list[int], taken: int = 0
    ) -> None:
        """Start with these columns and free milli by device; `taken` pods of the batch are not yet
        in the columns. Both lists are modified.
        """
        self._sig = sig
        self._values = values
        left = AMOUNT_MAX
        for column, amount in sig.amount_checks:
            most = values[column] // amount
            left = left if left < most else most  # min() would be a call for each of them
        self.left = int(left)
        self.mask = 0
        if sig.gpu_count:
            self._devices = devices
            self.mask = pick_devices(sig, devices)
        if taken:
            self.left -= taken
            for column, amount in sig.score_delta:
                values[column] += amount * taken
        if sig.gpu_count and min(devices) < 0:  # see largest_and_empty
            self.left = min(self.left, sum(devices) // (sig.gpu_milli * sig.gpu_count))

    def add_next(self) -> int:
        """Add a pod to the node (its devices were `mask`); return the local score of
        the next one.
        """
        sig, values = self._sig, self._values
        values[ROOM] -= sig.taken_cpu
        values[ROOM + 1] -= sig.taken_memory
        values[USED] += sig.cpu
        values[USED + 1] += sig.memory
        self.left -= 1
        if not sig.linear:
            self._extend()
        if self.left <= 0:
            return INFEASIBLE
        if sig.scores is not None:
            return sig.scores.score(values)
        score = LEAST_ALLOCATED.score(sig, values)
        if sig.best_effort:
            return score
        return score + BALANCED_ALLOCATION.score(sig, values)

    def _extend(self) -> None:
        sig = self._sig
        if sig.gpu_count:
            self._charge_devices(self._devices, sig.gpu_milli)
        if sig.checked_ports:
            self.left = 0  # the pod's own ports block its twin
        for column, amount in sig.more_scored:
            self._values[column] += amount

    def _charge_devices(self, devices: list[int], milli: int) -> None:
        mask = self.mask
        if mask & (mask - 1):
            for device in devices_of(mask):
                devices[device] -= milli
        else:
            device = mask.bit_length() - 1
            devices[device] -= milli
            if devices[device] >= milli:
                return  # it had the least sufficient amount, and has less now
        self.mask = pick_devices(self._sig, devices)
        if not self.mask:
            self.left = 0
