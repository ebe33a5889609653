"""The oracle's stores hold what plugins look up: domains, namespaces, claims, volumes."""

import pytest

from tests.parity.suites.builders import UNRESOLVABLE, node, only, pod, refused

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
APP = {"matchLabels": {"app": "x"}}


def zoned(name, zone):
    return node(name, labels={HOSTNAME: name, ZONE: zone})


def app_pod(name, place=None, **spec):
    status = {"phase": "Running"} if place else None
    if place:
        spec["nodeName"] = place
    made = pod(name, status=status, **spec)
    made["metadata"]["labels"] = {"app": "x"}
    return made


def spread(key, when, **more):
    one = {"topologyKey": key, "whenUnsatisfiable": when, "labelSelector": APP, **more}
    return {"topologySpreadConstraints": [one]}


def affinity(kind, **term):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, **term}]}
    return {"affinity": {kind: required}}


def claim(name, *, bound="", storage_class="late"):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"} if bound else {},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": storage_class,
            "volumeName": bound,
        },
        "status": {"phase": "Bound" if bound else "Pending"},
    }


def volume(name, host):
    expression = {"key": HOSTNAME, "operator": "In", "values": [host]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "late",
            "csi": {"driver": "disk", "volumeHandle": name},
            "nodeAffinity": {"required": terms},
        },
        "status": {"phase": "Available"},
    }


def storage_class(name, mode):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": mode,
    }


LATE = storage_class("late", "WaitForFirstConsumer")


def with_claim(name):
    return pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def test_preferred_spreading_over_zones(oracle):
    """Zones with 0, 1 and 3 pods at maxSkew 5: 100, 77 and 44, with weight 2."""
    nodes = [zoned("a", "1"), zoned("b", "2"), zoned("c", "3")]
    held = [app_pod(f"p{i}", place) for i, place in enumerate("bccc")]
    asked = app_pod("p", **spread(ZONE, "ScheduleAnyway", maxSkew=5))
    answer = only(oracle, *nodes, *held, asked=asked)
    scores = [answer["nodes"][name]["scores"]["PodTopologySpread"] for name in "abc"]
    assert scores == [200, 154, 88]


def test_required_spreading(oracle):
    nodes = [zoned("a", "1"), zoned("b", "2"), node("c")]
    asked = app_pod("p", **spread(ZONE, "DoNotSchedule", maxSkew=1))
    answer = only(oracle, *nodes, app_pod("held", "a"), asked=asked)
    words = "node(s) didn't match pod topology spread constraints"
    assert answer["best"] == ["b"]
    assert answer["nodes"]["a"] == refused("Unschedulable", "PodTopologySpread", words)
    missing = f"{words} (missing required label)"
    assert answer["nodes"]["c"] == refused(UNRESOLVABLE, "PodTopologySpread", missing)


def test_the_api_server_merges_label_keys_into_selectors(oracle):
    nodes = [zoned("a", "1"), zoned("b", "2")]
    held = [app_pod("old1", "a"), app_pod("old2", "a"), app_pod("new", "b")]
    for one, version in zip(held, "112", strict=True):
        one["metadata"]["labels"]["version"] = version
    asked = app_pod(
        "p", **affinity("podAntiAffinity", labelSelector=APP, matchLabelKeys=["version"])
    )
    asked["metadata"]["labels"]["version"] = "2"
    assert only(oracle, *nodes, *held, asked=asked)["best"] == ["a"]


def test_pods_of_other_namespaces_are_found_by_the_labels_of_these(oracle):
    nodes = [zoned("a", "1"), zoned("b", "2")]
    held = app_pod("held", "a")
    held["metadata"]["namespace"] = "other"
    name = {"matchLabels": {"kubernetes.io/metadata.name": "other"}}
    near = affinity("podAffinity", labelSelector=APP, namespaceSelector=name)
    answer = only(oracle, *nodes, held, asked=pod(**near))
    assert answer["best"] == ["a"]
    words = "node(s) didn't match pod affinity rules"
    assert answer["nodes"]["b"] == refused(UNRESOLVABLE, "InterPodAffinity", words)
    far = affinity("podAntiAffinity", labelSelector=APP, namespaceSelector=name)
    answer = only(oracle, *nodes, held, asked=pod(**far))
    words = "node(s) didn't match pod anti-affinity rules"
    assert answer["nodes"]["a"] == refused("Unschedulable", "InterPodAffinity", words)


def test_a_late_claim_goes_where_a_volume_is(oracle):
    objects = [zoned("a", "1"), zoned("b", "2"), LATE, claim("c"), volume("v", "b")]
    answer = only(oracle, *objects, asked=with_claim("c"))
    assert answer["best"] == ["b"]
    words = "node(s) didn't find available persistent volumes to bind"
    assert answer["nodes"]["a"] == refused(UNRESOLVABLE, "VolumeBinding", words)


def test_a_bound_claim_goes_where_its_volume_is(oracle):
    objects = [zoned("a", "1"), zoned("b", "2"), LATE, claim("c", bound="v"), volume("v", "b")]
    answer = only(oracle, *objects, asked=with_claim("c"))
    assert answer["best"] == ["b"]
    words = "node(s) didn't match PersistentVolume's node affinity"
    assert answer["nodes"]["a"] == refused(UNRESOLVABLE, "VolumeBinding", words)


def test_an_immediate_claim_must_be_bound_first(oracle):
    objects = [node(), storage_class("now", "Immediate"), claim("c", storage_class="now")]
    answer = only(oracle, *objects, asked=with_claim("c"))
    assert answer["preFilterStatus"] == {
        "code": UNRESOLVABLE,
        "plugin": "VolumeBinding",
        "reasons": ["pod has unbound immediate PersistentVolumeClaims"],
    }


@pytest.mark.parametrize("limit", [1, 2])
def test_a_driver_s_limit_counts_the_volumes_of_the_node_s_pods(oracle, limit):
    csi_node = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "b"},
        "spec": {"drivers": [{"name": "disk", "nodeID": "b", "allocatable": {"count": limit}}]},
    }
    held = with_claim("c1")
    held["metadata"]["name"], held["spec"]["nodeName"] = "held", "b"
    held["status"] = {"phase": "Running"}
    volumes = [volume("v1", "b"), volume("v2", "b")]
    claims = [claim("c1", bound="v1"), claim("c2", bound="v2")]
    objects = [zoned("b", "1"), csi_node, LATE, *volumes, *claims, held]
    answer = only(oracle, *objects, asked=with_claim("c2"))
    if limit == 2:
        assert answer["best"] == ["b"]
        return
    words = "node(s) exceed max volume count"
    assert answer["nodes"]["b"] == refused("Unschedulable", "NodeVolumeLimits", words)
