"""What kubectl dumps of a cluster is a case and a world, as the tutorial says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.conftest import NewCluster
from tests.live.support.objects import PODS, ROOT, create_nodes, pod
from tests.support.kube_objects import binding
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    """Two nodes, a pod on one of them, and a pending pod of a priority class."""
    servers = new_cluster()
    api = servers.api
    create_nodes(api, ["node-a", "node-b"])
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
    api.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses", kind | {"metadata": {"name": "c"}}
    ).ok()
    api.create(PODS, pod("there")).ok()
    api.create(f"{PODS}/there/binding", binding("there", "node-a")).ok()
    asked = pod("asked")
    asked["spec"]["priorityClassName"] = "c"
    api.create(PODS, asked).ok()
    return servers


def piped(servers: KubeServers, form: str, *words: str) -> str:
    """What the command prints of the dump."""
    kubectl = servers.at.program("kubectl")
    kinds = "nodes,pods,priorityclasses"
    dump = [str(kubectl), "--kubeconfig", str(servers.kubeconfig), "get", kinds, "-A", "-o", form]
    given = subprocess.run(dump, capture_output=True, check=True).stdout
    command = [sys.executable, "-m", "muster", *words, "-o", "json"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, input=given, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_the_tutorial_has_the_command():
    page = (ROOT / "docs" / "tutorial" / "first-run.md").read_text(encoding="utf-8")
    command = "kubectl get nodes,pods,priorityclasses -A -o yaml | .venv/bin/muster score -"
    assert command in page


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_pending_pods_are_asked_about(servers: KubeServers, form: str):
    (found,) = json.loads(piped(servers, form, "score", "-"))["pods"]
    assert (found["name"], found["best"]) == ("asked", ["node-b"])
    assert found["nodes"]["node-a"]["feasible"], "the pod that is there leaves room"


def test_a_run_binds_them(servers: KubeServers, tmp_path: Path):
    result = json.loads(piped(servers, "yaml", "run", "-", "--run-dir", str(tmp_path / "run")))
    assert (result["bound"], result["waiting"]) == (2, 0)
