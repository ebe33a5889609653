"""Since 1.37 VolumeBinding scores nodes, and CSI drivers keep pods off nodes without them."""

import pytest

from muster.explain.scoring import score_case
from shared.model.release import ReleaseOptions
from tests.parity.suites.builders import node, pod

V1_36, V1_37 = "1.36", "1.37"
GIB = 1 << 30


def of(kind, name, namespace="", **fields):
    group = "v1" if kind.startswith("Persistent") else "storage.k8s.io/v1"
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": group, "kind": kind, "metadata": meta, **fields}


def storage_class(name="late", provisioner="disk"):
    return of(
        "StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer"
    )


def claim(name="c", gib=10, of_class="late"):
    resources = {"requests": {"storage": f"{gib}Gi"}}
    spec = {"storageClassName": of_class, "accessModes": ["ReadWriteOnce"], "resources": resources}
    return of("PersistentVolumeClaim", name, "default", spec=spec, status={"phase": "Pending"})


def volume(name, node_name, gib, of_class="late"):
    terms = [{"matchExpressions": [{"key": "host", "operator": "In", "values": [node_name]}]}]
    spec = {
        "capacity": {"storage": f"{gib}Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": of_class,
        "csi": {"driver": "disk", "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    return of("PersistentVolume", name, spec=spec, status={"phase": "Available"})


def capacity(node_name, gib, of_class="late"):
    return of(
        "CSIStorageCapacity",
        f"{of_class}-{node_name}",
        "default",
        storageClassName=of_class,
        nodeTopology={"matchLabels": {"host": node_name}},
        capacity=f"{gib}Gi",
    )


def hosts(*names):
    return [node(name, labels={"host": name}) for name in names]


def driver(name="disk", **spec):
    return of("CSIDriver", name, spec=spec)


def csi_node(name, *drivers):
    listed = [{"name": one, "nodeID": name, "topologyKeys": None} for one in drivers]
    return of("CSINode", name, spec={"drivers": listed})


def using(*claims):
    named = [{"claimName": one} for one in claims]
    return pod(volumes=[{"name": one["claimName"], "persistentVolumeClaim": one} for one in named])


def answer(objects, asked, version=V1_37, config=None):
    case = {"objects": objects, "pods": [asked], **({"config": config} if config else {})}
    return score_case(case, release=ReleaseOptions(compatibility=version))["pods"][0]


def storage_scores(found):
    scored = ((name, one["scores"]) for name, one in found["nodes"].items() if one["feasible"])
    return {name: one.get("VolumeBinding") for name, one in scored}


def test_the_node_of_the_emptiest_volume_scores_highest():
    volumes = [volume("va", "a", 10), volume("vb", "b", 40), volume("vc", "c", 100)]
    objects = [*hosts("a", "b", "c"), storage_class(provisioner=NONE), *volumes, claim()]
    found = answer(objects, using("c"))
    assert storage_scores(found) == {"a": 0, "b": 75, "c": 90}
    assert found["best"] == ["c"]
    assert storage_scores(answer(objects, using("c"), V1_36)) == dict.fromkeys("abc")


NONE = "kubernetes.io/no-provisioner"


def test_storage_to_be_provisioned_is_scored_by_the_capacity_that_a_driver_reports():
    reports = [capacity("a", 20), capacity("b", 200), driver(storageCapacity=True)]
    objects = [*hosts("a", "b"), storage_class(), *reports, claim(), claim("d", gib=5)]
    assert storage_scores(answer(objects, using("c", "d"))) == {"a": 25, "b": 93}


def test_where_a_volume_exists_only_volumes_count():
    reports = [capacity("a", 20), capacity("b", 20), driver(storageCapacity=True)]
    volumes = [volume("va", "a", 20)]
    objects = [*hosts("a", "b"), storage_class(), *reports, *volumes, claim(), claim("d", gib=15)]
    # On a the volume serves the smaller claim; on b both are more than the capacity.
    assert storage_scores(answer(objects, using("c", "d"))) == {"a": 50, "b": 0}


def test_classes_count_alike():
    reports = [capacity("a", 40), capacity("a", 20, "other"), driver(storageCapacity=True)]
    classes = [storage_class(), storage_class("other")]
    claims = [claim(), claim("d", gib=15, of_class="other")]
    found = answer([*hosts("a"), *classes, *reports, *claims], using("c", "d"))
    assert storage_scores(found) == {"a": 50}  # of 75 and 25


def test_a_profile_may_prefer_the_fullest():
    points = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "VolumeBinding", "args": {"shape": points}}]}],
    }
    volumes = [volume("va", "a", 10), volume("vb", "b", 40)]
    objects = [*hosts("a", "b"), storage_class(provisioner=NONE), *volumes, claim()]
    assert storage_scores(answer(objects, using("c"), config=config)) == {"a": 100, "b": 25}


def test_pods_without_claims_get_no_points():
    assert storage_scores(answer(hosts("a"), pod())) == {"a": 0}
    assert storage_scores(answer(hosts("a"), pod(), V1_36)) == {"a": None}


LACKING = "disk CSI driver is not installed on the node"


@pytest.mark.parametrize(
    ("version", "spec", "feasible"),
    [
        (V1_36, {"preventPodSchedulingIfMissing": True}, ["a", "b", "c"]),
        (V1_37, {"preventPodSchedulingIfMissing": True}, ["b"]),
        (V1_37, {"preventPodSchedulingIfMissing": False}, ["a", "b", "c"]),
    ],
)
def test_a_driver_keeps_pods_off_nodes_without_it_since_1_37(version, spec, feasible):
    nodes = [*hosts("a", "b", "c"), csi_node("a", "other"), csi_node("b", "disk")]
    found = answer([*nodes, storage_class(), driver(**spec), claim()], using("c"), version)
    assert [name for name, one in found["nodes"].items() if one["feasible"]] == feasible
    for name in {"a", "c"}.difference(feasible):
        one = found["nodes"][name]
        assert (one["plugin"], one["reasons"]) == ("NodeVolumeLimits", [LACKING])
        assert one["code"] == "Unschedulable"


def test_an_in_tree_disk_needs_its_driver_where_drivers_are_known():
    needed = driver("ebs.csi.aws.com", preventPodSchedulingIfMissing=True)
    nodes = [*hosts("a", "b"), csi_node("a", "other")]
    disk = {"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    found = answer([*nodes, needed], pod(volumes=[disk]))
    assert [one["feasible"] for one in found["nodes"].values()] == [False, True]


@pytest.mark.parametrize(("version", "feasible"), [("1.35", True), (V1_36, False)])
def test_portworx_disks_count_wherever_drivers_are_known_since_1_36(version, feasible):
    known = csi_node("a", "pxd.portworx.com")
    known["spec"]["drivers"][0]["allocatable"] = {"count": 0}
    disk = {"name": "d", "portworxVolume": {"volumeID": "vol-1"}}
    found = answer([*hosts("a"), known], pod(volumes=[disk]), version)
    assert found["nodes"]["a"]["feasible"] == feasible
