"""Other objects of a live API: which of their fields are read, reported or left out."""

import asyncio
import logging
from typing import Any, get_args

import msgspec
import pytest
from aiohttp import web

from shared.events.observed import InputRejected, ObjectsDeletedSeen, ObjectsSeen
from shared.kubernetes.client.client import ApiError
from shared.kubernetes.client.kinds import OTHER_KINDS, QUEUES
from shared.kubernetes.cluster import KubeCluster
from shared.model import claims
from shared.model import cluster_objects as model
from shared.model.cluster_objects import LabelSelector
from shared.model.columns import split
from shared.model.objects import Requirement, SelectorTerm
from tests.unit.kubernetes.fake_api import FakeApi
from tests.unit.kubernetes.watch import Watch

APP = {"matchLabels": {"app": "a"}}
IN_A = [{"key": "zone", "operator": "In", "values": ["a"]}]
ONE = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
GIVEN = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
POOL = {"name": "p", "generation": 1, "resourceSliceCount": 1}
SLICE = {"driver": "d", "pool": POOL, "nodeName": "n", "devices": [{"name": "x"}]}
KNOWN: tuple[Any, ...] = get_args(model.ClusterObject)
WHOLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "priorityclasses": (
        {"value": 5, "globalDefault": True, "preemptionPolicy": "Never", "description": "d"},
        {"value": 5, "is_default": True, "never_preempts": True},
    ),
    "namespaces": (
        {"metadata": {"labels": {"b": "2", "a": "1"}}},
        {"labels": (("a", "1"), ("b", "2"))},
    ),
    "services": ({"spec": {"selector": {"app": "a"}, "ports": 7}}, {"selector": (("app", "a"),)}),
    "replicationcontrollers": (
        {"spec": {"selector": {"app": "a"}, "template": {}}},
        {"selector": (("app", "a"),)},
    ),
    "replicasets": (
        {"spec": {"selector": {"matchExpressions": IN_A}, "replicas": "many"}},
        {"selector": LabelSelector(match_expressions=(Requirement("zone", "In", ("a",)),))},
    ),
    "statefulsets": (
        {"spec": {"selector": APP, "serviceName": "s"}},
        {"selector": LabelSelector((("app", "a"),))},
    ),
    "persistentvolumes": (
        {
            "metadata": {"labels": {"zone": "a"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block",
                "storageClassName": "fast",
                "volumeAttributesClassName": "gold",
                "claimRef": {"namespace": "default", "name": "c", "uid": "u", "kind": "x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": IN_A}]}},
                "csi": {"driver": "d", "volumeHandle": "h", "fsType": "ext4"},
                "mountOptions": 7,
            },
            "status": {"phase": "Bound"},
        },
        {
            "capacity_bytes": 1 << 30,
            "access_modes": ("ReadWriteOnce",),
            "is_block": True,
            "storage_class": "fast",
            "attributes_class": "gold",
            "claim": model.ClaimRef("default", "c", "u"),
            "node_affinity": (SelectorTerm((Requirement("zone", "In", ("a",)),)),),
            "driver": "d",
            "handle": "h",
            "in_tree": "",
            "labels": (("zone", "a"),),
            "phase": "Bound",
            "is_leaving": True,
        },
    ),
    "persistentvolumeclaims": (
        {
            "metadata": {
                "annotations": {
                    "volume.kubernetes.io/selected-node": "node-a",
                    "pv.kubernetes.io/bind-completed": "yes",
                    "other": "x",
                },
                "ownerReferences": [{"uid": "no"}, {"uid": "pod", "controller": True}],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "volumeName": "v",
                "storageClassName": "fast",
                "volumeAttributesClassName": "gold",
                "accessModes": ["ReadOnlyMany"],
                "volumeMode": "Block",
                "resources": {"requests": {"storage": "500M"}},
                "selector": APP,
            },
            "status": {"phase": "Pending", "capacity": 7},
        },
        {
            "volume": "v",
            "storage_class": "fast",
            "attributes_class": "gold",
            "access_modes": ("ReadOnlyMany",),
            "is_block": True,
            "request_bytes": 500_000_000,
            "selector": LabelSelector((("app", "a"),)),
            "phase": "Pending",
            "selected_node": "node-a",
            "is_bind_completed": True,
            "is_leaving": True,
            "controller": "pod",
        },
    ),
    "storageclasses": (
        {
            "provisioner": "p",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["b", "a"]}]}],
            "parameters": 7,
        },
        {
            "provisioner": "p",
            "waits_for_consumer": True,
            "topologies": (SelectorTerm((Requirement("z", "In", ("a", "b")),)),),
        },
    ),
    "csinodes": (
        {
            "spec": {
                "drivers": [
                    {
                        "name": "d",
                        "nodeID": "n",
                        "allocatable": {"count": 3},
                        "topologyKeys": ["z"],
                    },
                    {"name": "e", "nodeID": "n", "topologyKeys": None},
                ]
            },
            "metadata": {
                "annotations": {
                    "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,a,a"
                }
            },
        },
        {
            "drivers": (model.NodeDriver("d", 3, ("z",)), model.NodeDriver("e")),
            "migrated": ("a", "kubernetes.io/gce-pd"),
        },
    ),
    "csidrivers": (
        {
            "spec": {
                "storageCapacity": True,
                "preventPodSchedulingIfMissing": True,
                "podInfoOnMount": 7,
            }
        },
        {"storage_capacity": True, "is_needed": True},
    ),
    "csistoragecapacities": (
        {
            "storageClassName": "fast",
            "nodeTopology": {},
            "capacity": "2Ki",
            "maximumVolumeSize": "1Ki",
        },
        {
            "storage_class": "fast",
            "topology": LabelSelector(),
            "capacity_bytes": 2048,
            "volume_bytes_max": 1024,
        },
    ),
    "volumeattachments": (
        {
            "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
            "status": {"attached": True},
        },
        {"attacher": "d", "node": "n", "volume": "v"},
    ),
    "deviceclasses": (
        {"spec": {"selectors": [], "config": [], "extendedResourceName": "e"}, "status": 7},
        {"value": claims.DeviceClass("whole")},
    ),
    "resourceslices": (
        {"spec": SLICE, "status": 7},
        {
            "value": claims.ResourceSlice(
                "whole", "d", "p", 1, 1, claims.Reach(node="n"), (claims.Device("x"),)
            )
        },
    ),
    "resourceclaims": (
        {
            "metadata": {"ownerReferences": [{"uid": "pod", "controller": True}]},
            "spec": {"devices": {"requests": [ONE]}},
            "status": {
                "allocation": {"devices": {"results": [GIVEN]}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod"}],
                "devices": 7,
            },
        },
        {
            "value": claims.ResourceClaim(
                "default",
                "whole",
                "uid-whole",
                claims.ClaimSpec((claims.Request("r", (claims.Wanted("gpu"),)),)),
                owner="pod",
                allocation=claims.Allocation((claims.DeviceResult("r", "d", "p", "x"),)),
            ),
            "reserved_for": ("pod",),
        },
    ),
    "devicetaintrules": (
        {
            "spec": {
                "deviceSelector": {"driver": "d", "pool": "p", "device": "x"},
                "taint": {"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "now"},
            },
            "status": 7,
        },
        {
            "value": claims.DeviceTaintRule(
                claims.DeviceTaint("k", "v", "NoSchedule"), True, "d", "p", "x"
            )
        },
    ),
}
"""Every field that is read, and one that is not, with a wrong type."""


async def listed(cluster: KubeCluster) -> list[model.ClusterObject]:
    events = (await cluster.list_all("objects")).events
    return [one for event in events if isinstance(event, ObjectsSeen) for one in event.objects]


def test_every_kind_is_tried():
    assert list(WHOLE) == [kind.resource for kind in OTHER_KINDS]


@pytest.mark.parametrize("kind", OTHER_KINDS, ids=lambda kind: kind.resource)
async def test_the_fields_of_each_kind_are_read(cluster: KubeCluster, api: FakeApi, kind):
    written, read = WHOLE[kind.resource]
    api.put(kind.resource, "whole", **written)
    (found,) = await listed(cluster)
    made = next(one for one in KNOWN if one.__struct_config__.tag == kind.name)
    revision = {"revision": found.revision} if isinstance(found, model.ClaimObject) else {}
    assert found == made(uid="uid-whole", name="whole", namespace="default", **read, **revision)
    unread = {"problem"} if isinstance(found, model.ClaimObject) else set()
    assert {*read, *revision, *unread, "uid", "name", "namespace"} == set(made.__struct_fields__)


def test_all_fields_of_a_queue_are_read():
    spec = {"parent": "all", "max": {"cpu": 2}, "guaranteed": {"cpu": "1500m"}}
    body = {"metadata": {"name": "q", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    found = QUEUES.value(msgspec.convert(body, QUEUES.item))
    read = {"parent": "all", "max": (("cpu", 2_000),), "guaranteed": (("cpu", 1_500),)}
    assert found == model.Queue(uid="u", name="q", **read)
    assert {*read, "uid", "name", "namespace"} == set(model.Queue.__struct_fields__)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, ("gcePersistentDisk", "d")),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, ("awsElasticBlockStore", "d")),
        ({"portworxVolume": {"volumeID": "d"}}, ("portworxVolume", "d")),
        ({"cinder": {"volumeID": "d"}}, ("cinder", "d")),
        ({"azureDisk": {"diskURI": "d", "kind": "Managed"}}, ("azureDisk", "d")),
        ({"azureDisk": {"diskURI": "d", "kind": "Shared"}}, ("", "")),
        ({"nfs": {"path": "d"}}, ("", "")),
    ],
)
async def test_volumes_of_plugins_that_drivers_took_over(
    cluster: KubeCluster, api: FakeApi, source, found
):
    api.put("persistentvolumes", "v", spec=source)
    (volume,) = await listed(cluster)
    assert isinstance(volume, model.PersistentVolume)
    assert (volume.in_tree, volume.handle, volume.driver) == (*found, "")


