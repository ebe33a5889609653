"""Volumes in a case: the fields that are read of a pod, and the messages for mistakes."""

import pytest

from shared.kubernetes.objects.errors import WorldError
from shared.model.cluster_objects import PersistentVolumeClaim
from shared.model.volumes import AWS, RBD, ClaimUse, Disk
from shared.worlds.case import case_of
from shared.worlds.manifests import API_VERSIONS
from tests.parity.suites.builders import node, pod

NODE_NOTE = "volume.kubernetes.io/selected-node"
NO_QUANTITY = "'much' is not a quantity (such as 500m, 2, 1.5Gi or 1e3)"


def volumes_of(*volumes, uid=""):
    asked = pod(volumes=list(volumes))
    asked["metadata"]["uid"] = uid
    return case_of("case", {"objects": [node()], "pods": [asked]}).asked[0].spec.volumes


def object_of(kind, name="x", **more):
    made = {"apiVersion": API_VERSIONS[kind], "kind": kind, "metadata": {"name": name}}
    return made | more


def test_the_volumes_of_a_pod_are_read():
    rbd = {"image": "i", "monitors": ["b", "a"], "readOnly": True}
    assert volumes_of(
        {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "d", "awsElasticBlockStore": {"volumeID": "v"}},
        {"name": "e", "rbd": rbd},
        uid="u",
    ) == (
        ClaimUse("c"),
        ClaimUse("p-c", pod="p", owner="u"),
        Disk(AWS, "v"),
        Disk(RBD, "i", read_only=True, pool="rbd", monitors=("a", "b")),
    )


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        (
            {"persistentVolumeClaim": {}},
            "persistentVolumeClaim.claimName: is required",
        ),
        (
            {"azureDisk": {"diskURI": "u"}},
            "azureDisk.kind: must be Managed: no driver has disks of other kinds",
        ),
    ],
)
def test_mistakes_in_a_pod_s_volumes(volume, message):
    with pytest.raises(WorldError) as error:
        volumes_of({"name": "v", **volume})
    assert str(error.value) == f"case: pods[0]: Pod default/p: spec.volumes[0].{message}"


@pytest.mark.parametrize(
    ("notes", "node_name"), [({}, None), ({NODE_NOTE: ""}, ""), ({NODE_NOTE: "a"}, "a")]
)
def test_an_empty_selected_node_is_kept(notes, node_name):
    claim = object_of("PersistentVolumeClaim")
    claim["metadata"]["annotations"] = notes
    [read] = case_of("case", {"objects": [claim], "pods": []}).storage
    assert isinstance(read, PersistentVolumeClaim)
    assert read.selected_node == node_name


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            [object_of("PersistentVolume", spec={"capacity": {"storage": "much"}})],
            "[0]: PersistentVolume x: spec.capacity.storage: " + NO_QUANTITY,
        ),
        (
            [object_of("CSINode"), object_of("CSINode")],
            "[1]: CSINode x: metadata.name: is a duplicate",
        ),
        (
            [object_of("StorageClass", name="")],
            "[0].metadata.name: is required",
        ),
    ],
)
def test_mistakes_in_objects_about_volumes(objects, message):
    with pytest.raises(WorldError) as error:
        case_of("case", {"objects": objects, "pods": []})
    assert str(error.value) == f"case: objects{message}"
