"""Cases about volumes of Kubernetes' in-tree plugins and other rare volumes: `case(seed)` is the
case of that seed of volumes.py with one change.
"""

from collections.abc import Callable
from random import Random

from tests.parity.generators import volumes
from tests.parity.generators.case_builder import Object

PORTWORX, PORTWORX_DRIVER = "kubernetes.io/portworx-volume", "pxd.portworx.com"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"

Change = Callable[[Random, Object], None]


def case(seed: int) -> Object:
    """One case."""
    draw, found = Random(f"in tree {seed}"), volumes.case(seed)
    draw.choice(CHANGES)(draw, found)
    return found


def _of(found: Object, kind: str) -> list[Object]:
    return [one for one in found["objects"] if one["kind"] == kind]


def _pods(found: Object) -> list[Object]:
    return [*_of(found, "Pod"), *found["pods"]]


def _put(draw: Random, found: Object, share: float, **source: Object) -> None:
    """Some pods have one more volume."""
    for pod in _pods(found):
        if draw.random() < share:
            pod["spec"]["volumes"].append({"name": "more"} | source)


def _without(found: Object, point: str, *names: str) -> None:
    off = {point: {"disabled": [{"name": name} for name in names]}}
    version = "kubescheduler.config.k8s.io/v1"
    profiles = [{"schedulerName": "default-scheduler", "plugins": off}]
    found["config"] = {"apiVersion": version, "kind": "KubeSchedulerConfiguration"}
    found["config"]["profiles"] = profiles


def portworx(draw: Random, found: Object) -> None:
    """Counted where the node says so, and nowhere else."""
    for volume in _of(found, "PersistentVolume"):
        spec = volume["spec"]
        if "vsphereVolume" in spec or "local" in spec:
            spec.pop("vsphereVolume", None)
            spec.pop("local", None)
            spec["portworxVolume"] = {"volumeID": f"px-{draw.randint(0, 3)}"}
        elif "csi" in spec and draw.random() < 0.3:
            spec["csi"] = {"driver": PORTWORX_DRIVER, "volumeHandle": f"px-{draw.randint(0, 3)}"}
    for node in _of(found, "CSINode"):
        limit = {"count": draw.choice((1, 1, 2))}
        driver = {"name": PORTWORX_DRIVER, "nodeID": "n", "allocatable": limit}
        node["spec"]["drivers"].append(driver)
        notes = node["metadata"].setdefault("annotations", {})
        notes[MIGRATED] = draw.choice((PORTWORX, f"kubernetes.io/cinder,{PORTWORX}", ""))
        if draw.random() < 0.1:
            del node["metadata"]["annotations"]
    for one in _of(found, "StorageClass"):
        if one["metadata"]["name"] in ("zoned", "ebs"):
            one["provisioner"] = PORTWORX
    _put(draw, found, 0.3, portworxVolume={"volumeID": f"px-{draw.randint(0, 3)}"})


def cinder(draw: Random, found: Object) -> None:
    for volume in _of(found, "PersistentVolume"):
        if "vsphereVolume" in volume["spec"] or "local" in volume["spec"]:
            volume["spec"].pop("vsphereVolume", None)
            volume["spec"].pop("local", None)
            volume["spec"]["cinder"] = {"volumeID": f"disk-{draw.randint(0, 3)}"}


def other_disks(draw: Random, found: Object) -> None:
    """Volumes of migrated plugins without a known limit."""
    _put(draw, found, 0.5, azureFile={"secretName": "s", "shareName": "f"})
    _put(draw, found, 0.3, vsphereVolume={"volumePath": "v"})


def malformed(draw: Random, found: Object) -> None:
    """On a node that names its migrated plugins, kube-scheduler would end the cycle."""
    for volume in _of(found, "PersistentVolume"):
        if "awsElasticBlockStore" in volume["spec"] or "local" in volume["spec"]:
            volume["spec"].pop("local", None)
            url = draw.choice(("aws://eu-west-a/bad", "aws://eu-west-a/vol-1"))
            volume["spec"]["awsElasticBlockStore"] = {"volumeID": url}
    for node in _of(found, "CSINode"):
        node["metadata"].pop("annotations", None)


def no_sizes(draw: Random, found: Object) -> None:
    """Claims without a size."""
    for claim in _of(found, "PersistentVolumeClaim"):
        if draw.random() < 0.7:
            claim["spec"]["resources"] = {}


def zones_alone(draw: Random, found: Object) -> None:
    """VolumeZone meets the missing object first."""
    for pod in _pods(found):  # without VolumeBinding the claim of another ends the cycle
        kept = [one for one in pod["spec"]["volumes"] if "ephemeral" not in one]
        pod["spec"]["volumes"] = kept
    others = ["VolumeRestrictions", "NodeVolumeLimits"]
    _without(found, "multiPoint", "VolumeBinding", *draw.choice(((), others)))


def limits_alone(draw: Random, found: Object) -> None:
    """NodeVolumeLimits looks at pods without volumes as well."""
    _without(found, "preFilter", "NodeVolumeLimits")
    for pod in found["pods"]:
        if draw.random() < 0.5:
            pod["spec"]["volumes"] = []


CHANGES: tuple[Change, ...] = (
    *(portworx, cinder, other_disks, malformed, no_sizes, zones_alone, limits_alone),
)