async def test_an_empty_class_of_the_annotation_counts(cluster: KubeCluster, api: FakeApi):
    notes = {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}
    api.put("persistentvolumes", "v", metadata=notes, spec={"storageClassName": "fast"})
    (volume,) = await listed(cluster)
    assert isinstance(volume, model.PersistentVolume)
    assert volume.storage_class == ""


@pytest.mark.parametrize(
    "kind",
    [one for one in OTHER_KINDS if one.resource not in ("resourceslices", "devicetaintrules")],
    ids=lambda kind: kind.resource,
)
async def test_an_empty_object_is_read(cluster: KubeCluster, api: FakeApi, kind):
    api.put(kind.resource, "empty", spec=None, status=None)
    (found,) = await listed(cluster)
    assert (found.__struct_config__.tag, found.name) == (kind.name, "empty")


async def test_capacity_of_nowhere_is_not_capacity_of_everywhere(
    cluster: KubeCluster, api: FakeApi
):
    api.put("csistoragecapacities", "nowhere")
    (found,) = await listed(cluster)
    assert isinstance(found, model.CSIStorageCapacity)
    assert (found.topology, found.capacity_bytes) == (None, None)


async def test_changes_outside_scheduling_fields_are_not_reported(
    cluster: KubeCluster, api: FakeApi
):
    watch = Watch(cluster, api.revision)
    api.put("replicasets", "a", spec={"selector": APP}, status={"replicas": 1})
    await watch.until(lambda: len(watch.of(ObjectsSeen)) == 1)
    for number in range(5):
        api.put("replicasets", "a", spec={"selector": APP}, status={"replicas": number})
    api.put("replicasets", "a", spec={"selector": {}})
    await watch.until(lambda: len(watch.of(ObjectsSeen)) == 2)
    decided = [one for event in watch.of(ObjectsSeen) for one in event.objects]
    assert [one.selector for one in decided] == [LabelSelector((("app", "a"),)), LabelSelector()]
    api.delete("replicasets", "a")
    await watch.until(lambda: bool(watch.of(ObjectsDeletedSeen)))
    assert [split(event.uids) for event in watch.of(ObjectsDeletedSeen)] == [["uid-a"]]
    await watch.close()


