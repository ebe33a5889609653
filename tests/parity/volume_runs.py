"""Whole runs in which pods have volumes: claims that are bound, or wrong in one way or another, and
disks that pods name themselves.
"""

from random import Random
from typing import Any

from tests.parity.sequences import World, world

Object = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "disk.example"
CLAIMS = 12
CLASS = "standard"


def volume_world(seed: int, alone: bool = True) -> World:
    """A world in which about half of the kinds of pods have volumes; without `alone` no claim is
    for one pod only.
    """
    draw, made = Random(f"{seed}/volumes"), world(seed)
    zones = ["north", "south"]
    for name, node in made.nodes.items():
        if draw.random() < 0.9:
            node["metadata"]["labels"][ZONE] = draw.choice(zones)
        if draw.random() < 0.8:
            limit = {"count": draw.choice((1, 2, 3, 20))}
            driver = {"name": DRIVER, "nodeID": name, "allocatable": limit}
            made.selecting.append(_of("CSINode", name, spec={"drivers": [driver]}))
    storage_class = _of("StorageClass", CLASS, provisioner=DRIVER)
    made.selecting.append(storage_class | {"volumeBindingMode": "Immediate"})
    claims = [f"c{number}" for number in range(CLAIMS)]
    for name in claims:
        made.selecting += _bound(draw, name, list(made.nodes), zones, alone)
    made.selecting.append(_claim("unbound"))
    leaving = _claim("leaving", "pv-leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made.selecting.append(leaving)
    for spec in {id(pod["spec"]): pod["spec"] for pod in made.pods.values()}.values():
        if draw.random() < 0.6:
            spec["volumes"] = [_used(draw, claims, at) for at in range(draw.choice((1, 1, 2)))]
    return made


def _used(draw: Random, claims: list[str], at: int) -> Object:
    name = {"name": f"v{at}"}
    if draw.random() < 0.2:
        disk = {"pdName": draw.choice("ab"), "readOnly": draw.random() < 0.5}
        return name | {"gcePersistentDisk": disk}
    wrong = ("nobody", "unbound", "leaving")
    chosen = draw.choice(claims) if draw.random() < 0.9 else draw.choice(wrong)
    return name | {"persistentVolumeClaim": {"claimName": chosen}}


def _bound(
    draw: Random, name: str, nodes: list[str], zones: list[str], alone: bool
) -> list[Object]:
    """A claim and the volume that it has."""
    volume = f"pv-{name}"
    spec: Object = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": CLASS,
        "csi": {"driver": DRIVER, "volumeHandle": draw.choice((volume, "shared"))},
        "claimRef": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
    }
    labels: Object = {}
    match draw.choice(("anywhere", "host", "zone", "label")):
        case "host":
            spec["nodeAffinity"] = _near(HOSTNAME, draw.sample(nodes, 4))
        case "zone":
            spec["nodeAffinity"] = _near(ZONE, [draw.choice(zones)])
        case "label":
            labels = {ZONE: draw.choice(zones)}
    claim = _claim(name, volume)
    if alone and draw.random() < 0.3:
        claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
    metadata = {"name": volume, "labels": labels}
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    return [claim, made | {"status": {"phase": "Bound"}}]


def _claim(name: str, volume: str = "") -> Object:
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    spec: Object = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": CLASS,
    }
    status = {"phase": "Bound" if volume else "Pending"}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        spec["volumeName"] = volume
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    return made | {"spec": spec, "status": status}


def _near(key: str, values: list[str]) -> Object:
    need = {"key": key, "operator": "In", "values": sorted(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [need]}]}}


def _of(kind: str, name: str, **fields: Any) -> Object:
    metadata = {"name": name}
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": metadata, **fields}
