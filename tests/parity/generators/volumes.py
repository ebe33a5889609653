"""Cases about volumes: claims in every state, volumes, classes, drivers with limits and with room,
disks that pods name themselves, and pods that use them already.

Volumes of one class differ in size: between equal ones kube-scheduler takes that of a Go map.
"""

from random import Random
from typing import Any

Object = dict[str, Any]

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
EBS_ZONE, GKE_ZONE = "topology.ebs.csi.aws.com/zone", "topology.gke.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = ("eu-west-a", "eu-west-b", "eu-east-a")
DRIVERS = ("disk", "capped", "ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com")
CLASSES = ("now", "late", "static", "zoned", "capped", "ebs", "file", "missing", "")
PLUGINS = ("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone")
NAMESPACES = ("default", "default", "default", "team")
OF_VOLUMES = (*CLASSES[:7], "late", "late", "static", "static", "static")
IN_TREE = ("kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/cinder")
MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
VOLUME_MESSAGES = (
    "node(s) had no available disk",
    IN_USE,
    "node(s) exceed max volume count",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    "node(s) had no available volume zone",
    "pod has unbound immediate PersistentVolumeClaims",
    'persistentvolumeclaim "nobody" not found',
    "is being deleted",
    "bound to non-existent persistentvolume",
    "waiting for ephemeral volume controller to create the persistentvolumeclaim",
    "(pod is not owner)",
    'persistentvolume "gone" not found',
)


def case(seed: int, preempt: bool = False) -> Object:
    """One case; with `preempt` pods differ in priority, and most claims are in order."""
    return _Case(Random(seed), preempt).made()