@pytest.mark.parametrize("is_known", [True, False])
async def test_an_object_that_becomes_unusable_counts_as_deleted(
    cluster: KubeCluster, api: FakeApi, is_known
):
    """Also for the next owner of a watch, which has not read the object before."""
    watch = Watch(cluster, api.revision)
    api.put("resourceslices", "a", spec=SLICE)
    if is_known:
        await watch.until(lambda: bool(watch.of(ObjectsSeen)))
    else:
        await watch.close()
        watch = Watch(cluster, api.revision)
    later = [{"name": "x", "bindsToNode": True}]
    api.put("resourceslices", "a", spec=SLICE | {"devices": later})
    await watch.until(lambda: bool(watch.of(InputRejected)))
    assert [event.uids for event in watch.of(ObjectsDeletedSeen)] == ["uid-a"]
    assert cluster.left_out.counts() == {"ResourceSlice": 1}
    seen = len(watch.of(ObjectsSeen))
    api.put("resourceslices", "a", spec=SLICE)
    await watch.until(lambda: len(watch.of(ObjectsSeen)) > seen)
    assert not cluster.left_out
    await watch.close()


async def test_an_unusable_object_is_named_and_stops_no_other(cluster: KubeCluster, api: FakeApi):
    api.put("storageclasses", "good", provisioner="p")
    api.put("storageclasses", "bad", provisioner=7)
    api.put("persistentvolumes", "v", spec={"capacity": {"storage": "much"}})
    api.put("services", "s", spec={"selector": "app=a"})
    api.put("replicasets", "r", spec=3)
    events = (await cluster.list_all("objects")).events
    rejected = [event for event in events if isinstance(event, InputRejected)]
    assert [(one.what, one.field) for one in rejected] == [
        ("Service default/s", "spec.selector"),
        ("ReplicaSet default/r", "spec"),
        ("PersistentVolume default/v", "spec.capacity.storage"),
        ("StorageClass default/bad", "provisioner"),
    ]
    assert rejected[-1].rule == "must be text, is 7"
    (seen,) = [event for event in events if isinstance(event, ObjectsSeen)]
    assert [one.name for one in seen.objects] == ["good"]


