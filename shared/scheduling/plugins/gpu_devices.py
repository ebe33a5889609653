"""GpuDevices: the model filter and the exact per-device ledger (choice of devices: devices.py)."""

from typing import TYPE_CHECKING

import numpy as np

from shared.model.objects import GPU, GpuRequest, PodSpec
from shared.scheduling.api.plugin import Check, Refusal
from shared.scheduling.table.layout import (
    DEVICE_MILLI,
    DEVICES_MAX,
    F64,
    GPU_EMPTY,
    GPU_LARGEST,
    Mask,
)

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable


class GpuModel:
    """Static filter: the pod names models and the node's is not among them."""

    name = "GpuDevices"
    message = "node(s) didn't match Pod's GPU model"
    reads: tuple[str, ...] = ("gpu",)

    def refuses(self, table: "NodeTable", spec: PodSpec) -> Mask | None:
        """Return the nodes of other models, and nodes without GPUs."""
        if spec.gpu is None or not spec.gpu.models:
            return None
        return np.logical_not(table.gpu_models().among(spec.gpu.models))


class GpuDevices:
    """Column filter: a share needs one device with as much free, k devices need k empty ones. Whole
    devices are a resource like others to kube-scheduler, whose messages are used for them. No pod
    gets more devices than a mask has bits.
    """

    name = "GpuDevices"

    def message(self, gpu: GpuRequest) -> str:
        """Return the message of a node that lacks the devices."""
        return f"Insufficient {GPU if gpu.milli >= DEVICE_MILLI else 'gpu'}"

    def checks(self, table: "NodeTable", spec: PodSpec) -> list[Check]:
        """Return the check of the device with most free milli, or of the number of
        empty devices.
        """
        gpu = spec.gpu
        if gpu is None:
            return []
        if gpu.milli >= DEVICE_MILLI:
            return [(GPU_EMPTY, float(gpu.count) if gpu.count <= DEVICES_MAX else np.inf)]
        return [(GPU_LARGEST, float(gpu.milli))]

    def refusals(self, table: "NodeTable", sig: "Signature", cols: F64) -> list[Refusal]:
        """Return the nodes without free devices; resolvable where the node has enough devices."""
        if sig.spec.gpu is None:
            return []
        ((column, amount),) = self.checks(table, sig.spec)
        refused = cols[column] < amount
        resolvable = refused & (table.gpu_count >= sig.gpu_count) & (amount < np.inf)
        return [Refusal(self.message(sig.spec.gpu), refused, resolvable)]
