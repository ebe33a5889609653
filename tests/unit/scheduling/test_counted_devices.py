"""Nodes with more devices than a mask holds: whole ones are counted, shares do not fit."""

import numpy as np
import pytest

from shared.model.objects import GpuRequest
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.table.devices import force_devices
from shared.scheduling.table.layout import GPU_EMPTY
from tests.unit.scheduling.tables import GI, node, rows, sig, spec, table_of

SHORT = "Insufficient nvidia.com/gpu"


def asks(count: int):
    return spec(0, GI, gpu=GpuRequest(1000, count))


def many(number: int, count: int):
    return node(number, gpu_count=count, memory=4096 * GI, pods=2000)


def empty(table) -> list[float]:
    found: list[float] = table.cols[GPU_EMPTY].tolist()
    return found


@pytest.mark.parametrize("count", [64, 80, 1000])
@pytest.mark.parametrize("each", [1, 2, 63])
def test_all_devices_can_be_charged_and_released(count, each):
    table = table_of(many(1, count))
    pod = sig(table, asks(each))
    picks = Kernel().place(table, pod, 2000)
    assert len(picks.rows) == count // each
    assert {int(mask).bit_count() for mask in picks.masks} == {each}
    table.charge(pod, picks.rows, picks.masks)
    assert empty(table) == [count % each]
    assert Kernel().reasons(table, pod) == (((SHORT, 1),), 1)
    table.charge(pod, picks.rows, picks.masks, -1)
    assert empty(table) == [count]


def test_one_by_one_is_the_same():
    table = table_of(many(1, 65))
    pod = sig(table, asks(2))
    for taken in range(32):
        pick = Kernel().place_one(table, pod)
        assert pick is not None, f"{taken} of 32"
        table.charge_one(pod, pick.row, pick.mask)
    assert Kernel().place_one(table, pod) is None
    assert Kernel().place_one(table, sig(table, asks(1))) is not None


def test_shares_and_more_than_63_fit_nowhere():
    table = table_of(many(1, 80))
    share = sig(table, spec(0, GI, gpu=GpuRequest(500)))
    assert Kernel().reasons(table, share).messages == (("Insufficient gpu", 1),)
    assert len(Kernel().place(table, share, 3).rows) == 0
    assert Kernel().reasons(table, sig(table, asks(64))) == (((SHORT, 1),), 0)
    assert Kernel().place_one(table, sig(table, asks(64))) is None


def test_facts_count_whether_they_fit_or_not():
    table = table_of(many(1, 64))
    pod = sig(table, asks(40))
    for _ in range(2):
        mask = force_devices(pod, table.gpu_free[0].tolist(), 64)
        table.charge(pod, rows(0), np.array([mask], np.int64))
    assert empty(table) == [64 - 80]


@pytest.mark.parametrize(("before", "after"), [(8, 80), (80, 8), (80, 64), (64, 63), (0, 80)])
def test_a_node_may_get_and_lose_them_under_its_pods(before, after):
    table = table_of(many(1, before))
    pod = sig(table, asks(1))
    picks = Kernel().place(table, pod, 5)
    table.charge(pod, picks.rows, picks.masks)
    table.set_nodes([1], [many(1, after)])
    taken = min(before, 5)
    assert empty(table) == [after - taken]
    table.charge(pod, picks.rows, picks.masks, -1)
    fresh = table_of(many(1, after))
    assert table.gpu_free[0, : fresh.gpu_free.shape[1]].tolist() == fresh.gpu_free[0].tolist()
    assert empty(table) == [after]


def test_other_pods_keep_their_devices():
    table = table_of(node(1, gpu_count=2), many(2, 80))
    share = sig(table, spec(0, GI, gpu=GpuRequest(600)))
    picks = Kernel().place(table, share, 5)
    assert picks.rows.tolist() == [0, 0]
    assert sorted(picks.masks.tolist()) == [1, 2]
