"""Charges beyond what float64 holds: whatever their number and order, releasing them leaves nothing
behind.
"""

import random

import numpy as np
import pytest

from shared.model.objects import GpuRequest
from shared.scheduling.table.devices import force_devices
from shared.scheduling.table.layout import FREE
from shared.scheduling.table.table import NodeTable
from tests.unit.scheduling.tables import GI, at, node, rows, sig, spec, table_of

INT64_MAX = (1 << 63) - 1
DISK = "ephemeral-storage"


def pods(table: NodeTable) -> list:
    """Return absurd pods, as any client may create them on a node."""
    specs = (
        spec(INT64_MAX, INT64_MAX, extra={DISK: INT64_MAX}),
        spec(INT64_MAX // 3, 7 << 60, extra={DISK: (1 << 52) - 1}),
        spec((1 << 46) - 1, (1 << 46) - 3, extra={DISK: (1 << 51) + 1}),
        spec(3, 4095, extra={DISK: 5}),
        spec(1, (256 * GI) - 1),
    )
    return [sig(table, one) for one in specs]


def everything(table: NodeTable) -> np.ndarray:
    return np.concatenate((table.cols, table.allocatable))


def charge(table: NodeTable, order: list, sign: int, is_many: bool) -> None:
    for pod, count in order:
        if is_many:
            table.charge(pod, rows(*[at(table, 1)] * count), sign=sign)
        else:
            for _ in range(count):
                table.charge(pod, rows(at(table, 1)), sign=sign)


@pytest.mark.parametrize("is_many", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_absurd_pods_leave_what_was_there_before_in_whatever_order(seed, is_many):
    rng = random.Random(seed)
    table = table_of(node(1, extra={DISK: 1 << 40}), node(2))
    order = [(pod, rng.choice((1, 2, 50, 300))) for pod in pods(table)]
    before = everything(table)
    charge(table, order, 1, is_many)
    full = table.cols.copy()
    assert (full[FREE : FREE + 2, at(table, 1)] < 0).all()
    rng.shuffle(order)
    twin = table.trial()
    charge(twin, order, -1, is_many)
    assert (everything(twin) == before).all()
    assert (table.cols == full).all(), "a trial reached its table"
    # The node changes under them, and back.
    table.set_nodes([1], [node(1, cpu=7_777, memory=GI + 1, extra={DISK: 3})])
    table.set_nodes([1], [node(1, extra={DISK: 1 << 40})])
    assert (table.cols == full).all()
    rng.shuffle(order)
    charge(table, order, -1, is_many)
    assert (everything(table) == before).all()


def test_a_deleted_node_takes_its_sums_along():
    table = table_of(node(1), node(2))
    (pod, *_rest) = pods(table)
    table.charge(pod, rows(*[at(table, 1)] * 9))
    assert table.beyond.sums
    table.remove_nodes([1])
    assert not table.beyond.sums


@pytest.mark.parametrize("devices", [8, 63, 64, 1_000_000])
@pytest.mark.parametrize("asked", [63, 64, INT64_MAX])
def test_a_pod_with_more_gpus_than_a_mask_names_can_be_charged_and_leaves(devices, asked):
    table = table_of(node(1, gpu_count=devices))
    pod = sig(table, spec(1, GI, gpu=GpuRequest(1_000, asked)))
    before = everything(table)
    mask = force_devices(pod, table.gpu_free[0].tolist(), devices)
    table.charge(pod, rows(0), rows(mask))
    assert mask.bit_count() == min(devices, asked, 63)
    table.charge(pod, rows(0), rows(mask), -1)
    assert (everything(table) == before).all()