class _Case:
    def __init__(self, draw: Random, preempt: bool) -> None:
        self.draw, self.preempt = draw, preempt
        off = draw.choice((1, 1, 2, 3)) if draw.random() < 0.15 else 0
        self.off = draw.sample(PLUGINS, off)
        self.objects: list[Object] = []
        self.claims: list[Object] = []
        self.names = [f"n{number}" for number in range(draw.randint(1, 7))]
        self.sizes = draw.sample(range(10, 400), 200)
        self.numbers = 0

    def made(self) -> Object:
        draw = self.draw
        self.objects += [self.node(name) for name in self.names]
        self.objects += [self.csi_node(name) for name in self.names if draw.random() < 0.85]
        self.objects += _classes(draw)
        self.objects += [self.volume() for _ in range(draw.choice((0, 3, 7, 12)))]
        for number in range(draw.choice((1, 3, 6, 9))):
            self.claim(f"c{number}", draw.choice(NAMESPACES))
        self.objects += _distinct([self.capacity() for _ in range(draw.choice((0, 1, 3)))])
        self.objects += [self.attachment() for _ in range(draw.choice((0, 0, 2, 6)))]
        if self.preempt:
            self.objects += [_priority("low", -5), _priority("high", 100)]
        for _ in range(draw.choice((0, 2, 5, 12))):
            self.objects.append(self.pod("placed", draw.choice(self.names)))
        if draw.random() < 0.2:
            waiting = self.pod("nominated", runs=True)
            waiting["status"] = {"nominatedNodeName": draw.choice(self.names)}
            self.objects.append(waiting)
        asked = [self.pod("asked") for _ in range(draw.randint(1, 4))]
        found: Object = {"objects": [*self.objects, *self.claims], "pods": asked}
        if self.off:
            found["config"] = _without(self.off)
        return {**found, "preempt": True} if self.preempt else found

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    # ---------------------------------------------------------------------------- nodes

    def node(self, name: str) -> Object:
        draw = self.draw
        labels, zone = {HOSTNAME: name}, draw.choice(ZONES)
        if draw.random() < 0.8:
            labels |= {ZONE: zone, REGION: zone[:-2]}
        if draw.random() < 0.2:
            labels |= {BETA_ZONE: zone, BETA_REGION: zone[:-2]}
        if draw.random() < 0.5:
            labels[draw.choice((EBS_ZONE, GKE_ZONE))] = draw.choice(ZONES)
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": amounts},
        }

    def csi_node(self, name: str) -> Object:
        draw = self.draw
        drivers = []
        for driver in draw.sample(DRIVERS, draw.randint(0, len(DRIVERS))):
            one: Object = {"name": driver, "nodeID": name}
            if draw.random() < 0.8:
                one["allocatable"] = {"count": draw.choice((0, 1, 1, 2, 3))}
            drivers.append(one)
        metadata: Object = {"name": name}
        if draw.random() < 0.6:
            migrated = draw.sample(IN_TREE, draw.randint(0, 3))
            note = "storage.alpha.kubernetes.io/migrated-plugins"
            metadata["annotations"] = {note: ",".join(migrated)}
        return _of("CSINode", metadata, spec={"drivers": drivers})

    def capacity(self) -> Object:
        draw = self.draw
        made = _of("CSIStorageCapacity", {"name": f"room-{self.number()}", "namespace": "team"})
        made["storageClassName"] = draw.choice(("capped", "capped", "late"))
        if draw.random() < 0.9:
            made["nodeTopology"] = draw.choice(
                (
                    {},
                    {"matchLabels": {ZONE: draw.choice(ZONES)}},
                    {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]},
                    {"matchExpressions": [_in(ZONE, *ZONES[:2]) | {"operator": "NotIn"}]},
                )
            )
        for key in ("capacity", "maximumVolumeSize"):
            if draw.random() < 0.6:
                made[key] = f"{draw.choice((10, 100, 500))}Gi"
        if "maximumVolumeSize" in made:  # without a capacity kube-scheduler 1.37 ends
            made.setdefault("capacity", "500Gi")
        return made

    def attachment(self) -> Object:
        draw = self.draw
        volumes = [one["metadata"]["name"] for one in self.objects if one["kind"] == VOLUME]
        source = {"persistentVolumeName": draw.choice([*volumes, "gone"])}
        if draw.random() < 0.1:
            source = {}
        spec = {
            "attacher": draw.choice(("disk", "disk", "capped", "ebs.csi.aws.com")),
            "nodeName": draw.choice(self.names),
            "source": source,
        }
        return _of("VolumeAttachment", {"name": f"at-{self.number()}"}, spec=spec)

    # ---------------------------------------------------------------------------- volumes

    def volume(self, claim: Object | None = None, name: str = "") -> Object:
        """A volume, for a claim that has it or for any claim."""
        draw = self.draw
        name = name or f"pv{self.number()}"
        wanted = claim["spec"] if claim else {}
        modes = wanted.get("accessModes") or draw.sample(MODES[:3], draw.randint(1, 3))
        spec: Object = {
            "capacity": {"storage": f"{self.sizes.pop()}Gi"},
            "accessModes": modes,
            "storageClassName": wanted.get("storageClassName", draw.choice(OF_VOLUMES)),
            **self.source(name),
        }
        if draw.random() < 0.1:
            spec["volumeMode"] = "Block"
        if draw.random() < 0.1:
            spec["volumeAttributesClassName"] = "gold"
        if draw.random() < (0.2 if self.preempt else 0.6):
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": self.terms()}}
        metadata: Object = {"name": name, "labels": self.volume_labels()}
        if draw.random() < 0.05:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            metadata["finalizers"] = ["kubernetes.io/pv-protection"]
        phase = draw.choice(("Available", "Available", "Available", "Available", "Pending"))
        made = {"apiVersion": "v1", "kind": VOLUME, "metadata": metadata, "spec": spec}
        return {**made, "status": {"phase": "Bound" if claim else phase}}

    def source(self, name: str) -> Object:
        draw = self.draw
        kind = draw.choice(("csi", "csi", "csi", "csi", "aws", "gce", "azure", "local", "vsphere"))
        disk = f"disk-{draw.randint(0, 2)}"
        match kind:
            case "csi":
                driver = draw.choice(("disk", "disk", "capped", "ebs.csi.aws.com"))
                return {"csi": {"driver": driver, "volumeHandle": draw.choice((name, disk))}}
            case "aws":
                url = draw.choice((f"aws://eu-west-a/vol-{disk}", f"aws:///vol-{disk}"))
                return {
                    "awsElasticBlockStore": {"volumeID": draw.choice((url, url, f"vol-{disk}"))}
                }
            case "gce":
                return {"gcePersistentDisk": {"pdName": disk}}
            case "azure":
                return {"azureDisk": {"diskName": disk, "diskURI": disk, "kind": "Managed"}}
            case "vsphere":
                return {"vsphereVolume": {"volumePath": disk}}
        return {"local": {"path": "/mnt"}}

    def terms(self) -> list[Object]:
        draw = self.draw
        found = []
        for _ in range(draw.choice((1, 1, 1, 2))):
            keys = draw.choice((HOSTNAME, ZONE, ZONE, BETA_ZONE, EBS_ZONE))
            values = self.names if keys == HOSTNAME else ZONES
            chosen = draw.sample(values, min(len(values), draw.choice((1, 1, 2))))
            needs = [_in(keys, *chosen)]
            if draw.random() < 0.1:
                needs.append(_in(BETA_REGION, "eu-west"))
            term: Object = {"matchExpressions": needs}
            if draw.random() < 0.08:
                operator = draw.choice(("In", "NotIn"))
                field = {"key": "metadata.name", "operator": operator, "values": [self.names[0]]}
                term["matchFields"] = [field]
                if draw.random() < 0.5:
                    del term["matchExpressions"]
            found.append(term)
        return found

    def volume_labels(self) -> Object:
        draw = self.draw
        labels: Object = {}
        if draw.random() < 0.4:
            labels["tier"] = draw.choice(("gold", "iron"))
        if draw.random() < 0.3:
            # A disk in zones of two regions is an error that ends kube-scheduler's cycle.
            zones = draw.choice(([ZONES[0]], [ZONES[1]], [ZONES[2]], [*ZONES[:2]]))
            labels[draw.choice((ZONE, ZONE, BETA_ZONE))] = "__".join(zones)
        if draw.random() < 0.1:
            labels[draw.choice((REGION, BETA_REGION))] = draw.choice(("eu-west", "eu-east", ""))
        return labels

    # ---------------------------------------------------------------------------- claims

    def claim(self, name: str, namespace: str, owner: Object | None = None) -> None:
        """A claim in some state, and the volume that it has."""
        draw = self.draw
        # The others are "nobody" (no claim at all) and "gone" (no volume).
        state = draw.choice(("bound",) * 5 + ("waits",) * 6 + ("chosen", "kept", "prebound"))
        if draw.random() < 0.06:
            state = draw.choice(("lost", "gone", "leaving"))
        if self.preempt and draw.random() < 0.8:
            state = "bound"
        if owner is not None and draw.random() < 0.1:
            state = "gone"  # other claims' missing volumes are missed by VolumeZone
        classes = CLASSES if state != "chosen" else ("late", "zoned", "capped", "static")
        modes = draw.sample(MODES[:3], draw.choice((1, 1, 2)))
        if draw.random() < (0.4 if self.preempt else 0.2):
            modes = ["ReadWriteOncePod"]
        spec: Object = {
            "accessModes": modes,
            "resources": {"requests": {"storage": f"{draw.choice((5, 20, 20, 60, 200))}Gi"}},
            "storageClassName": draw.choice(
                (*classes, "late", "late", "static", "static", "capped", "ebs")
            ),
        }
        metadata: Object = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        metadata["annotations"] = {}
        made = {"apiVersion": "v1", "kind": CLAIM, "metadata": metadata, "spec": spec}
        made["status"] = {"phase": "Pending"}
        if draw.random() < 0.1:
            spec["volumeMode"] = "Block"
        if draw.random() < 0.1:
            spec["volumeAttributesClassName"] = draw.choice(("gold", "iron"))
        if draw.random() < 0.15:
            spec["selector"] = draw.choice(
                (
                    {"matchLabels": {"tier": "gold"}},
                    {"matchExpressions": [_in("tier", "gold", "iron")]},
                    {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
                )
            )
        if draw.random() < 0.05:
            metadata["annotations"]["volume.beta.kubernetes.io/storage-class"] = "late"
        if owner is not None:
            metadata["ownerReferences"] = [owner]
        self.claims.append(made)
        self.settle(made, state)

    def settle(self, made: Object, state: str) -> None:
        """Put a claim into a state."""
        draw, spec, metadata = self.draw, made["spec"], made["metadata"]
        ref = {"namespace": metadata["namespace"], "name": metadata["name"]}
        if state in ("bound", "lost", "gone", "leaving"):
            metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
            made["status"]["phase"] = "Lost" if state == "lost" else "Bound"
            spec["volumeName"] = "gone" if state in ("lost", "gone") else f"pv{self.number()}"
        if state == "leaving":
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            metadata["finalizers"] = ["kubernetes.io/pvc-protection"]
        if state in ("bound", "leaving"):
            bound = self.volume(made, spec["volumeName"])
            bound["spec"]["claimRef"] = ref | {"uid": metadata["uid"]}
            self.objects.append(bound)
        if state == "prebound":
            spec["volumeName"] = "gone"
        if state == "chosen":
            node = draw.choice((*self.names, "elsewhere"))
            metadata["annotations"]["volume.kubernetes.io/selected-node"] = node
        if state == "kept":
            kept = self.volume(made)
            uid = draw.choice(("", metadata["uid"], "another"))
            kept["spec"]["claimRef"] = ref | ({"uid": uid} if uid else {})
            kept["status"]["phase"] = draw.choice(("Available", "Bound"))
            self.objects.append(kept)

    # ---------------------------------------------------------------------------- pods

    def pod(self, role: str, node: str = "", runs: bool = False) -> Object:
        """A pod; one that `runs`, or soon will, has its claims."""
        draw, runs = self.draw, runs or bool(node)
        name, namespace = f"{role}-{self.number()}", draw.choice(NAMESPACES)
        uid = f"uid-{name}"
        count = draw.choice((0, 1, 1, 2, 2, 3))
        volumes = [self.pod_volume(name, namespace, uid, f"v{at}", runs) for at in range(count)]
        spec: Object = {
            "containers": [{"name": "c", "image": "i", "resources": {}}],
            "volumes": volumes,
        }
        if self.preempt:
            spec["priorityClassName"] = draw.choice(("low", "low", "high") if node else ("high",))
        status: Object = {}
        if node:
            spec["nodeName"] = node
            second = self.number() % 60
            status = {"phase": "Running", "startTime": f"2026-01-02T03:04:{second:02d}Z"}
        metadata = {"name": name, "namespace": namespace, "uid": uid}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return {**made, "status": status}

    def pod_volume(self, pod: str, namespace: str, uid: str, name: str, runs: bool) -> Object:
        draw = self.draw
        kind = draw.choice(("claim",) * 7 + ("ephemeral", "disk", "disk", "disk", "other"))
        if kind == "claim":
            mine = [c for c in self.claims if c["metadata"]["namespace"] == namespace]
            there = [c["metadata"]["name"] for c in mine if "ownerReferences" not in c["metadata"]]
            if there:
                chosen = draw.choice(there) if draw.random() < 0.98 else "nobody"
                return {"name": name, "persistentVolumeClaim": {"claimName": chosen}}
            kind = "disk"
        if kind == "ephemeral":
            return self.ephemeral(pod, namespace, uid, name, runs)
        return {"name": name, **(_disk(draw) if kind == "disk" else {"emptyDir": {}})}

    def ephemeral(self, pod: str, namespace: str, uid: str, name: str, runs: bool) -> Object:
        draw = self.draw
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "controller": True}
        # Without VolumeBinding kube-scheduler gives up on a pod with the claim of another.
        keeps = runs or "VolumeBinding" in self.off
        owner["uid"] = uid if keeps or draw.random() < 0.9 else "another"
        if runs or draw.random() < 0.85:
            self.claim(f"{pod}-{name}", namespace, owner)
        template = {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        }
        return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}


