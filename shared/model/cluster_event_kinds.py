"""Events of the cluster for which pods wait that a permit plugin of a user refused, in the words in
which a plugin names them: what, and what became of it. What nobody's rules look at is none.
"""

from shared.model.objects import Node

STORAGE = (
    *("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver"),
    *("CSIStorageCapacity", "VolumeAttachment"),
)
POD_ADD, POD_DELETE, POD_UPDATE, POD_UPDATE_LABEL = (
    *("Pod/Add", "Pod/Delete", "Pod/Update", "Pod/UpdateLabel"),
)
NODE_ADD, NODE_DELETE, NODE_UPDATE = "Node/Add", "Node/Delete", "Node/Update"
KINDS = (
    *(POD_ADD, POD_DELETE, POD_UPDATE, POD_UPDATE_LABEL),
    *(NODE_ADD, NODE_DELETE, NODE_UPDATE),
    *("Node/UpdateAllocatable", "Node/UpdateLabel", "Node/UpdateTaint"),
    *(f"{kind}/{what}" for kind in STORAGE for what in ("Add", "Delete", "Update")),
)
"""Update is any change of it, those that have a name of their own among them."""


def node_changes(before: Node, after: Node) -> tuple[str, ...]:
    """What a change of a node is. That it takes pods again is one of its taints."""
    pairs = (
        ("Node/UpdateAllocatable", before.allocatable != after.allocatable),
        ("Node/UpdateLabel", before.labels != after.labels),
        ("Node/UpdateTaint", _taints(before) != _taints(after)),
    )
    return (NODE_UPDATE, *(kind for kind, is_it in pairs if is_it))


def _taints(node: Node) -> object:
    return node.taints, node.unschedulable
