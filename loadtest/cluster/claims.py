"""Bound claims and volumes of one driver for the pods of a bench on a real cluster.

No controller that binds claims runs there, so each object says itself that it is bound, as in
scheduler_perf.
"""

import json
from collections.abc import Iterable
from typing import Any

from loadtest.cluster.load import Load, node_name
from muster.flood.targets.kube import each

DRIVER, LIMIT = "ebs.csi.aws.com", 39
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
OF_POD = [{"name": "data", "persistentVolumeClaim": {"claimName": "NAME"}}]
"""The volumes of a pod whose claim has the pod's name."""
_MODES_AND_SIZE = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
_SIZE = {"storage": "1Gi"}


async def create_claims(load: Load, names: Iterable[str], nodes: int) -> None:
    """Create a claim with a volume for each name, on nodes that accept so many."""

    async def tell_driver(number: int) -> None:
        name = node_name(number)
        driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": LIMIT}}
        await _create(load, CSI_NODES, {"name": name}, {"drivers": [driver]})

    async def create(name: str) -> None:
        asked = {"resources": {"requests": _SIZE}, "volumeName": name}
        meta = {"name": name, "annotations": BOUND}
        uid = await _create(load, CLAIMS, meta, _MODES_AND_SIZE | asked)
        disk = {"capacity": _SIZE, "csi": {"driver": DRIVER, "volumeHandle": name}}
        ref = {"namespace": "default", "name": name, "uid": uid}
        await _create(load, VOLUMES, {"name": name}, _MODES_AND_SIZE | disk | {"claimRef": ref})

    await each(range(nodes), tell_driver)
    await each(names, create)


async def _create(load: Load, path: str, meta: dict[str, Any], spec: dict[str, Any]) -> str:
    """Create an object and return its uid. The path gives the kind."""
    body = json.dumps({"metadata": meta, "spec": spec}).encode()
    return (await load.create(path, body)).uid
