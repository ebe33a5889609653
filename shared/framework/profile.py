"""Which plugins run, in which order and with which weights: kube-scheduler's defaults, and ours.

The order of the filters decides only which reason is reported: kube-scheduler's default order,
devices last. Weights: NodeResourcesFit 1, NodeResourcesBalancedAllocation 1, NodeAffinity 2,
TaintToleration 3. A total is at most 700 and fits int16.
"""

from shared.framework.plugin import ColumnFilter, LocalScore, StaticFilter, StaticScore
from shared.plugins.balanced_allocation import BalancedAllocation
from shared.plugins.gpu_devices import GpuDevices, GpuModel
from shared.plugins.node_affinity import NamedNodes, NodeAffinity
from shared.plugins.node_ports import NodePorts
from shared.plugins.node_resources_fit import LeastAllocated, NodeResourcesFit
from shared.plugins.node_unschedulable import NodeUnschedulable
from shared.plugins.taint_toleration import TaintToleration

NAMED_NODES = NamedNodes()
# Filters in order: these, then PORTS, then FIT, then GPU_MODEL and GPU_DEVICES.
BEFORE_PORTS: tuple[StaticFilter, ...] = (
    NAMED_NODES,
    NodeUnschedulable(),
    TaintToleration(),
    NodeAffinity(),
)
PORTS = NodePorts()
FIT: ColumnFilter = NodeResourcesFit()
GPU_MODEL = GpuModel()
GPU_DEVICES = GpuDevices()

STATIC_FILTERS: tuple[StaticFilter, ...] = (*BEFORE_PORTS, GPU_MODEL)
STATIC_SCORES: tuple[StaticScore, ...] = (TaintToleration(), NodeAffinity())

LEAST_ALLOCATED = LeastAllocated()
BALANCED_ALLOCATION = BalancedAllocation()
LOCAL_SCORES: tuple[LocalScore, ...] = (LEAST_ALLOCATED, BALANCED_ALLOCATION)
