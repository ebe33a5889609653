"""Volumes on a real API with its own controllers: chosen with the node and bound before the pod."""

from typing import Any

import pytest

from tests.live.support.case import Case
from tests.live.support.objects import PODS, create_nodes, muster_run, nodes_of, pod, until
from tests.support.kube_api import KubeApi
from tests.support.kube_server import KubeServers

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.xdist_group("kube")]
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
HOST = "kubernetes.io/hostname"
NODE_NOTE = "volume.kubernetes.io/selected-node"
SIZE = {"storage": "1Gi"}


def storage_class(api: KubeApi, name: str, provisioner: str) -> None:
    api.create(
        CLASSES,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ).ok()


def claim(api: KubeApi, name: str, of: str) -> None:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": of}
    spec |= {"resources": {"requests": SIZE}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    api.create(CLAIMS, kind | {"metadata": {"name": name}, "spec": spec}).ok()


def volume(api: KubeApi, name: str, of: str, node: str, **more: Any) -> None:
    need = {"key": HOST, "operator": "In", "values": [node]}
    spec = {
        "capacity": SIZE,
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of,
        "csi": {"driver": "disk.example.com", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [need]}]}},
        **more,
    }
    kind = {"apiVersion": "v1", "kind": "PersistentVolume"}
    api.create(VOLUMES, kind | {"metadata": {"name": name}, "spec": spec}).ok()


def user_of(api: KubeApi, name: str) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    api.create(PODS, pod(f"with-{name}", volumes=volumes)).ok()


def phase(api: KubeApi, name: str) -> str:
    return str(api.get(f"{CLAIMS}/{name}").ok()["status"]["phase"])


@pytest.fixture(scope="module")
def servers(cluster: KubeServers) -> KubeServers:
    return cluster


def test_volumes_are_bound_before_their_pods(servers: KubeServers, case: Case, tmp_path):
    api = servers.api
    servers.start_controller_manager()
    create_nodes(api, ["node-a", "node-b"])
    storage_class(api, "static", "kubernetes.io/no-provisioner")
    storage_class(api, "made", "example.com/nobody")
    volume(api, "disk-b", "static", "node-b")
    for name, of in (("first", "static"), ("second", "static"), ("late", "made")):
        claim(api, name, of)
    until("the volume is free", lambda: _volume(api)["status"].get("phase") == "Available")
    with muster_run(servers.kubeconfig, tmp_path, "-o", "json") as muster:
        user_of(api, "first")
        until("the first is bound", lambda: nodes_of(api)["with-first"] == "node-b")
        assert phase(api, "first") == "Bound"
        assert _volume(api)["spec"]["claimRef"]["name"] == "first"
        user_of(api, "second")
        user_of(api, "late")
        until("a node is chosen", lambda: bool(_chosen(api)))
        assert not nodes_of(api)["with-late"], "its volume is not there yet"
        until("the other says why", lambda: "persistent volumes to bind" in _message(api))
        _make(api, _chosen(api))
        until("the pod is bound", lambda: bool(nodes_of(api)["with-late"]))
        assert nodes_of(api)["with-late"] == _chosen(api)
        assert phase(api, "late") == "Bound"
        # A volume for the one that waits.
        volume(api, "disk-a", "static", "node-a")
        until("the second is bound", lambda: nodes_of(api)["with-second"] == "node-a")
        muster.stop()
    assert case.check(tmp_path / "run").bound == 3


def _volume(api: KubeApi) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{VOLUMES}/disk-b").ok()
    return found


def _chosen(api: KubeApi) -> str:
    notes = api.get(f"{CLAIMS}/late").ok()["metadata"].get("annotations") or {}
    return str(notes.get(NODE_NOTE, ""))


def _message(api: KubeApi) -> str:
    status = api.get(f"{PODS}/with-second").ok()["status"]
    return str((status.get("conditions") or [{}])[0].get("message", ""))


def _make(api: KubeApi, node: str) -> None:
    """Provision a volume for a claim."""
    meta = api.get(f"{CLAIMS}/late").ok()["metadata"]
    ref = {"namespace": "default", "name": "late", "uid": meta["uid"], "apiVersion": "v1"}
    ref |= {"kind": "PersistentVolumeClaim"}
    volume(api, "made-for-late", "made", node, claimRef=ref)
