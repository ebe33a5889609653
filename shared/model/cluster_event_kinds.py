"""Kinds of cluster events that pods rejected by a user's Permit plugin may wait for, as
RESOURCE/ACTION. A change that no rule reads is not an event.
"""

from collections.abc import Sequence

from shared.model.objects import Node
from shared.model.release import V1_37

STORAGE = (
    *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver"),
    *("CSIStorageCapacity", "VolumeAttachment"),
)
POD_ADD, POD_DELETE, POD_UPDATE, POD_UPDATE_LABEL = (
    *("Pod/Add", "Pod/Delete", "Pod/Update", "Pod/UpdateLabel"),
)
NODE_ADD, NODE_DELETE, NODE_UPDATE = "Node/Add", "Node/Delete", "Node/Update"
NODE_UPDATE_TAINT = "Node/UpdateTaint"
KINDS = (
    *(POD_ADD, POD_DELETE, POD_UPDATE, POD_UPDATE_LABEL),
    *(NODE_ADD, NODE_DELETE, NODE_UPDATE),
    *("Node/UpdateAllocatable", "Node/UpdateLabel", NODE_UPDATE_TAINT),
    *(f"{kind}/{what}" for kind in STORAGE for what in ("Add", "Delete", "Update")),
)
"""Update is any change, including those with a name of their own."""


def awaited(named: Sequence[str], version: str) -> tuple[str, ...]:
    """Return the kinds of events that wake pods of a plugin that names these. Before 1.37
    kube-scheduler adds changed taints to new nodes (buildQueueingHintMap).
    """
    is_enough = NODE_ADD not in named or NODE_UPDATE in named or NODE_UPDATE_TAINT in named
    return tuple(named) if version >= V1_37 or is_enough else (*named, NODE_UPDATE_TAINT)


def node_changes(before: Node, after: Node) -> tuple[str, ...]:
    """Return the kinds of a node's change. Becoming schedulable again is a change of taints."""
    pairs = (
        ("Node/UpdateAllocatable", before.allocatable != after.allocatable),
        ("Node/UpdateLabel", before.labels != after.labels),
        (NODE_UPDATE_TAINT, _taints(before) != _taints(after)),
    )
    return (NODE_UPDATE, *(kind for kind, is_it in pairs if is_it))


def _taints(node: Node) -> object:
    return node.taints, node.unschedulable
