"""Of equal pods the youngest are evicted, in a run as in `muster score`."""

import json
from typing import Any

import pytest

from muster.cli.run_directory import HISTORY
from muster.explain.scoring import score_case
from shared.simulated.history import read_history
from tests.e2e.console import muster
from tests.support.builders import make_node, make_pod
from tests.unit.worlds.manifests import priority_class

pytestmark = pytest.mark.slow

HIGH = priority_class("high", 10)
NODES = [make_node(f"n{number}").capacity(cpu="2", memory="8Gi").obj() for number in range(4)]
STARTS = (40, 10, 55, 30, 45, None, 20, 50)


def pod(name: str, priority: int, **spec: Any) -> dict[str, Any]:
    class_name = {"priorityClassName": "high"} if priority else {}
    return make_pod(name).requests(cpu="1").spec(**spec, **class_name).obj()


def running() -> list[dict[str, Any]]:
    """Return two running pods on each node, all of one priority."""
    found = [pod(f"low-{number}", 0, nodeName=f"n{number // 2}") for number in range(len(STARTS))]
    for one, second in zip(found, STARTS, strict=True):
        if second is not None:
            one["status"] = {"startTime": f"2026-01-02T03:04:{second}Z"}
    return found


@pytest.mark.parametrize("placements", [1, 3])
def test_the_youngest_pods_are_evicted(tmp_path, placements):
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