async def test_lists_are_requested_at_the_same_time(cluster: KubeCluster, api: FakeApi):
    """Each list waits until all are requested."""
    await cluster.list_all("gangs")
    asked = asyncio.Barrier(len(OTHER_KINDS))

    async def wait(request: web.Request) -> web.StreamResponse | None:
        await asyncio.wait_for(asked.wait(), 5)
        return None

    api.faults.extend([("GET ", wait)] * len(OTHER_KINDS))
    await cluster.list_all("objects")
    assert not api.faults


async def test_lists_together_are_as_old_as_the_oldest(cluster: KubeCluster, api: FakeApi):
    async def answer_then_change(request: web.Request) -> web.StreamResponse:
        answered = await api.answer(request)
        api.put("services", "meanwhile")
        return answered

    await cluster.list_all("gangs")
    before = api.revision
    api.faults.append(("/priorityclasses?", answer_then_change))
    assert (await cluster.list_all("objects")).revision == before < api.revision


async def test_kinds_that_are_not_served_are_left_out_and_reported_once(
    cluster: KubeCluster, api: FakeApi, caplog
):
    api.unserved.update(("csinodes", "csidrivers"))
    api.put("storageclasses", "fast")
    with caplog.at_level(logging.WARNING):
        assert [one.name for one in await listed(cluster)] == ["fast"]
        watch = Watch(cluster, api.revision)
        api.put("storageclasses", "slow")
        await watch.until(lambda: bool(watch.of(ObjectsSeen)))
        await watch.close()
    paths = "/apis/storage.k8s.io/v1/csinodes, /apis/storage.k8s.io/v1/csidrivers"
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"not served, so left out: {paths}"]


async def test_a_forbidden_kind_is_an_error(cluster: KubeCluster, api: FakeApi):
    api.fails("/csinodes", 403, 'cannot list resource "csinodes"')
    with pytest.raises(ApiError, match='403: cannot list resource "csinodes"'):
        await cluster.list_all("objects")
