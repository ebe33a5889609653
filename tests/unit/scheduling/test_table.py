"""The node table: tie order, identities, ledgers that are exact both ways, and its trial copies."""

import numpy as np
import pytest

from shared.model.objects import GpuRequest, HostPort
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.table.changes import KEPT_MAX, ChangeLog
from shared.scheduling.table.devices import force_devices
from shared.scheduling.table.labels import integer
from shared.scheduling.table.table import tie_key
from tests.unit.scheduling.tables import GI, at, node, rows, sig, spec, table_of


def test_rows_are_in_the_order_of_a_keyed_hash_and_ids_stay():
    nodes = [node(i) for i in range(1, 30)]
    table = table_of(*nodes)
    assert [tie_key(3, n.uid) for n in table.nodes] == sorted(tie_key(3, n.uid) for n in nodes)
    assert all(table.nodes[at(table, i)].uid == f"u{i}" for i in range(1, 30))
    assert table.ids.tolist() != table_of(*nodes, seed=4).ids.tolist()


def test_nodes_come_and_go_and_their_charges_stay_with_the_id():
    table = table_of(node(1), node(2))
    pod = sig(table, spec(500, 1 * GI, host_ports=(HostPort(80),)))
    table.charge(pod, rows(at(table, 2)))
    before = table.cols[:, at(table, 2)].tolist()
    table.set_nodes([3, 4, 5], [node(3), node(4), node(5)])
    table.remove_nodes([1, 4, 99])
    assert sorted(table.ids.tolist()) == [2, 3, 5]
    assert table.cols[:, at(table, 2)].tolist() == before
    assert dict(table.ports.used(2)) == {HostPort(80): 1}
    table.remove_nodes([2])
    assert table.ports.refusing((HostPort(80),)) == []
    table.remove_nodes([3, 5])
    assert table.size == 0
    assert Kernel().place(table, pod, 3).rows.tolist() == []
    assert Kernel().reasons(table, pod) == ((), 0)


def test_a_changed_node_keeps_what_is_charged_to_it():
    table = table_of(node(1, gpu_count=2, gpu_model="T4"))
    pod = sig(table, spec(500, 1 * GI, gpu=GpuRequest(400)))
    table.charge(pod, rows(0, 0), rows(1, 2))
    table.set_nodes([1], [node(1, cpu=800, memory=9 * GI, gpu_count=1, gpu_model="T4")])
    assert table.requested[:3, 0].tolist() == [1000, 2 * GI, 2]
    assert table.gpu_free[0, :3].tolist() == [600, -400, 0]
    table.set_nodes([1], [node(1, gpu_count=3, gpu_model="T4")])
    assert table.gpu_free[0, :4].tolist() == [600, 600, 1000, 0]
    table.charge(pod, rows(0, 0), rows(1, 2), -1)
    assert table.cols.tolist() == table_of(node(1, gpu_count=3)).cols.tolist()


def test_charging_many_is_charging_each_and_taking_back_restores_every_bit():
    pods = (spec(333, 7), spec(100, 1 * GI, extra={"example.com/x": 3}), spec())
    one, many = (table_of(*(node(i, extra={"example.com/x": 9}) for i in range(9))) for _ in "ab")
    start = one.cols.tobytes()
    places = rows(0, 0, 0, 3, 3, 0, 8, 1, 1)
    for pod in pods:
        many.charge(sig(many, pod), places)
        for row in places.tolist():
            one.charge(sig(one, pod), rows(row))
    assert one.cols.tobytes() == many.cols.tobytes()
    for pod in pods:
        many.charge(sig(many, pod), places, None, -1)
    assert many.cols.tobytes() == start


def test_gpu_charges_in_columns_equal_those_one_by_one():
    one, many = (table_of(*(node(i, gpu_count=8) for i in range(4))) for _ in "ab")
    share, whole = (sig(one, spec(gpu=gpu)) for gpu in (GpuRequest(300), GpuRequest(1000, 2)))
    places, masks = rows(*[0, 1, 2, 3] * 6), rows(*[1, 2, 4, 8] * 6)
    many.charge(share, places, masks)
    many.charge(whole, places[:4], rows(3 << 4, 3 << 5, 3 << 6, 3))
    for row, mask in zip(places.tolist(), masks.tolist(), strict=True):
        one.charge(share, rows(row), rows(mask))
    for row, mask in enumerate((3 << 4, 3 << 5, 3 << 6, 3)):
        one.charge(whole, rows(row), rows(mask))
    assert one.gpu_free.tolist() == many.gpu_free.tolist()
    assert one.cols.tolist() == many.cols.tolist()


@pytest.mark.parametrize("pods", [1, 40])
def test_a_pod_may_hold_devices_that_its_node_no_longer_has(pods):
    table = table_of(*(node(i, gpu_count=2) for i in range(3)))
    share = sig(table, spec(gpu=GpuRequest(10)))
    table.charge(share, rows(*[1] * pods), rows(*[1 << 11] * pods))
    assert table.gpu_free[:, 11].tolist() == [0, -10 * pods, 0]
    assert table.gpu_free[:, :2].tolist() == [[1000, 1000]] * 3


