"""Pods and nodes of the simulated cluster as Kubernetes objects, as far as it knows them; HTTP
extenders get these in a run of a world.
"""

from typing import Any

import msgspec

from shared.events.observed import PodsSeen
from shared.model.objects import CPU, GPU, Node
from shared.simulated.cluster import SimCluster

MILLI = 1_000


class SimObjects:
    """Implements `ObjectSource`."""

    def __init__(self, cluster: SimCluster) -> None:
        """Reads the cluster at the time of each call."""
        self._cluster = cluster

    async def pod_object(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a pod's object. Raises LookupError."""
        for pod in self._cluster.pods.values():
            if pod.name == name:
                seen = self._cluster.created_with(pod)
                if seen.namespace == namespace:
                    return pod_object(seen, pod.name, pod.uid)
        raise LookupError(f'pods "{name}" not found')

    async def node_objects(self) -> dict[str, dict[str, Any]]:
        """Return the nodes' objects by name."""
        return {one.name: node_object(one) for one in self._cluster.nodes.values()}


def pod_object(seen: PodsSeen, name: str, uid: str) -> dict[str, Any]:
    """Return a pod whose single container requests everything."""
    spec = seen.spec
    requests = dict(_quantities(spec.requests))
    if spec.gpu is not None and spec.gpu.milli == MILLI:
        requests[GPU] = str(spec.gpu.count)
    metadata = {"name": name, "namespace": seen.namespace, "uid": uid, "labels": dict(seen.labels)}
    inner = {
        "schedulerName": spec.scheduler,
        "priority": spec.priority,
        "nodeSelector": dict(spec.node_selector),
        "tolerations": msgspec.to_builtins(spec.tolerations),
        "containers": [{"name": "all", "resources": {"requests": requests}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": inner}


def node_object(node: Node) -> dict[str, Any]:
    """Return a node with its allocatable amounts."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "uid": node.uid, "labels": dict(node.labels)},
        "spec": {
            "taints": msgspec.to_builtins(node.taints),
            "unschedulable": node.unschedulable,
        },
        "status": {"allocatable": dict(_quantities(node.allocatable))},
    }


def _quantities(amounts: tuple[tuple[str, int], ...]) -> list[tuple[str, str]]:
    return [(name, f"{amount}m" if name == CPU else str(amount)) for name, amount in amounts]
