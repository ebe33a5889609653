"""The DLRM trace: the rules for rows without times and for the invented nodes."""

from fractions import Fraction

import pytest

from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import split
from shared.model.objects import GpuRequest
from shared.worlds.traces.dlrm import FILE, dlrm_world, nodes_needed, peak, read_instances
from tests.unit.worlds.conftest import edited

GIB = 1 << 30


def pods(world):
    return {name: arrival for arrival in world.arrivals for name in split(arrival.pods.names)}


def test_rows_without_creation_time_exist_at_time_0(dlrm):
    found = pods(dlrm_world(dlrm, Fraction(1)))
    assert {name: arrival.at_ms for name, arrival in found.items()} == {
        "instance-0": 0,
        "instance-1": 0,
        "instance-2": 100_000,
        "instance-3": 150_000,
    }


def test_run_time_counts_from_scheduling_and_no_deletion_means_for_ever(dlrm):
    found = pods(dlrm_world(dlrm, Fraction(10)))
    assert {name: arrival.lifetime_ms for name, arrival in found.items()} == {
        "instance-0": 0,
        "instance-1": 7_500,
        "instance-2": 9_000,
        "instance-3": 0,
    }


def test_fill_has_everything_at_once_and_deletes_nothing(dlrm):
    found = pods(dlrm_world(dlrm, None))
    assert {(a.at_ms, a.lifetime_ms) for a in found.values()} == {(0, 0)}


def test_amounts_are_exact_and_rdma_is_an_extended_resource(dlrm):
    found = pods(dlrm_world(dlrm, None))
    spec = found["instance-1"].pods.spec
    assert dict(spec.requests) == {
        "cpu": 64_000,
        "memory": 320 * GIB + GIB // 2,
        "ephemeral-storage": 85 * GIB,
        "muster.io/rdma": 1,
    }
    assert spec.gpu is None
    assert spec.node_selector == (("muster.io/role", "CN"),)
    assert found["instance-0"].pods.spec.gpu == GpuRequest(1000, 1)
    assert dict(found["instance-0"].pods.labels) == {"app": "app-0", "muster.io/role": "HN"}


def test_the_peak_counts_what_exists_at_one_time(dlrm):
    instances = [i for i in read_instances(dlrm / FILE) if i.role == "CN"]
    # In time: instance_1 is gone when the others come; all together in fill mode.
    assert peak(instances, timed=True)["cpu"] == 256_000
    assert peak(instances, timed=False)["cpu"] == 320_000


def test_nodes_hold_the_peak_with_a_quarter_more():
    assert nodes_needed("CN", {"cpu": 192_000 * 8}) == 10
    assert nodes_needed("CN", {"cpu": 192_000 * 8, "muster.io/rdma": 400 * 100}) == 125
    assert nodes_needed("HN", {"gpu": 16, "cpu": 1}) == 3
    assert nodes_needed("HN", {}) == 0


def test_nodes_carry_the_role_that_their_instances_select(dlrm):
    nodes = dlrm_world(dlrm, None).nodes
    assert {(n.labels["muster.io/role"], n.gpu_count) for n in nodes} == {("CN", 0), ("HN", 8)}


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("role", "part", "row 1: part: is an unknown column"),
        ("instance_1", "instance_0", "row 3: instance_sn: 'instance_0' is a duplicate of row 2"),
        (
            "instance_1,CN,app_1,64",
            "instance_1,CN,app_1,-64",
            "row 3: cpu_request: -64 is negative",
        ),
        ("320.5,320.5", "lots,320.5", "row 3: memory_limit: "),
        ("320.5,320.5", "320.5,lots", "row 3: memory_limit: 'lots' is not a number"),
        ("320.5,320.5", "320.5,1.0", "row 3: memory_limit: is less than memory_request"),
        ("HN,app_0", "XN,app_0", "row 2: role: 'XN' is not one of CN, HN"),
        ("110.0,200.0", "110.0,20.0", "row 4: deletion_time: is before the instance"),
        ("800.0,8,", "800.0,0,", "row 2: max_instance_per_node: must be -1"),
    ],
)
def test_bad_input_gets_one_line_with_file_row_field_and_rule(dlrm, old, new, line):
    edited(dlrm / FILE, old, new)
    with pytest.raises(WorldError) as raised:
        dlrm_world(dlrm, None)
    assert str(raised.value).startswith(f"{dlrm / FILE} ")
    if not line.endswith(": "):
        assert line in str(raised.value)


def test_the_real_trace_is_read_whole(data):
    instances = read_instances(data / "dlrm2025" / FILE)
    assert len(instances) == 23_871
    assert sum(1 for instance in instances if instance.created_s == 0) == 7_280
    assert sum(1 for instance in instances if instance.spec.gpu) == 7_386
