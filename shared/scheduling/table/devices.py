"""The per-device GPU ledger of a table: which devices a pod gets, and charging them.

A share of a device goes on the device with the least sufficient milli free (ties: lowest index),
whole devices on the lowest-numbered empty ones.

A node may have more devices than a mask has bits, because time slicing makes many of a few. Such a
node's devices are only counted: the sum of its ledger alone has a meaning. On an empty node the
first place has the milli of all devices, and COUNTED in the last place marks the ledger. k whole
devices are charged to the first k places, whatever is left there, and shares do not fit. So both
kinds of nodes are charged alike, and a node may change its kind while it has pods.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared.scheduling.table.layout import (
    COUNTED_MAX,
    DEVICE_MILLI,
    DEVICES_MAX,
    GPU_EMPTY,
    GPU_LARGEST,
    I32,
    I64,
    Mask,
)

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature
    from shared.scheduling.table.table import NodeTable

FEW_PODS = 16  # up to this many pods, plain Python is faster than numpy
HALF = 1 << 29
COUNTED = 2 * HALF  # with COUNTED_MAX devices in milli less than 2**31, and never charged half away
assert COUNTED + COUNTED_MAX * DEVICE_MILLI < 1 << 31, "a ledger's sum leaves 32 bits"


def ledger_of(count: int, width: int) -> I32:
    """Return the ledger of an empty node with this many devices, shape (width,)."""
    made = np.zeros(width, np.int32)
    if count > DEVICES_MAX:
        made[0], made[-1] = count * DEVICE_MILLI, COUNTED
    else:
        made[:count] = DEVICE_MILLI
    return made


def _is_counted(free: Sequence[int]) -> bool:
    return len(free) == DEVICES_MAX and free[-1] > HALF


def _counted(free: I32) -> Mask | None:
    """Return which of many ledgers, shape (devices, m), are counted; None: none."""
    if len(free) < DEVICES_MAX:
        return None
    found: Mask = free[-1] > HALF
    return found if found.any() else None


def pick_devices(sig: "Signature", free: Sequence[int]) -> int:
    """Return the device mask for one pod on a node with these free milli, 0 if no devices are left
    for it (the caller checks that the node has as much left in all: see `largest_and_empty`).
    """
    if sig.gpu_count > DEVICES_MAX:
        return 0  # no mask has so many bits
    if len(free) == DEVICES_MAX and _is_counted(free):
        room = sig.whole_devices and largest_and_empty(free)[1] >= sig.gpu_count
        return (1 << sig.gpu_count) - 1 if room else 0
    if sig.whole_devices:
        return _pick_empty(sig.gpu_count, free)
    best, least, wanted = -1, DEVICE_MILLI + 1, sig.gpu_milli
    for device, milli in enumerate(free):
        if wanted <= milli < least:
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
    """Return the device mask for a pod on the node whose devices are unknown.

    If the rule finds none, the devices with most free milli are used (ties: lowest index), although
    they are over-committed then: a fact is charged whether it fits or not. A node with fewer
    devices than requested gives all it has.
    """
    mask = pick_devices(sig, free)
    if mask:
        return mask
    if _is_counted(free):
        return (1 << min(sig.gpu_count, DEVICES_MAX)) - 1
    order = sorted(range(device_count), key=lambda device: (-free[device], device))
    for device in order[: sig.gpu_count]:
        mask |= 1 << device
    return mask


def devices_of(mask: int) -> list[int]:
    """Return the indexes of a mask's devices, ascending."""
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def charge_devices(table: "NodeTable", sig: "Signature", rows: I64, masks: I64, sign: int) -> None:
    """Charge (+1) or release (-1) each pod's devices, then derive the columns that Filter reads."""
    if len(rows) > FEW_PODS:
        drop_devices(table.gpu_free, sig.gpu_milli * sign, rows, masks)
        derive_columns(table, rows)
        return
    for row, mask in zip(rows.tolist(), masks.tolist(), strict=True):
        charge_one(table, sig, row, mask, sign)


def charge_one(table: "NodeTable", sig: "Signature", row: int, mask: int, sign: int) -> None:
    """`charge_devices` for one pod, without arrays."""
    ledger, amount = table.gpu_free[row], sig.gpu_milli * sign
    free = ledger.tolist()
    for device in devices_of(mask):
        free[device] -= amount
        ledger[device] = free[device]
    table.cols[GPU_LARGEST, row], table.cols[GPU_EMPTY, row] = largest_and_empty(free)