def test_the_devices_of_a_fact_are_found_even_where_none_is_free():
    table = table_of(node(1, gpu_count=2))
    share, whole = sig(table, spec(gpu=GpuRequest(700))), sig(table, spec(gpu=GpuRequest(1000, 2)))
    masks = []
    for pod in (share, share, share, whole):
        mask = force_devices(pod, table.gpu_free[0].tolist(), int(table.gpu_count[0]))
        table.charge(pod, rows(0), rows(mask))
        masks.append(mask)
    assert masks == [0b01, 0b10, 0b01, 0b11]
    assert table.gpu_free[0, :2].tolist() == [-1400, -700]


def test_generations_rise_with_each_change():
    table = table_of(node(1), node(2))
    row = at(table, 1)
    table.charge(sig(table, spec(100)), rows(row))
    table.set_nodes([1], [node(1, cpu=1)])
    assert table.generation[row] == 2
    assert table.generation[at(table, 2)] == 0


def test_a_trial_is_independent_and_keeps_its_nodes():
    table = table_of(node(1), node(2))
    pod = sig(table, spec(500, 1 * GI, host_ports=(HostPort(80),)))
    trial = table.trial()
    trial.charge(pod, rows(0))
    assert table.requested.any() == np.False_
    assert table.ports.used(int(table.ids[0])) == {}
    with pytest.raises(AssertionError, match="a trial keeps the nodes"):
        trial.set_nodes([3], [node(3)])
    with pytest.raises(AssertionError, match="a trial of a trial"):
        trial.trial()
    table.charge(pod, rows(1))
    with pytest.raises(AssertionError, match="changed under its trial"):
        Kernel().place(trial, pod, 2)


def test_impossible_values_are_refused():
    with pytest.raises(AssertionError, match="negative"):
        table_of(node(1, cpu=-1))
    with pytest.raises(AssertionError, match="GPUs"):
        table_of(node(1, gpu_count=1_000_001))
    table = table_of(node(1))
    with pytest.raises(AssertionError, match="became"):
        table.set_nodes([1], [node(2)])
    for pod in (spec(-1), spec(gpu=GpuRequest(1001)), spec(gpu=GpuRequest(500, 2))):
        with pytest.raises(AssertionError):
            sig(table, pod)
    with pytest.raises(AssertionError, match="without its devices"):
        table.charge(sig(table, spec(gpu=GpuRequest(500))), rows(0))
    kernel, compiled = Kernel(), sig(table, spec(100))
    kernel.place(table, compiled, 2)
    with pytest.raises(AssertionError, match="compiled for another table"):
        kernel.place(table_of(node(1)), compiled, 2)


def test_the_log_of_changes_forgets_the_oldest():
    log = ChangeLog()

    def since(position: int) -> list[int]:
        found = log.since(position)
        assert found is not None
        return [int(row) for row in found]

    log.append(rows(1, 1, 2, 1))
    log.append_one(5)
    assert since(0) == [1, 2, 1, 5]
    seen = log.position
    for start in range(0, KEPT_MAX * 2, 100):
        log.append(np.arange(start, start + 100))
    for row in range(KEPT_MAX):
        log.append_one(row)
        assert since(log.position - 1) == [row]
    assert log.since(seen) is None
    assert since(log.position - 300) == list(range(KEPT_MAX - 300, KEPT_MAX))
    log.restart()
    assert log.since(log.position - 1) is None
    assert since(log.position) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("12", 12), ("-3", -3), ("+3", 3), ("", None), ("1_0", None), ("٣", None), (" 1", None)),
        *(("9223372036854775807", 2**63 - 1), ("9223372036854775808", None)),
    ],
)
def test_numbers_in_labels_are_read_as_go_reads_them(text, number):
    assert integer(text) == number


def test_room_over_committed_by_a_guess_is_missing_on_other_devices():
    """Shares of 470 and 320, of 470 and of 590 milli: with 470 + 590 on one device, none is left
    for a whole one, although the other is empty once the first two are gone.
    """
    table = table_of(node(1, gpu_count=2))
    shares = [sig(table, spec(gpu=GpuRequest(milli))) for milli in (470, 320, 470, 590)]
    masks = []
    for pod in shares:
        masks.append(force_devices(pod, table.gpu_free[0].tolist(), 2))
        table.charge(pod, rows(0), rows(masks[-1]))
    assert masks == [0b01, 0b01, 0b10, 0b10]
    for pod, mask in zip(shares[:2], masks[:2], strict=True):
        table.charge(pod, rows(0), rows(mask), -1)
    assert table.gpu_free[0, :2].tolist() == [1000, -60]
    whole, most, more = (sig(table, spec(gpu=GpuRequest(milli))) for milli in (1000, 940, 941))
    kernel = Kernel()
    assert [kernel.place_one(table, pod) is not None for pod in (whole, most, more)] == [0, 1, 0]
