"""The workloads whose pods have volumes: each has its own claim, bound before it arrives.

As in scheduler_perf the disks are those of one cloud, and a node takes 39 of them. "In-tree" disks
are those of the plugin that was part of Kubernetes; "migrated" ones are disks of that plugin, taken
over by a driver on every node.
"""

from loadtest.workloads.ops import Barrier, CreateClaimedPods, CreateNodes, Op, Workload
from loadtest.workloads.parts import BOTH, NODES, PLAIN
from shared.model.cluster_objects import NodeDriver, PersistentVolume
from shared.model.volumes import AWS

DRIVER, PLUGIN = "ebs.csi.aws.com", "kubernetes.io/aws-ebs"
LIMIT = 39
DRIVERS = (NodeDriver(DRIVER, LIMIT),)
CSI = PersistentVolume(uid="", name="", driver=DRIVER)
IN_TREE = PersistentVolume(uid="", name="", in_tree=AWS)


def _claimed(nodes: CreateNodes, volume: PersistentVolume, init: int, measured: int) -> list[Op]:
    return [
        nodes,
        CreateClaimedPods(init, PLAIN, volume, BOTH[0]),
        Barrier(),
        CreateClaimedPods(measured, PLAIN, volume, BOTH[1], measured=True),
        Barrier(),
    ]


def _csi() -> list[Op]:
    return _claimed(CreateNodes(NODES, drivers=DRIVERS), CSI, 5_000, 5_000)


def _in_tree() -> list[Op]:
    return _claimed(CreateNodes(NODES), IN_TREE, 1_000, 2_000)


def _migrated() -> list[Op]:
    nodes = CreateNodes(NODES, drivers=DRIVERS, migrated=(PLUGIN,))
    return _claimed(nodes, IN_TREE, 5_000, 5_000)


VOLUMES: dict[str, Workload] = {
    "csi-pvs": Workload(_csi, 100),
    "in-tree-pvs": Workload(_in_tree, 290),
    "migrated-pvs": Workload(_migrated, 100),
}
