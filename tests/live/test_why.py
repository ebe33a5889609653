"""`muster why pod` during a run: it reads the journals while another process writes them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.objects import PODS, ROOT, create_nodes, muster_run, pod, until
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
SHARE = {"cpu": "100m", "nvidia.com/gpu": "1", "muster.io/gpu-milli": "5"}
UNREADABLE = [{"name": "c", "image": "i", "resources": {"requests": SHARE, "limits": SHARE}}]


def why(folder: Path, name: str, *more: str) -> Any:
    """Return the result of `muster why`; {} while the pod is unknown."""
    words = ["why", "pod", name, "--run-dir", str(folder / "run"), "-o", "json", *more]
    ran = subprocess.run(
        [sys.executable, "-m", "muster", *words], cwd=ROOT, capture_output=True, check=False
    )
    assert ran.returncode in (0, 2), ran.stderr
    return json.loads(ran.stdout) if ran.returncode == 0 else {}


def get(folder: Path, kind: str, *more: str) -> Any:
    """The list of this kind."""
    words = ["get", kind, str(folder / "run"), "-o", "json", *more]
    ran = subprocess.run(
        [sys.executable, "-m", "muster", *words], cwd=ROOT, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_state_of_a_pod_is_explained_during_the_run(cluster: KubeServers, tmp_path):
    api = cluster.api
    create_nodes(api, ["node-a", "node-b"], cpu=2)
    gates = [{"name": "example.com/wait"}]
    reference = {"podGroupName": "training"}
    with muster_run(cluster.kubeconfig, tmp_path, "-o", "json") as muster:
        wanted: dict[str, dict[str, Any]] = {
            "small": {},
            "large": {"cpu": "3"},
            "gated": {"schedulingGates": gates},
            "member": {"schedulingGroup": reference},
            "theirs": {"scheduler": "somebody", "nodeName": "node-a"},
            "lonely": {"containers": UNREADABLE},
            "unknown-to-us": {"scheduler": "somebody"},
        }
        for name, more in wanted.items():
            api.create(PODS, pod(name, **more)).ok()
        until("the last is seen", lambda: bool(why(tmp_path, "default/lonely")))
        until("bound", lambda: why(tmp_path, "default/small")["state"] == "bound")
        found = {
            name: why(tmp_path, f"default/{name}")
            for name in ("large", "gated", "member", "theirs", "lonely", "unknown-to-us")
        }
        node = why(tmp_path, "default/large", "--node", "node-b")["nodes"][0]
        listed = {kind: get(tmp_path, kind) for kind in ("pods", "gangs", "nodes")}
        muster.stop()
    large = found["large"]
    assert large["state"] == "unschedulable"
    assert large["reasons"] == [{"reason": "Insufficient cpu", "nodes": 2}]
    condition = api.get(f"{PODS}/large").ok()["status"]["conditions"][0]
    assert condition["message"] == large["message"]
    assert (node["refused_by"], node["reasons"]) == ("NodeResourcesFit", ["Insufficient cpu"])
    assert found["gated"]["state"] == "gated"
    assert found["member"]["state"] == "waiting for its gang"
    no_group = 'waiting for pods\'s pod group "training" to appear in scheduling queue'
    assert found["member"]["message"] == no_group
    assert (found["theirs"]["state"], found["theirs"]["node"]) == ("bound", "node-a")
    assert found["lonely"]["state"] == "refused"
    assert "gpu" in found["lonely"]["message"]
    assert found["unknown-to-us"] == {}
    states = {one["name"]: (one["state"], one["message"]) for one in listed["pods"]}
    known = {name: told for name, told in found.items() if told and name != "lonely"}
    assert "lonely" not in states, "a refused pod is in no state"
    assert states.pop("theirs") == ("bound", ""), "`why` adds that another scheduler bound it"
    del known["theirs"]
    assert {name: states[name] for name in known} == {
        name: (told["state"], told["message"] or told["detail"]) for name, told in known.items()
    }
    assert [one["node"] for one in listed["nodes"]] == ["node-a", "node-b"]
    assert sum(one["pods"] for one in listed["nodes"]) == 2, "small and theirs"
    (gang,) = listed["gangs"]
    assert (gang["gang"], gang["state"]) == ("default/training", "waiting")
    assert (gang["members"], gang["placed"], gang["message"]) == (1, 0, no_group)
    for name in ("large", "gated", "member", "theirs", "lonely"):
        assert found[name]["decided"]["position"] > 0, name
