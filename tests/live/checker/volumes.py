"""Rules of volumes, written a second time over plain Kubernetes objects: a pod of ours at the
moment of its bind.

The rules hold whatever happened in the meantime: claims are bound before their pods, their volumes
can be reached from the node, and a claim for one pod has one user.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.live.checker.fits import holds

Object = Mapping[str, Any]
CLAIMS = "/registry/persistentvolumeclaims/"
VOLUMES = "/registry/persistentvolumes/"
CSI_NODES = "/registry/csinodes/"
KINDS = (CLAIMS, VOLUMES, CSI_NODES)
BOUND, CHOSEN = "pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node"
ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
ONE_POD = "ReadWriteOncePod"


def claims_of(pod: Object) -> list[str]:
    """Return the keys of the pod's claims; an ephemeral volume's is named after pod and volume."""
    meta, found = pod["metadata"], []
    for one in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in one:
            found.append(one["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in one:
            found.append(f"{meta['name']}-{one['name']}")
    return [f"{meta['namespace']}/{name}" for name in found]


class Disks:
    """Claims, volumes and limits of nodes in etcd."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        self._used: set[str] = set()  # claims that a pod with a node has had

    def apply(self, key: str, value: Any) -> None:
        """Advance by one change; other keys are ignored."""
        for kind, held in self._held.items():
            if key.startswith(kind):
                held.pop(key.removeprefix(kind), None)
                if value is not None:
                    held[key.removeprefix(kind)] = value

    def wrong(self, pod: Object, node: Object, others: Mapping[str, list[Object]]) -> list[str]:
        """Return the objections to the pod on its node. `others` are the assigned pods by name."""
        problems: list[str] = []
        name = node["metadata"]["name"]
        for key in claims_of(pod):
            claim = self._held[CLAIMS].get(key)
            if claim is None:
                problems.append(f"claim {key} is not there")
                continue
            problems += self._of_claim(key, claim, node)
            self._used.add(key)
            if ONE_POD in claim["spec"].get("accessModes", ()):
                users = (one for pods in others.values() for one in pods)
                if any(key in claims_of(one) for one in users if not _is(one, pod)):
                    problems.append(f"claim {key} is another pod's")
        own = self._disks([pod])
        taken = self._disks([pod, *others.get(name, ())])
        for driver, limit in self._limits(name).items():
            count = sum(of == driver for of, _ in taken)
            if count > limit and any(of == driver for of, _ in own):
                problems.append(f"{count} volumes of {driver} where {limit} may be")
        return problems

    def _of_claim(self, key: str, claim: Object, node: Object) -> Iterator[str]:
        notes, volume_name = _notes(claim), claim["spec"].get("volumeName", "")
        if not volume_name or BOUND not in notes:
            yield f"claim {key} is not bound"
            return
        chosen = notes.get(CHOSEN, node["metadata"]["name"])
        if key not in self._used and chosen != node["metadata"]["name"]:
            yield f"claim {key} was chosen for {chosen}"
        volume = self._held[VOLUMES].get(volume_name)
        if volume is None:
            yield f"volume {volume_name} is not there"
            return
        ref = volume["spec"].get("claimRef") or {}
        if (ref.get("namespace"), ref.get("name")) != tuple(key.split("/")):
            yield f"volume {volume_name} is not that of claim {key}"
        if not _reaches(volume, node):
            yield f"volume {volume_name} cannot be reached"

    def _disks(self, pods: list[Object]) -> set[tuple[str, str]]:
        """Return drivers and handles of all bound claims of these pods, each once."""
        found = set()
        for pod in pods:
            for key in claims_of(pod):
                claim = self._held[CLAIMS].get(key) or {"spec": {}}
                volume = self._held[VOLUMES].get(claim["spec"].get("volumeName", ""))
                csi = volume["spec"].get("csi") if volume else None
                if csi:
                    found.add((csi["driver"], csi["volumeHandle"]))
        return found

    def _limits(self, node: str) -> dict[str, int]:
        known = self._held[CSI_NODES].get(node) or {"spec": {}}
        drivers = known["spec"].get("drivers") or ()
        told = ((one["name"], (one.get("allocatable") or {}).get("count")) for one in drivers)
        return {name: count for name, count in told if count is not None}


def _is(one: Object, other: Object) -> bool:
    return bool(one["metadata"]["uid"] == other["metadata"]["uid"])


def _notes(one: Object) -> Mapping[str, str]:
    return one["metadata"].get("annotations") or {}


def _reaches(volume: Object, node: Object) -> bool:
    """Return whether the volume allows the node, and the node is in its zone."""
    labels = node["metadata"].get("labels") or {}
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    terms = required["nodeSelectorTerms"] if required else [{}]
    if not any(all(holds(r, labels) for r in t.get("matchExpressions") or ()) for t in terms):
        return False
    if not any(key in labels for key in ZONES):
        return True
    zones = {
        key: value
        for key, value in (volume["metadata"].get("labels") or {}).items()
        if key in ZONES
    }
    return all(labels.get(key) in value.split("__") for key, value in zones.items())
