"""The per-device GPU ledger of a table: which devices a pod gets, and charging them.

A share of a device goes on the device with the least sufficient milli free (ties: lowest index),
whole devices on the lowest-numbered empty ones.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared.framework.layout import DEVICE_MILLI, GPU_EMPTY, GPU_LARGEST, I64

if TYPE_CHECKING:
    from shared.framework.signature import Signature
    from shared.framework.table import NodeTable


def pick_devices(sig: "Signature", free: Sequence[int]) -> int:
    """Device mask for one pod on a node with these milli free, 0 when it does not fit."""
    if sig.whole_devices:
        return _pick_empty(sig.gpu_count, free)
    best, least = -1, DEVICE_MILLI + 1
    for device, milli in enumerate(free):
        if sig.gpu_milli <= milli < least:
            best, least = device, milli
    return 1 << best if best >= 0 else 0


def _pick_empty(count: int, free: Sequence[int]) -> int:
    mask = 0
    for device, milli in enumerate(free):
        if milli == DEVICE_MILLI:
            mask |= 1 << device
            count -= 1
            if count == 0:
                return mask
    return 0


def force_devices(sig: "Signature", free: Sequence[int], device_count: int) -> int:
    """Device mask for a pod that is on the node already and whose devices are not known.

    Where the rule finds none, the devices with most free are taken (ties: lowest index), although
    they are over-committed then: a fact is charged whether it fits or not. A node with fewer
    devices than asked for gives all it has.
    """
    mask = pick_devices(sig, free)
    if mask:
        return mask
    order = sorted(range(device_count), key=lambda device: (-free[device], device))
    for device in order[: sig.gpu_count]:
        mask |= 1 << device
    return mask


def devices_of(mask: int) -> list[int]:
    """Indexes of a mask's devices, ascending."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def charge_devices(table: "NodeTable", sig: "Signature", rows: I64, masks: I64, sign: int) -> None:
    """Take (+1) or give back (-1) each pod's devices, then derive the columns Filter reads."""
    amount = sig.gpu_milli * sign
    free = table.gpu_free
    for row, mask in zip(rows.tolist(), masks.tolist(), strict=True):
        for device in devices_of(mask):
            free[row, device] -= amount
    derive_columns(table, rows)


def derive_columns(table: "NodeTable", rows: I64) -> None:
    """GPU_LARGEST and GPU_EMPTY of these rows from the ledger."""
    free = table.gpu_free[rows]
    table.cols[GPU_LARGEST, rows] = free.max(axis=1)
    table.cols[GPU_EMPTY, rows] = (free == DEVICE_MILLI).sum(axis=1, dtype=np.int64)
