"""Whole runs in which pods have volumes: claims that are bound or wrong in some way, disks that
pods name themselves, and claims that get their volumes with their pods' nodes.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from shared.model.cluster_objects import PersistentVolume, PersistentVolumeClaim
from tests.parity.comparison.mesh_runs import Decision, World, world

Object = dict[str, Any]
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "disk.example"
CLAIMS = 12
CLASS, NEVER = "standard", "never"
"""The second class has no volumes and no provisioner: its claims stay unbound."""


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
    for one, provisioner in ((CLASS, DRIVER), (NEVER, NO_PROVISIONER)):
        storage_class = _of("StorageClass", one, provisioner=provisioner)
        made.selecting.append(storage_class | {"volumeBindingMode": "Immediate"})
    claims = [f"c{number}" for number in range(CLAIMS)]
    for name in claims:
        made.selecting += _bound(draw, name, list(made.nodes), zones, alone)
    unbound = _claim("unbound")
    unbound["spec"]["storageClassName"] = NEVER
    made.selecting.append(unbound)
    leaving = _claim("leaving", "pv-leaving")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    made.selecting.append(leaving)
    for spec in {id(pod["spec"]): pod["spec"] for pod in made.pods.values()}.values():
        if draw.random() < 0.6:
            spec["volumes"] = [_used(draw, claims, at) for at in range(draw.choice((1, 1, 2)))]
    return made


def used_world(seed: int) -> World:
    """Return a world whose pods all have the same ReadWriteOncePod claim."""
    made = world(seed)
    made.selecting += [_claim("one", "pv-one"), _free("pv-one", 1, CLASS)]
    claim, volume = made.selecting
    claim["spec"]["accessModes"] = ["ReadWriteOncePod"]
    volume["spec"]["claimRef"] = {"namespace": "default", "name": "one", "uid": "uid-one"}
    volume["status"]["phase"] = "Bound"
    for pod in made.pods.values():
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]
        pod["spec"] = pod["spec"] | {"volumes": volumes}
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
    """Return a bound claim and its volume."""
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


# --------------------------------------------------------------------- volumes that are chosen

LATE, STATIC = "late", "static"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


@dataclass
class ChoosingWorld(World):
    """`claims` and `volumes` by name, as they are before any choice."""

    claims: dict[str, Object] = field(default_factory=dict)
    volumes: dict[str, Object] = field(default_factory=dict)

    def objects(self) -> list[Object]:
        return [*super().objects(), *self.claims.values(), *self.volumes.values()]

    def others(self, decision: Decision) -> list[Object]:
        return [*self.selecting, *self._then(decision)]

    def _then(self, decision: Decision) -> Iterator[Object]:
        """Yield claims and volumes with the facts and the held choices of a decision."""
        held = {one.volume: one for one, _node in decision.held if one.volume}
        chosen = {one.claim: node for one, node in decision.held if not one.volume}
        for one in decision.storage:
            if isinstance(one, PersistentVolumeClaim):
                made = json.loads(json.dumps(self.claims[one.name]))
                notes = made["metadata"].setdefault("annotations", {})
                if node := one.selected_node or chosen.get(one.name, ""):
                    notes[SELECTED_NODE] = node
                if one.is_bind_completed:
                    notes["pv.kubernetes.io/bind-completed"] = "yes"
                made["spec"]["volumeName"] = one.volume
                yield made | {"status": {"phase": one.phase}}
            elif isinstance(one, PersistentVolume):
                made = json.loads(json.dumps(self.volumes.get(one.name) or _made(one)))
                if one.claim is not None:
                    ref = {"namespace": "default", "name": one.claim.name, "uid": one.claim.uid}
                    made["spec"]["claimRef"] = ref
                elif wait := held.get(one.name):
                    ref = {"namespace": "default", "name": wait.claim, "uid": wait.claim_uid}
                    made["spec"]["claimRef"] = ref
                yield made | {"status": {"phase": one.phase}}

    def right_choice(self, decision: Decision) -> str:
        """The volume for the claim of the pod: the smallest that does; empty = one is made."""
        then = list(self._then(decision))
        (name,) = (one.claim for one in decision.chosen)
        (claim,) = (one for one in then if one["metadata"]["name"] == name)
        if SELECTED_NODE in claim["metadata"].get("annotations", {}):
            return ""
        found = []
        for one in (one for one in then if one["kind"] == "PersistentVolume"):
            spec, ref = one["spec"], one["spec"].get("claimRef")
            if ref is not None and ref["name"] == name:
                return str(one["metadata"]["name"])
            wanted = int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi"))
            has = spec["capacity"]["storage"].removesuffix("Gi")
            same = spec["storageClassName"] == claim["spec"]["storageClassName"]
            is_near = _reaches(spec, self.nodes[decision.node]["metadata"]["labels"])
            if ref is None and same and is_near and int(has) >= wanted:
                found.append((int(has), one["metadata"]["name"]))
        return min(found)[1] if found else ""


def _reaches(spec: Object, labels: Object) -> bool:
    terms = spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms")
    needs = [need for term in terms or () for need in term["matchExpressions"]]
    return all(labels.get(need["key"]) in need["values"] for need in needs)


def _made(one: PersistentVolume) -> Object:
    """Return the volume that the simulated cluster provisioned for a claim, reachable from every
    node.
    """
    made = _free(one.name, 1, one.storage_class)
    made["spec"] |= {"capacity": {"storage": str(one.capacity_bytes)}}
    return made


def choosing_world(seed: int) -> ChoosingWorld:
    """A world in which some kinds of pods have claims that wait for them: one for all of a kind, or
    each pod its own. There are fewer volumes than claims; no two are equally large, as between
    those kube-scheduler takes that of a Go map.
    """
    draw, base = Random(f"{seed}/choosing"), world(seed)
    made = ChoosingWorld(base.nodes, base.pods, base.selecting)
    for name, provisioner in ((LATE, DRIVER), (STATIC, NO_PROVISIONER)):
        one = _of("StorageClass", name, provisioner=provisioner)
        made.selecting.append(one | {"volumeBindingMode": "WaitForFirstConsumer"})
    sizes = draw.sample(range(2, 90), 30)
    for number in range(draw.randint(6, 14)):
        volume = _free(f"pv-{number}", sizes.pop(), draw.choice((LATE, STATIC, STATIC)))
        match draw.choice(("anywhere", "hosts", "zone")):
            case "hosts":
                hosts = draw.sample(list(made.nodes), 3)
                volume["spec"]["nodeAffinity"] = _near(HOSTNAME, hosts)
            case "zone":
                volume["spec"]["nodeAffinity"] = _near("zone", [draw.choice("abc")])
        made.volumes[f"pv-{number}"] = volume
    kinds = {id(pod["spec"]): draw.choice(("none", "shared", "own")) for pod in base.pods.values()}
    shared = {kind: _wish(made, draw) for kind, how in kinds.items() if how == "shared"}
    for pod in made.pods.values():
        kind = id(pod["spec"])
        if kinds[kind] != "none":
            claim = shared.get(kind) or _wish(made, draw)
            volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
            pod["spec"] = pod["spec"] | {"volumes": volumes}
    return made


def _wish(made: ChoosingWorld, draw: Random) -> str:
    """Add a claim that waits for its first consumer; return its name."""
    name = f"w{len(made.claims)}"
    claim = _claim(name)
    spec = claim["spec"]
    spec["storageClassName"] = draw.choice((LATE, STATIC))
    spec["resources"] = {"requests": {"storage": f"{draw.choice((2, 15, 40))}Gi"}}
    made.claims[name] = claim
    return name


def _free(name: str, gib: int, storage_class: str) -> Object:
    spec: Object = {
        "capacity": {"storage": f"{gib}Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": storage_class,
        "csi": {"driver": DRIVER, "volumeHandle": name},
    }
    made = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    return made | {"spec": spec, "status": {"phase": "Available"}}