def drop_devices(free: I32, amount: int, rows: I64, masks: I64) -> None:
    """Subtract this much from each device of each mask; `free` has the shape (n, devices)."""
    if len(rows) > FEW_PODS:
        width = free.shape[1]
        if (masks & (masks - 1)).any():
            pods, devices = np.nonzero((masks[:, None] >> np.arange(width)) & 1)
            rows = rows[pods]
        else:  # one device each, or none
            rows, masks = rows[masks != 0], masks[masks != 0]
            devices = _bits(width).searchsorted(masks)
        flat = free.reshape(-1)
        assert np.may_share_memory(flat, free), "the ledger is not in one piece"
        np.subtract.at(flat, rows * width + devices, np.int32(amount))
        return
    for row, mask in zip(rows.tolist(), masks.tolist(), strict=True):
        for device in devices_of(mask):
            free[row, device] -= amount


def _bits(width: int) -> I64:
    return np.left_shift(1, np.arange(width, dtype=np.int64))


def derive_columns(table: "NodeTable", rows: I64) -> None:
    """Derive GPU_LARGEST and GPU_EMPTY of these rows from the ledger."""
    largest, empty = derived(by_device(table.gpu_free, rows))
    table.cols[GPU_LARGEST, rows] = largest
    table.cols[GPU_EMPTY, rows] = empty


def largest_and_empty(free: Sequence[int]) -> tuple[int, int]:
    """Return what Filter reads of a node: the largest amount free on one device, and how many are
    empty.

    Neither exceeds what the node has left in all. A pod with unknown devices (another scheduler's,
    or any after a reset) is charged to guessed devices, so that one may be over-committed while
    another seems empty; the pods may share the devices in another way, but not all of them and one
    more.
    """
    if len(free) == DEVICES_MAX and _is_counted(free):
        return 0, (sum(free) - COUNTED) // DEVICE_MILLI
    largest, empty = max(free), free.count(DEVICE_MILLI)
    if min(free) < 0:
        room = sum(free)
        return min(largest, room), min(empty, room // DEVICE_MILLI)
    return largest, empty


def by_device(free: I32, rows: I64) -> I32:
    """Return the ledgers of these rows, shape (devices, m): numpy is fast along the long axis."""
    return np.ascontiguousarray(free[rows].T)


def derived(free: I32) -> tuple[I32, I64]:
    """Return `largest_and_empty` for many nodes, from ledgers of shape (devices, m)."""
    largest, empty = free.max(axis=0), (free == DEVICE_MILLI).sum(axis=0, dtype=np.int64)
    if free.min(initial=0) < 0:
        room = free.sum(axis=0, dtype=np.int32)
        largest, empty = np.minimum(largest, room), np.minimum(empty, room // DEVICE_MILLI)
    counted = _counted(free)
    if counted is not None:
        left = free[:, counted].sum(axis=0, dtype=np.int64) - COUNTED
        largest[counted], empty[counted] = 0, left // DEVICE_MILLI
    return largest, empty


def pick_and_charge_devices(sig: "Signature", free: I32) -> I64:
    """Pick devices on many nodes that all have room, shape (devices, m); charge the picks and
    return the masks.
    """
    bits, counted = _bits(len(free)), _counted(free)
    if sig.gpu_count > 1:
        empty = free == DEVICE_MILLI
        taken = empty & (np.cumsum(empty, axis=0) <= sig.gpu_count)
        if counted is not None:
            taken[:, counted] = (np.arange(len(free)) < sig.gpu_count)[:, None]
        free -= taken * np.int32(DEVICE_MILLI)
        masks: I64 = np.where(taken, bits[:, None], 0).sum(axis=0, dtype=np.int64)
        return masks
    # One device: the one with the least sufficient milli, which may be a whole one.
    device = np.where(free >= sig.gpu_milli, free, 2 * DEVICE_MILLI).argmin(axis=0)
    if counted is not None:
        device[counted] = 0
    free[device, np.arange(free.shape[1])] -= sig.gpu_milli
    chosen: I64 = bits[device]
    return chosen
