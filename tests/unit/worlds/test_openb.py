"""The openb trace: rows to nodes and pods, fill and timed mode, and the lines for bad rows."""

from fractions import Fraction

import pytest

from shared.kubernetes.objects.errors import WorldError
from shared.model.columns import split
from shared.model.objects import GpuRequest
from shared.worlds.traces.openb import PLAIN_POD_FILE, Timing, plain_world, read_pods
from tests.unit.worlds.conftest import edited

MIB = 1 << 20


def pods(world):
    return {
        name: (arrival.at_ms, arrival.lifetime_ms, arrival.pods)
        for arrival in world.arrivals
        for name in split(arrival.pods.names)
    }


def fill(folder):
    return plain_world(folder, PLAIN_POD_FILE, Timing())


def test_nodes_have_amounts_gpus_and_a_zone_by_row(openb):
    nodes = fill(openb).nodes
    assert [(n.name, n.gpu_count, n.gpu_model) for n in nodes] == [
        ("node-0", 0, ""),
        ("node-1", 2, "T4"),
        ("node-2", 8, "G2"),
        ("node-3", 1, "T4"),
    ]
    assert nodes[1].allocatable == (("cpu", 64_000), ("memory", 2048 * MIB), ("pods", 110))
    zones = [node.labels["topology.kubernetes.io/zone"] for node in nodes]
    assert zones == ["zone-a", "zone-b", "zone-c", "zone-a"]


def test_fill_has_all_pods_at_once_in_order_of_creation(openb):
    world = fill(openb)
    assert list(pods(world)) == ["pod-a", "pod-c", "pod-b", "pod-d"]
    assert {(at_ms, life_ms) for at_ms, life_ms, _ in pods(world).values()} == {(0, 0)}


def test_gpu_columns_become_requests(openb):
    found = {name: seen.spec.gpu for name, (_, _, seen) in pods(fill(openb)).items()}
    assert found == {
        "pod-a": GpuRequest(1000, 1),
        "pod-b": GpuRequest(460, 1, ("G2", "T4")),
        "pod-c": None,
        "pod-d": GpuRequest(1000, 8, ("G2",)),
    }


def test_qos_becomes_priority_in_the_main_job_only(openb):
    found = {row.name: row.spec.priority for row in read_pods(openb / PLAIN_POD_FILE)}
    assert found == {"pod-a": 300, "pod-b": 100, "pod-c": 200, "pod-d": 200}
    plain = pods(fill(openb))
    assert {seen.spec.priority for _, _, seen in plain.values()} == {0}
    assert dict(plain["pod-b"][2].labels) == {"muster.io/qos": "BE"}


def test_absent_amounts_are_left_out(openb):
    spec = pods(fill(openb))["pod-c"][2].spec
    assert spec.requests == (("cpu", 500),)
    assert (spec.nonzero_cpu_milli, spec.nonzero_memory_bytes) == (500, 0)


def test_timed_divides_creation_and_run_time_by_the_speed(openb):
    found = pods(plain_world(openb, PLAIN_POD_FILE, Timing(speed=Fraction(10))))
    # Run time counts from when the pod was scheduled, or created where it never was.
    assert {name: entry[:2] for name, entry in found.items()} == {
        "pod-a": (0, 9_000),
        "pod-c": (1_000, 5_000),
        "pod-b": (2_000, 7_000),
        "pod-d": (2_000, 8_000),
    }


def test_a_rate_replaces_creation_times_and_repeats_have_names_of_their_own(openb):
    timing = Timing(speed=Fraction(10), rate=Fraction(2), repeat=2)
    found = pods(plain_world(openb, PLAIN_POD_FILE, timing))
    assert [entry[0] for entry in found.values()] == [0, 500, 1000, 1500, 2000, 2500, 3000, 3500]
    assert list(found)[4:] == ["pod-a-1", "pod-c-1", "pod-b-1", "pod-d-1"]


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        ("pod", "qos", "class", "row 1: class: is an unknown column"),
        ("pod", ",cpu_milli", "", "row 1: cpu_milli: is a missing column"),
        ("pod", "name,cpu_milli", "cpu_milli,name", "row 1: cpu_milli: columns must be"),
        ("pod", "pod-b,1000", "pod-b,-1000", "row 3: cpu_milli: -1000 is negative"),
        ("pod", "pod-b", "pod-a", "row 3: name: 'pod-a' is a duplicate of row 2"),
        ("pod", "pod-b", "Pod B", "row 3: name: 'Pod B' is not a name"),
        ("pod", "pod-b,1000", "pod-b,many", "row 3: cpu_milli: 'many' is not a whole number"),
        ("pod", "pod-b,1000", "pod-b,1e3", "row 3: cpu_milli: '1e3' is not a whole number"),
        ("pod", "Running", "Sleeping", "row 2: pod_phase: 'Sleeping' is not one of"),
        ("pod", "LS", "VIP", "row 2: qos: 'VIP' is not one of"),
        ("pod", "0,100,10", "0,5,10", "row 2: deletion_time: is before the pod was scheduled"),
        ("pod", "8,1000,G2", "8,500,G2", "row 5: gpu_milli: must be 1000 where num_gpu"),
        ("pod", "1,460", "1,1460", "row 3: gpu_milli: 1460 is not within 1..1000"),
        ("pod", "0,0,,B", "0,100,,B", "row 4: num_gpu: is 0, but gpu_milli"),
        ("pod", "pod-c,500,0,0", "pod-c,500,0", "row 4: has 10 fields, the header 11"),
        ("node", "node-3", "node-1", "row 5: sn: 'node-1' is a duplicate of row 3"),
        ("node", "2,T4", "2,", "row 3: model: must be set exactly where gpu is not 0"),
        ("node", "8,G2", "800,G2", "row 4: gpu: 800 is more than 63"),
    ],
)
def test_bad_input_gets_one_line_with_file_row_field_and_rule(openb, file, old, new, line):
    name = PLAIN_POD_FILE if file == "pod" else "openb_node_list_all_node.csv"
    edited(openb / name, old, new)
    with pytest.raises(WorldError) as raised:
        fill(openb)
    text = str(raised.value)
    assert text.startswith(f"{openb / name} {line}")
    assert "\n" not in text


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(WorldError, match=r"openb_node_list_all_node.csv: cannot be read"):
        fill(tmp_path)


def test_binary_rubbish_is_named(openb):
    (openb / PLAIN_POD_FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WorldError, match="is not a CSV file in UTF-8"):
        fill(openb)


def test_the_real_trace_is_read_whole(data):
    world = plain_world(data / "openb", PLAIN_POD_FILE, Timing())
    assert len(world.nodes) == 1_523
    assert sum(node.gpu_count for node in world.nodes) == 6_212
    assert len(pods(world)) == 8_152
    gpus = [seen.spec.gpu for _, _, seen in pods(world).values() if seen.spec.gpu]
    assert sum(gpu.milli * gpu.count for gpu in gpus) == 6_086_800


def test_a_list_of_five_columns_is_taken_and_says_what_is_assumed(openb, caplog):
    path = openb / PLAIN_POD_FILE
    rows = [",".join(line.split(",")[:5]) for line in path.read_text().splitlines()]
    path.write_text("\n".join(rows))
    assert list(pods(fill(openb))) == ["pod-a", "pod-b", "pod-c", "pod-d"], "in the file's order"
    assert "assumed for all rows: gpu_spec=(none), qos=BE, pod_phase=Running" in caplog.text
    with pytest.raises(WorldError, match="creation_time: is a missing column"):
        plain_world(openb, PLAIN_POD_FILE, Timing(Fraction(10)))
