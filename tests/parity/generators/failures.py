"""Cases that end kube-scheduler's cycle with an error, and that Muster refuses: profiles with a
plugin that lacks the earlier extension point, extenders with senseless replies about victims, and
disks without a driver. Muster accepts one kind in part: volumes whose driver would not know them
(docs/reference/differences.md). `case(seed, url)`; the extenders are at `url`.
"""

from random import Random

from tests.parity.comparison import compare
from tests.parity.generators import preemption, volumes
from tests.parity.generators.case_builder import Object
from tests.parity.oracle.extender_server import ACCUSES, BREAKS, FAILS, SPARES
from tests.parity.suites.builders import node, pod

NO_PRE_FILTER = (
    *("NodeResourcesFit", "NodePorts", "PodTopologySpread", "InterPodAffinity"),
    *("VolumeRestrictions", "VolumeBinding"),
)
NO_PRE_SCORE = ("TaintToleration", "PodTopologySpread", "InterPodAffinity")
UNTRANSLATED = "could not translate pv: "
MANNERS = (FAILS, SPARES, ACCUSES, BREAKS)


def case(seed: int, url: str) -> Object:
    """One case; a case of preemption that needs no victims is decided as usual."""
    draw = Random(f"failures {seed}")
    match draw.randrange(4):
        case 0:
            return _lacking(draw)
        case 1:
            return _unmanaged(draw)
        case 2:
            return _malformed(draw, seed)
    return _preempting(draw, seed, url)


def _config(**fields: object) -> Object:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
    } | fields


def _lacking(draw: Random) -> Object:
    names = [("preFilter", name) for name in NO_PRE_FILTER]
    names += [("preScore", name) for name in NO_PRE_SCORE]
    point, name = draw.choice(names)
    plugins = {point: {"disabled": [{"name": name}]}}
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    nodes = [node(f"node-{number}") for number in range(draw.randint(2, 5))]
    return {"objects": nodes, "pods": [pod()], "config": _config(profiles=[profile])}


def _unmanaged(draw: Random) -> Object:
    """The disk is the pod's own, or that of a pod that is there."""
    driver = {"name": "disk.csi.azure.com", "nodeID": "a", "allocatable": {"count": 3}}
    csi = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "a"}}
    objects = [node("a"), csi | {"spec": {"drivers": [driver]}}]
    bad, good = (
        {"name": "v", "azureDisk": {"diskName": "d", "diskURI": "d", "kind": kind}}
        for kind in (draw.choice(("Dedicated", "Shared")), "Managed")
    )
    if draw.random() < 0.5:
        return {"objects": objects, "pods": [pod(volumes=[bad])]}
    there = pod("there", nodeName="a", volumes=[bad])
    return {"objects": [*objects, there], "pods": [pod(volumes=[good])]}


def _malformed(draw: Random, seed: int) -> Object:
    """Where the node says that the driver has such volumes."""
    found = volumes.case(seed)
    for one in found["objects"]:
        if one["kind"] == "CSINode":
            notes = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs"}
            one["metadata"]["annotations"] = notes
        elif one["kind"] == "PersistentVolume" and draw.random() < 0.7:
            spec = one["spec"]
            for source in ("csi", "local", "gcePersistentDisk", "azureDisk", "vsphereVolume"):
                spec.pop(source, None)
            spec["awsElasticBlockStore"] = {"volumeID": "aws://eu-west-a/bad"}
    return found


def _preempting(draw: Random, seed: int, url: str) -> Object:
    found = preemption.case(seed)
    for one in (*found["objects"], *found["pods"]):
        if one["kind"] == "Pod":
            one["metadata"]["uid"] = f"uid-{one['metadata']['name']}"
    extender = {
        "urlPrefix": f"{url}/p{seed}-{draw.choice(MANNERS)}",
        "httpTimeout": "60s",
        "nodeCacheCapable": True,
        "preemptVerb": "preempt",
    }
    return found | {"config": _config(extenders=[extender])}


def differences(ours: Object, theirs: Object) -> list[str]:
    """None where both refuse, or as written down; a failure of ours that is not meant is none."""
    is_meant = ours.get("error", "").startswith("WorldError: ")
    is_known = "pods" in ours and UNTRANSLATED in theirs.get("error", "")
    return [] if "error" in theirs and (is_meant or is_known) else compare.differences(ours, theirs)
