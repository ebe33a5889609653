"""scheduler_perf's workloads are floods; one that does not bind all its pods is void."""

import pytest

from loadtest.workloads.__main__ import FLOORS, HERE, run
from muster.flood.plan import plan_of
from muster.flood.read import read_workload
from muster.flood.workload import Barrier


def test_every_workload_has_a_floor_and_no_other():
    assert {path.stem for path in HERE.glob("*.yaml")} == FLOORS.keys()


@pytest.mark.parametrize("name", FLOORS)
def test_every_workload_has_nodes_and_waits_for_what_it_measures(name):
    workload = read_workload(HERE / f"{name}.yaml")
    assert isinstance(workload.steps[-1], Barrier)
    plan = plan_of(workload)
    assert len(plan.nodes) >= 1
    assert sum(map(len, plan.numbers(is_wanted=False))) >= 1_000


def test_a_run_is_its_measured_pods(tmp_path):
    nodes = "{opcode: createNodes, count: 1}"
    first = "{opcode: createPods, count: 7, collectMetrics: false}"
    pods = "{opcode: createPods, count: 5}"
    file = tmp_path / "w.yaml"
    file.write_text(f"steps: [{nodes}, {first}, {pods}, {{opcode: barrier}}]")
    found = run(file)
    assert (found["pods"], found["bound"]) == (5, 5)
    assert found["speed"] > 0
    file.write_text("steps: nothing")
    assert run(file) == {"pods": 1, "bound": 0, "speed": 0.0}
