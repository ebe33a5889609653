"""What kubectl dumps of a cluster is a case and a world, as the tutorial says; and `muster score`
asks a cluster itself, for which lists are enough.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shared.kubernetes.client.kinds import OTHER_KINDS
from tests.live.conftest import NewCluster
from tests.live.support.objects import PODS, ROOT, create_nodes, pod
from tests.support.kube_credentials import User
from tests.support.kube_objects import binding
from tests.support.kube_options import KubeOptions
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
LISTER, STRANGER = User("lister"), User("stranger")
RBAC = "rbac.authorization.k8s.io"
LISTED = [("", "nodes"), ("", "pods"), ("policy", "poddisruptionbudgets")]


@pytest.fixture(scope="module")
def servers(new_cluster: NewCluster) -> KubeServers:
    """Two nodes, a pod on one of them, and a pending pod of a priority class. A user may list what
    scheduling depends on, and nothing else.
    """
    servers = new_cluster(KubeOptions(authorization_mode="RBAC"), users=[LISTER, STRANGER])
    api = servers.api
    pairs = [*LISTED, *((kind.group, kind.resource) for kind in OTHER_KINDS)]
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": ["list"]}
        for group, resource in pairs
    ]
    meta = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "lister"}}
    path = f"/apis/{RBAC}/v1/clusterrole"
    api.create(f"{path}s", {**meta, "kind": "ClusterRole", "rules": rules}).ok()
    bound = {
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "lister"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "lister"}],
    }
    api.create(f"{path}bindings", {**meta, "kind": "ClusterRoleBinding", **bound}).ok()
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
    """Return what the command prints about the dump."""
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


def score(servers: KubeServers, user: User, *words: str) -> subprocess.CompletedProcess[str]:
    """`muster score` of the live cluster as this user."""
    path = servers.write_kubeconfig(servers.folder / f"{user.name}.kubeconfig", user)
    command = [sys.executable, "-m", "muster", "score", "--kubeconfig", str(path), *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_live_clusters_pods_are_asked_about_with_lists_alone(servers: KubeServers):
    done = score(servers, LISTER, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    words = ("score", "-", "--compatibility-version", servers.options.version)
    assert found == json.loads(piped(servers, "json", *words)), "as of what kubectl prints"
    one = score(servers, LISTER, "-o", "json", "--pod", "pod/asked")
    assert json.loads(one.stdout) == found
    assert servers.api.get(f"{PODS}/asked").ok()["spec"].get("nodeName") is None


def test_a_pod_of_a_live_cluster_that_has_a_node_is_asked_about_as_if_it_had_none(
    servers: KubeServers,
):
    done = score(servers, LISTER, "--pod", "there", "-n", "default", "-o", "json")
    (found,) = json.loads(done.stdout)["pods"]
    assert found["best"] == ["node-a", "node-b"], "its own requests count on neither node"


def test_what_may_not_be_listed_is_said(servers: KubeServers):
    done = score(servers, STRANGER, "--pod", "asked")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("muster: the cluster refuses a list: 403: ")
    assert 'User "stranger" cannot list resource' in line
