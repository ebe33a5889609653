"""Of equal victims those go that were started last, in a run as `muster score` has it."""

import json
from typing import Any

import pytest

from muster.cli.run_directory import HISTORY
from muster.explain.scoring import score_case
from shared.simulated.history import read_history
from tests.e2e.console import muster
from tests.unit.worlds.build import priority_class

pytestmark = pytest.mark.slow

HIGH = priority_class("high", 10)
NODES = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number}"},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"}},
    }
    for number in range(4)
]
STARTS = (40, 10, 55, 30, 45, None, 20, 50)


def pod(name: str, priority: int, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec |= {"containers": [container]} | ({"priorityClassName": "high"} if priority else {})
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def running() -> list[dict[str, Any]]:
    """Two on each node, all of one priority."""
    found = [pod(f"low-{number}", 0, nodeName=f"n{number // 2}") for number in range(len(STARTS))]
    for one, second in zip(found, STARTS, strict=True):
        if second is not None:
            one["status"] = {"startTime": f"2026-01-02T03:04:{second}Z"}
    return found


@pytest.mark.parametrize("placements", [1, 3])
def test_the_youngest_go(tmp_path, placements):
    there, high = running(), pod("high", 10)
    case = {"objects": [*NODES, HIGH, *there], "pods": [high], "preempt": True}
    wanted = score_case(case)["pods"][0]["preemption"]
    assert wanted["evicted"] == ["default/low-5"], "who was not started is the youngest"
    world = tmp_path / "world.json"
    items = [*NODES, HIGH, *there, high]
    world.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    words = ("run", world, "--run-dir", tmp_path / "run", "--placements", str(placements))
    assert muster(*words).code == 0
    happened = read_history(tmp_path / "run" / HISTORY)
    assert [one.uid for one in happened if one.kind == "evict"] == ["default.low-5"]
    there[5]["status"] = {"startTime": "2026-01-02T03:04:00Z"}
    world.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    words = ("run", world, "--run-dir", tmp_path / "again", "--placements", str(placements))
    assert muster(*words).code == 0
    happened = read_history(tmp_path / "again" / HISTORY)
    assert [one.uid for one in happened if one.kind == "evict"] == ["default.low-2"]
    assert muster("replay", tmp_path / "again").code == 0
