"""GPU nodes and pods on them, as objects, and the cluster that they make."""

from typing import Any

from muster.defrag.cluster import Cluster
from muster.defrag.read import amounts_pod, of_case
from tests.support.builders import make_node, make_pod

GPU = "nvidia.com/gpu"
EIGHT = f"{GPU}=8"
OWNER = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "web",
    "uid": "web-uid",
    "controller": True,
}


def gpu_node(name: str, gpus: int = 8, cpu: int = 64, **spec: Any) -> dict[str, Any]:
    """Return a node with GPUs."""
    allocatable = {"cpu": str(cpu), "memory": "256Gi", "pods": "110", GPU: str(gpus)}
    labels = {"kubernetes.io/hostname": name, "rack": name[0]}
    return make_node(name).labels(labels).spec(**spec).status(allocatable=allocatable).obj()


def gpu_pod(
    name: str, node: str = "", gpus: int = 1, cpu: str = "1", **more: Any
) -> dict[str, Any]:
    """Return a pod that a ReplicaSet made. `metadata` and `status` are added to it; anything else
    is of its spec.
    """
    metadata = {"ownerReferences": [OWNER], "uid": f"{name}-uid", **more.pop("metadata", {})}
    amounts = {"cpu": cpu, **({GPU: str(gpus)} if gpus else {})}
    limits = {"requests": amounts, "limits": amounts}
    builder = make_pod(name).metadata(**metadata).container(resources=limits).node(node)
    builder.status(**more.pop("status", {}))
    return builder.spec(**more).obj()


def started(seconds: int) -> dict[str, Any]:
    """Return the status of a pod that started so many seconds after the hour."""
    return {"startTime": f"2026-01-01T12:{seconds // 60:02d}:{seconds % 60:02d}Z"}


def cluster(*objects: dict[str, Any], wanted: str = EIGHT, **more: Any) -> Cluster:
    """Return the cluster of these objects."""
    return of_case("case", objects, amounts_pod(wanted), **more)
