"""Which plugin gives a reason why a node does not fit."""

from shared.scheduling.api.custom.plugin import PLUGINS
from shared.scheduling.plugins import inter_pod_affinity, pod_topology_spread
from shared.scheduling.plugins.gpu_devices import GpuDevices, GpuModel
from shared.scheduling.plugins.narrowed_nodes import LEFT_OUT
from shared.scheduling.plugins.node_affinity import AddedAffinity, NodeAffinity
from shared.scheduling.plugins.node_declared_features import (
    UNSATISFIED_1_35,
    NodeDeclaredFeatures,
)
from shared.scheduling.plugins.node_name import NodeName
from shared.scheduling.plugins.node_ports import NodePorts
from shared.scheduling.plugins.node_resources_fit import NodeResourcesFit
from shared.scheduling.plugins.node_unschedulable import NodeUnschedulable
from shared.scheduling.plugins.taint_toleration import TaintToleration
from shared.scheduling.plugins.volumes import volume_binding, volume_restrictions, volume_zone
from shared.scheduling.plugins.volumes.node_volume_limits import EXCEEDED, NOT_INSTALLED
from shared.scheduling.plugins.volumes.node_volume_limits import NAME as NODE_VOLUME_LIMITS

_FILTERS = (
    *(NodeUnschedulable, NodeName, TaintToleration, NodeAffinity, AddedAffinity),
    *(NodePorts, NodeDeclaredFeatures, GpuModel),
)
PLUGIN_OF = {
    **{one.message: one.name for one in _FILTERS},
    UNSATISFIED_1_35: NodeDeclaredFeatures.name,
    "Too many pods": NodeResourcesFit.name,
    "Insufficient gpu": GpuDevices.name,
    pod_topology_spread.MISSING: pod_topology_spread.NAME,
    pod_topology_spread.SKEWED: pod_topology_spread.NAME,
    inter_pod_affinity.NOT_AFFINE: inter_pod_affinity.NAME,
    inter_pod_affinity.NOT_ANTI_AFFINE: inter_pod_affinity.NAME,
    inter_pod_affinity.EXISTING_REFUSE: inter_pod_affinity.NAME,
    volume_restrictions.DISK_CONFLICT: volume_restrictions.NAME,
    volume_restrictions.IN_USE: volume_restrictions.NAME,
    volume_zone.CONFLICT: volume_zone.NAME,
    EXCEEDED: NODE_VOLUME_LIMITS,
    volume_binding.NODE_CONFLICT: volume_binding.NAME,
    volume_binding.BIND_CONFLICT: volume_binding.NAME,
    volume_binding.NOT_ENOUGH_SPACE: volume_binding.NAME,
    volume_binding.NOT_THERE: volume_binding.NAME,
    volume_binding.UNBOUND: volume_binding.NAME,
}


def plugin_of(reason: str) -> str:
    """Return the name of the plugin; empty for a reason of an extender, or about one claim."""
    if reason.startswith(LEFT_OUT):
        return reason.removeprefix(LEFT_OUT).partition("]")[0].partition(" ")[0]
    if reason in PLUGIN_OF:
        return PLUGIN_OF[reason]
    if reason.endswith(NOT_INSTALLED):
        return NODE_VOLUME_LIMITS
    if reason.startswith("Insufficient "):
        return NodeResourcesFit.name
    for name, one in PLUGINS.items():
        own = f"node(s) were refused by {name}", f"node(s) had no room left for {name}"
        if reason in (one.kind.message, *own):
            return name
    return ""
