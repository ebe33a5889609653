"""The objects of a flood as bodies of requests to a live cluster."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from muster.flood.plan import AddPods
from muster.flood.read import numbered
from shared.kubernetes.client.discovery import POD_GROUPS, Collection
from shared.kubernetes.objects.groups.pod_groups import GANG_TIMEOUT
from shared.model.objects import CPU, GPU, MEMORY, Node

LABEL = "muster.io/flood"
NAME = "NAME-OF-POD"
IMAGE = "pause"
"""Any name will do: no kubelet pulls it."""
CLUSTER_KINDS = (
    *("Namespace", "Node", "PriorityClass", "PersistentVolume", "StorageClass"),
    *("CSINode", "CSIDriver", "VolumeAttachment"),
)


@dataclass(frozen=True)
class Body:
    """A path and what is sent there. `may_exist`: that it exists already is no error."""

    path: str
    content: bytes
    may_exist: bool = False


def path_of(kind: str, version: str, namespace: str) -> str:
    """Return the path of all objects of a kind."""
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    lower = kind.lower()
    plural = (
        f"{lower[:-1]}ies" if lower[-1] == "y" else f"{lower}{'es' if lower[-1] == 's' else 's'}"
    )
    return (
        f"{base}/{plural}" if kind in CLUSTER_KINDS else f"{base}/namespaces/{namespace}/{plural}"
    )


def paths_of(
    namespaces: Iterable[str], written: Iterable[Mapping[str, Any]], groups_at: Collection | None
) -> list[str]:
    """Return the paths of all that a flood may have created, pods first, but namespaces."""
    pods = [f"/api/v1/namespaces/{name}/pods" for name in namespaces]
    groups = [] if groups_at is None else [_groups_in(groups_at, name) for name in namespaces]
    others = dict.fromkeys(_path(one) for one in written if one["kind"] != "Namespace")
    nodes = ["/api/v1/nodes", "/apis/scheduling.k8s.io/v1/priorityclasses"]
    return [*pods, *groups, *others, *nodes]


def _groups_in(groups_at: Collection, namespace: str) -> str:
    version, _, resource = groups_at.path.rpartition("/")
    return f"{version}/namespaces/{namespace}/{resource}"


def _path(written: Mapping[str, Any]) -> str:
    namespace = written["metadata"].get("namespace", "default")
    return path_of(written["kind"], written["apiVersion"], namespace)


def priority_class(value: int) -> dict[str, Any]:
    """Return the PriorityClass of all pods of a flood with this priority."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _class_name(value)},
        "value": value,
    }


def _class_name(value: int) -> str:
    return f"flood-{value}" if value >= 0 else f"flood-minus-{-value}"


class Bodies:
    """Makes bodies; all have the label of one flood."""

    def __init__(self, scheduler: str, flood: str, groups_at: Collection | None = None) -> None:
        """`scheduler` is for pods whose template names none. Gangs are created at `groups_at`."""
        self._groups_at = groups_at
        self._scheduler, self._labels = scheduler, {LABEL: flood}
        self._pods: dict[tuple[str, str, str], bytes] = {}

    def labelled(self, written: Mapping[str, Any]) -> Body:
        """Return an object as it is written, with the label."""
        metadata = written["metadata"]
        labels = {**metadata.get("labels", {}), **self._labels}
        document = {**written, "metadata": {**metadata, "labels": labels}}
        is_shared = written["kind"] in ("PriorityClass", "Namespace")
        return Body(_path(written), json.dumps(document).encode(), is_shared)

    def namespace(self, name: str) -> Body:
        """Return a namespace."""
        return self.labelled({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def node(self, node: Node) -> Body:
        """Return a Ready node."""
        amounts = {
            name: f"{amount}m" if name == CPU else str(amount) for name, amount in node.allocatable
        }
        if node.gpu_count:
            amounts[GPU] = str(node.gpu_count)
        taints = [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.taints]
        return self.labelled(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node.name, "labels": node.labels},
                "spec": {"taints": taints, "unschedulable": node.unschedulable},
                "status": {
                    "capacity": amounts,
                    "allocatable": amounts,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )

    def gangs(self, action: AddPods) -> Iterator[Body]:
        """Yield the PodGroups, or Workloads, of new gangs."""
        for gang in action.gangs:
            assert self._groups_at is not None, "a cluster without groups"
            _, name, group = gang.key.split("/")
            policy = {"gang": {"minCount": gang.min_count}}
            version = self._groups_at.path.removeprefix("/apis/").rpartition("/")[0]
            namespace, notes = action.step.namespace, {GANG_TIMEOUT: f"{gang.timeout_ms}ms"}
            made: dict[str, Any] = {
                "apiVersion": version,
                "metadata": {"name": name, "namespace": namespace, "annotations": notes},
            }
            if self._groups_at.resource == POD_GROUPS:
                made |= {"kind": "PodGroup", "spec": {"schedulingPolicy": policy}}
                if gang.topology is not None:
                    keys = [{"key": key} for key in gang.topology.levels]
                    made["spec"]["schedulingConstraints"] = {"topology": keys}
                if priority := action.template.spec.priority:
                    made["spec"]["priorityClassName"] = _class_name(priority)
            else:
                spec = {"podGroups": [{"name": group, "policy": policy}]}
                made |= {"kind": "Workload", "spec": spec}
            yield self.labelled(made)

    def pod(self, action: AddPods, number: int) -> Body:
        """Return a pod."""
        template, namespace = action.template, action.step.namespace
        path, name = f"/api/v1/namespaces/{namespace}/pods", f"pod-{number}"
        if template.is_numbered or action.step.is_distinct:
            return Body(path, self._pod(action, number).replace(NAME.encode(), name.encode()))
        key = template.name, namespace, action.gang
        if key not in self._pods:
            if action.gang:
                self._pods.clear()
            self._pods[key] = self._pod(action, number)
        return Body(path, self._pods[key].replace(NAME.encode(), name.encode()))

    def _pod(self, action: AddPods, number: int) -> bytes:
        template = action.template
        written: dict[str, Any] = numbered(dict(template.written), number)
        metadata = written.get("metadata", {})
        spec = {"schedulerName": self._scheduler, **written["spec"]}
        spec["containers"] = [{"image": IMAGE, **one} for one in spec["containers"]]
        if spec.pop("priority", 0):
            spec["priorityClassName"] = _class_name(template.spec.priority)
        if action.step.is_distinct:
            _set_memory(spec["containers"], template.spec.request(MEMORY) + number + 1)
        if action.gang:
            _, name, group = action.gang.split("/")
            if self._groups_at is not None and self._groups_at.resource == POD_GROUPS:
                spec["schedulingGroup"] = {"podGroupName": name}
            else:
                spec["workloadRef"] = {"name": name, "podGroup": group}
        labels = {**metadata.get("labels", {}), **self._labels}
        named = {**metadata, "name": NAME, "labels": labels}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}
        return json.dumps(document).encode()


def _set_memory(containers: list[dict[str, Any]], memory_bytes: int) -> None:
    """Give the first container all memory that the pod requests."""
    for place, container in enumerate(containers):
        resources = {**container.get("resources", {})}
        requests = {**resources.get("requests", {})}
        requests["memory"] = str(memory_bytes) if not place else "0"
        containers[place] = {**container, "resources": {**resources, "requests": requests}}
