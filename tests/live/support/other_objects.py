"""Objects of the other kinds for the live tests: one of each kind as created and as changed.

Each comes with the content that the world journal must have. The code shares only the names of
resources and their paths with the product.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from shared.kubernetes.client.kinds import Kind
from tests.support.kube_api import KubeApi

MERGE = "application/merge-patch+json"
NAMESPACED = {
    *("services", "replicationcontrollers", "replicasets", "statefulsets"),
    *("persistentvolumeclaims", "csistoragecapacities", "resourceclaims"),
}
STORED_AS = {"services": "services/specs", "replicationcontrollers": "controllers"}
Fields = dict[str, Any]

TEMPLATE = {
    "metadata": {"labels": {"app": "a", "tier": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
APP = {"matchLabels": {"app": "a"}}
IN_A = {"key": "zone", "operator": "In", "values": ["a"]}
TOLD_IN_A = [{"labels": [IN_A], "fields": []}]
AT_A = {"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}


@dataclass
class Other:
    """`made` gives `published`; `change` gives `changed`, if any field that is read can change
    (None: the field is not recorded any more).
    """

    made: Fields
    published: Fields
    change: Fields = field(default_factory=dict)
    changed: Fields = field(default_factory=dict)


def _controller(more: Fields) -> Other:
    spec = {"selector": APP, "template": TEMPLATE, "replicas": 0, **more}
    return Other({"spec": spec}, {"selector": {"match_labels": [["app", "a"]]}})


OTHERS = {
    "priorityclasses": Other(
        {"value": 7, "preemptionPolicy": "Never"},
        {"value": 7, "never_preempts": True},
        {"globalDefault": True},
        {"is_default": True},
    ),
    "namespaces": Other(
        {"metadata": {"labels": {"env": "test"}}},
        {"labels": [["env", "test"], ["kubernetes.io/metadata.name", "NAME"]]},
        {"metadata": {"labels": {"env": "live"}}},
        {"labels": [["env", "live"], ["kubernetes.io/metadata.name", "NAME"]]},
    ),
    "services": Other(
        {"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}},
        {"selector": [["app", "a"]]},
        {"spec": {"selector": None}},
        {"selector": None},
    ),
    "replicationcontrollers": Other(
        {"spec": {"selector": {"app": "a"}, "template": TEMPLATE, "replicas": 0}},
        {"selector": [["app", "a"]]},
        {"spec": {"selector": {"tier": "x"}}},
        {"selector": [["app", "a"], ["tier", "x"]]},
    ),
    "replicasets": _controller({}),
    "statefulsets": _controller({"serviceName": "s"}),
    "persistentvolumes": Other(
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "none",
                "csi": {"driver": "d.example.com", "volumeHandle": "h"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [IN_A]}]}},
            }
        },
        {
            "capacity_bytes": 1 << 30,
            "access_modes": ["ReadWriteOnce"],
            "storage_class": "none",
            "driver": "d.example.com",
            "handle": "h",
            "node_affinity": TOLD_IN_A,
            "phase": "Pending",
        },
        {
            "metadata": {"labels": {"zone": "a"}},
            "spec": {"claimRef": {"namespace": "default", "name": "c"}},
        },
        {"labels": [["zone", "a"]], "claim": {"namespace": "default", "name": "c"}},
    ),
    "persistentvolumeclaims": Other(
        {
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "none",
                "resources": {"requests": {"storage": "500M"}},
                "selector": APP,
            }
        },
        {
            "access_modes": ["ReadWriteMany"],
            "storage_class": "none",
            "request_bytes": 500_000_000,
            "selector": {"match_labels": [["app", "a"]]},
            "phase": "Pending",
        },
        {
            "metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-a"}},
            "spec": {"volumeName": "v"},
        },
        {"selected_node": "node-a", "volume": "v"},
    ),
    "storageclasses": Other(
        {
            "provisioner": "p.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [AT_A],
        },
        {
            "provisioner": "p.example.com",
            "waits_for_consumer": True,
            "topologies": TOLD_IN_A,
        },
        {"allowedTopologies": None},
        {"topologies": None},
    ),
    "csinodes": Other(
        {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["zone"]}]}},
        {"drivers": [{"name": "d.example.com", "topology_keys": ["zone"]}]},
        {"spec": {"drivers": []}},
        {"drivers": None},
    ),
    "csidrivers": Other(
        {"spec": {"storageCapacity": True}},
        {"storage_capacity": True},
        {"spec": {"storageCapacity": False}},
        {"storage_capacity": None},
    ),
    "csistoragecapacities": Other(
        {"storageClassName": "none", "nodeTopology": {}, "capacity": "2Ki"},
        {"storage_class": "none", "topology": {}, "capacity_bytes": 2048},
        {"capacity": "3Ki", "maximumVolumeSize": "1Ki"},
        {"capacity_bytes": 3072, "volume_bytes_max": 1024},
    ),
    "volumeattachments": Other(
        {
            "spec": {
                "attacher": "d.example.com",
                "nodeName": "node-a",
                "source": {"persistentVolumeName": "v"},
            }
        },
        {"attacher": "d.example.com", "node": "node-a", "volume": "v"},
    ),
    "deviceclasses": Other(
        {"spec": {"selectors": [{"cel": {"expression": "true"}}]}},
        {"value": {"name": "NAME", "selectors": ["true"]}},
        {"spec": {"selectors": None}},
        {"value": {"name": "NAME"}},
    ),
    "resourceslices": Other(
        {
            "spec": {
                "driver": "d.example.com",
                "nodeName": "node-a",
                "pool": {"name": "NAME", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "x"}],
            }
        },
        {
            "value": {
                "name": "NAME",
                "driver": "d.example.com",
                "pool": "NAME",
                "generation": 1,
                "slice_count": 1,
                "place": {"node": "node-a"},
                "devices": [{"name": "x", "place": {}}],
            }
        },
    ),
    "resourceclaims": Other(
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}},
        {
            "value": {
                "namespace": "default",
                "name": "NAME",
                "uid": "UID",
                "spec": {"requests": [{"name": "r", "wanted": [{"device_class": "c"}]}]},
            }
        },
    ),
    "devicetaintrules": Other(
        {
            "spec": {
                "deviceSelector": {"driver": "d.example.com"},
                "taint": {"key": "k", "effect": "NoSchedule"},
            }
        },
        {
            "value": {
                "taint": {"key": "k", "value": "", "effect": "NoSchedule"},
                "driver": "d.example.com",
            }
        },
        {"spec": {"deviceSelector": None}},
        {
            "value": {
                "taint": {"key": "k", "value": "", "effect": "NoSchedule"},
                "selects": False,
            }
        },
    ),
}
NAMED = ("deviceclasses", "resourceslices", "resourceclaims")
"""Their values have the names of the objects."""


def collection(kind: Kind) -> str:
    """Return the path of a collection."""
    if kind.resource not in NAMESPACED:
        return kind.path
    return f"{kind.path.removesuffix(kind.resource)}namespaces/default/{kind.resource}"


def key(kind: Kind, name: str) -> str:
    """Return the key of an object in etcd."""
    place = "default/" if kind.resource in NAMESPACED else ""
    return f"/registry/{STORED_AS.get(kind.resource, kind.resource)}/{place}{name}"


def body_of(kind: Kind, name: str) -> Fields:
    """Return the body of a new object."""
    made = OTHERS[kind.resource].made
    if kind.resource in NAMED:
        made = json.loads(json.dumps(made).replace('"NAME"', json.dumps(name)))
    metadata = {**made.get("metadata", {}), "name": name}
    version = f"{kind.group}/v1" if kind.group else "v1"
    return {**made, "apiVersion": version, "kind": kind.name, "metadata": metadata}


def create(api: KubeApi, kind: Kind, name: str) -> Any:
    """Create an object; return its metadata."""
    return api.create(collection(kind), body_of(kind, name)).ok()["metadata"]


def patch(api: KubeApi, kind: Kind, name: str, change: Fields) -> None:
    """Patch an object."""
    path = f"{collection(kind)}/{name}"
    api.request("PATCH", path, change, content_type=MERGE).ok()


def published(kind: Kind, name: str, uid: str, *, changed: bool = False) -> Fields:
    """Return the content that the journal must have of an object."""
    other = OTHERS[kind.resource]
    fields = {**other.published, **(other.changed if changed else {})}
    if kind.resource == "namespaces":
        fields["labels"] = [[k, name if v == "NAME" else v] for k, v in fields["labels"]]
    if kind.resource in NAMED:
        text = json.dumps(fields).replace('"NAME"', json.dumps(name))
        fields = json.loads(text.replace('"UID"', json.dumps(uid)))
    place = {"namespace": "default"} if kind.resource in NAMESPACED else {}
    fields = {what: value for what, value in fields.items() if value is not None}
    return {"kind": kind.name, "uid": uid, "name": name, **place, **fields}
