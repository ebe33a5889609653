"""Converts nodes and disruption budgets of a live API to values; unchanged ones are left out."""

from collections.abc import Iterator
from typing import Any

import msgspec

from shared.kubernetes.objects import affinity
from shared.kubernetes.objects.cluster_objects import node_of
from shared.kubernetes.objects.fields import Fields
from shared.kubernetes.objects.structs import RawBudget, RawNode
from shared.kubernetes.watching.templates import raw_json
from shared.model.cluster_objects import ClusterObject
from shared.model.images import packed
from shared.model.objects import Budget, Node


class Unchanged:
    """Remembers the last value of each uid."""

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[str, Any] = {}

    def is_new(self, value: Node | Budget | ClusterObject) -> bool:
        """Return whether a value differs from the last one of its uid, and remember it."""
        if self._values.get(value.uid) == value:
            return False
        self._values[value.uid] = value
        return True

    def forget(self, uid: str = "") -> None:
        """Forget a deleted object, or all of them without a uid."""
        if uid:
            self._values.pop(uid, None)
        else:
            self._values.clear()


def node_from(raw: RawNode) -> Node:
    """Return a node. Raises WorldError, and ValueError for a field that is not an object."""
    meta, what = raw.metadata, f"Node {raw.metadata.name}"
    status: dict[str, Any] = {}
    for name in ("allocatable", "capacity", "declaredFeatures"):
        value = raw_json(getattr(raw.status, name))
        if value is not None:
            status[name] = value
    spec = {"taints": raw_json(raw.spec.taints), "unschedulable": raw.spec.unschedulable}
    metadata = {"name": meta.name, "uid": meta.uid, "labels": raw_json(meta.labels)}
    node = node_of(
        Fields(what, "metadata", metadata), Fields(what, "", {"spec": spec, "status": status})
    )
    return msgspec.structs.replace(node, images=packed(_images(raw))) if raw.status.images else node


def _images(raw: RawNode) -> Iterator[tuple[str, int]]:
    """Yield names and sizes. Each heartbeat has fifty images, so single fields are not checked."""
    for image in raw.status.images or ():
        for name in image.names or ():
            yield name, max(image.sizeBytes, 0)


def budget_from(raw: RawBudget) -> Budget:
    """Return a budget whose `disrupted` has names (see disrupted_pods.py). Raises WorldError."""
    meta = raw.metadata
    what = f"PodDisruptionBudget {meta.namespace}/{meta.name}"
    selector = Fields(what, "spec.selector", raw.spec.selector or {})
    labels, expressions = affinity.label_selector(selector)
    return Budget(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        match_labels=labels,
        match_expressions=expressions,
        allowed=max(0, raw.status.disruptionsAllowed),
        disrupted=tuple(sorted(raw.status.disruptedPods or ())),
    )


def what_of(kind: str, item: msgspec.Raw) -> str:
    """Return a name for an object that cannot be decoded."""
    try:
        values = msgspec.json.decode(item)
        meta = values["metadata"]
        return f"{kind} {meta.get('namespace', '')}/{meta['name']}".replace(" /", " ")
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return f"{kind} without a name"