def _without(plugins: list[str]) -> Object:
    disabled = [{"name": name} for name in plugins]
    profile = {"plugins": {"multiPoint": {"disabled": disabled}}}
    version = "kubescheduler.config.k8s.io/v1"
    return {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"


def _of(kind: str, metadata: Object, **fields: Any) -> Object:
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": metadata, **fields}


def _priority(name: str, value: int) -> Object:
    made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
    return {**made, "metadata": {"name": name}}


def _distinct(rooms: list[Object]) -> list[Object]:
    """Return the storage capacities, all equally large if a node may reach several: of those that
    are enough kube-scheduler scores any.
    """
    topologies = [one["nodeTopology"] for one in rooms if "nodeTopology" in one]
    zones = [one.get("matchLabels", {}).get(ZONE) for one in topologies]
    if None in zones or len({*zones}) < len(zones):
        sizes = [one["capacity"] for one in rooms if "capacity" in one]
        for one in rooms:
            if "capacity" in one:
                one["capacity"] = sizes[0]
    return rooms


def _in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": [*values]}


def _classes(draw: Random) -> list[Object]:
    """All but the class "missing"."""
    provisioners = {
        "now": "disk",
        "late": "disk",
        "static": "kubernetes.io/no-provisioner",
        "zoned": "disk",
        "capped": "capped",
        "ebs": "kubernetes.io/aws-ebs",
        "file": "kubernetes.io/azure-file",
    }
    found = []
    for name, provisioner in provisioners.items():
        made = _of("StorageClass", {"name": name}, provisioner=provisioner)
        if name != "now":
            made["volumeBindingMode"] = "WaitForFirstConsumer"
        if name == "zoned":
            needs = [{"key": ZONE, "values": draw.sample(ZONES, draw.choice((1, 2)))}]
            made["allowedTopologies"] = [{"matchLabelExpressions": needs}]
        found.append(made)
    tells = draw.random() < 0.8
    found.append(_of("CSIDriver", {"name": "capped"}, spec={"storageCapacity": tells}))
    found.append(_of("CSIDriver", {"name": "disk"}, spec={}))
    return found


def _disk(draw: Random) -> Object:
    name, read_only = f"disk-{draw.randint(0, 1)}", draw.random() < 0.5
    match draw.choice(("gce", "aws", "iscsi", "rbd", "azure", "cinder")):
        case "gce":
            return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}
        case "aws":
            return {"awsElasticBlockStore": {"volumeID": f"vol-{name}", "readOnly": read_only}}
        case "iscsi":
            portal = {"targetPortal": "10.0.0.1", "lun": 0, "iqn": name}
            return {"iscsi": {**portal, "readOnly": read_only}}
        case "azure":
            return {"azureDisk": {"diskName": name, "diskURI": name, "kind": "Managed"}}
        case "cinder":
            return {"cinder": {"volumeID": name}}
    monitors = draw.sample(("m1", "m2", "m3"), draw.choice((1, 2)))
    source = {"monitors": monitors, "image": draw.choice(("a", "b")), "readOnly": read_only}
    return {"rbd": source | draw.choice(({}, {"pool": "rbd"}, {"pool": "p"}))}
