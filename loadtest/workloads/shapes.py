"""scheduler_perf's workloads by name, with its numbers of nodes and pods and its floors.

Left out: claims of devices, and deleting pods with finalizers.
"""

from dataclasses import replace

from loadtest.workloads.namespaced import NAMESPACED
from loadtest.workloads.ops import (
    HOSTNAME,
    MIB,
    ZONE,
    Barrier,
    Churn,
    CreateNodes,
    CreatePods,
    CreateService,
    Op,
    Workload,
)
from loadtest.workloads.parts import BAR, BOTH, NODES, PLAIN, ZONES, color, labels, spec_of
from loadtest.workloads.volumes import VOLUMES
from shared.model.objects import (
    CPU,
    MEMORY,
    PODS,
    PodSpec,
    PodTerm,
    PreferredPodTerm,
    PreferredTerm,
    Requirement,
    SelectorTerm,
    SpreadConstraint,
    Taint,
)

ONE_LARGE = CreateNodes(1, amounts=((CPU, 4_000_000), (MEMORY, 1 << 46), (PODS, 90_000)))


def _plain(init: int, measured: int) -> list[Op]:
    return [
        CreateNodes(NODES),
        CreatePods(init, PLAIN),
        Barrier(),
        CreatePods(measured, PLAIN, measured=True),
        Barrier(),
    ]


def _alike(spec: PodSpec, name: str, init: int, measured: int, nodes: CreateNodes) -> list[Op]:
    """Return init and measured pods of one shape, in two namespaces."""
    return [
        nodes,
        CreatePods(init, spec, labels(name), BOTH[0]),
        Barrier(),
        CreatePods(measured, spec, labels(name), BOTH[1], measured=True),
        Barrier(),
    ]


def _after_plain(
    spec: PodSpec, name: str, init: int, measured: int, nodes: CreateNodes
) -> list[Op]:
    """Return measured pods of a shape after plain ones."""
    return [
        nodes,
        CreatePods(init, PLAIN),
        Barrier(),
        CreatePods(measured, spec, labels(name), BOTH[1], measured=True),
        Barrier(),
    ]


def _daemonset() -> list[Op]:
    one = SelectorTerm(fields=(Requirement("metadata.name", "In", ("scheduler-perf-node",)),))
    return [
        replace(ONE_LARGE, name="scheduler-perf-node"),
        CreateNodes(15_000),
        CreatePods(30_000, spec_of(1, affinity_required=(one,)), measured=True),
        Barrier(),
    ]


def _node_affinity() -> list[Op]:
    term = SelectorTerm((Requirement(ZONE, "In", ("zone1", "zone2")),))
    spec = spec_of(affinity_required=(term,))
    return _after_plain(spec, "none", 5_000, 10_000, CreateNodes(NODES, ("zone1",)))


def _preferred_node_affinity() -> list[Op]:
    term = SelectorTerm((Requirement(ZONE, "In", ("moon-1",)),))
    spec = spec_of(affinity_preferred=(PreferredTerm(10, term),))
    return _after_plain(spec, "none", 5_000, 10_000, CreateNodes(NODES, ZONES))


def _anti_affinity() -> list[Op]:
    term = PodTerm(HOSTNAME, color("green"), BOTH)
    return _alike(spec_of(pod_anti_affinity=(term,)), "green", 1_000, 2_000, CreateNodes(NODES))


def _matching_anti_affinity() -> list[Op]:
    term = PodTerm(HOSTNAME, color("green"), BOTH)
    return [
        CreateNodes(NODES),
        CreatePods(1_000, spec_of(pod_anti_affinity=(term,)), labels("green"), BOTH[0]),
        Barrier(),
        CreatePods(5_000, PLAIN, labels("green"), BOTH[1], measured=True),
        Barrier(),
    ]


def _affinity() -> list[Op]:
    term = PodTerm(ZONE, color("blue"), BOTH)
    nodes = CreateNodes(NODES, ("zone1",))
    return _alike(spec_of(pod_affinity=(term,)), "blue", 5_000, 5_000, nodes)


def _preferred(weight: int, name: str) -> list[Op]:
    term = PodTerm(HOSTNAME, color(name), BOTH)
    spec = spec_of(pods_preferred=(PreferredPodTerm(weight, term),))
    return _alike(spec, name, 5_000, 5_000, CreateNodes(NODES))


def _spread(hard: bool) -> list[Op]:
    rule = SpreadConstraint(ZONE, 5, hard, color("blue"))
    return _after_plain(spec_of(spread=(rule,)), "blue", 5_000, 5_000, CreateNodes(NODES, ZONES))


def _default_spread(init: int, measured: int) -> list[Op]:
    """Return measured pods without constraints of their own, selected by a Service."""
    return [
        CreateService(labels("blue"), BOTH[1]),
        *_after_plain(PLAIN, "blue", init, measured, CreateNodes(NODES, ZONES)),
    ]


def _unschedulable(stuck: int) -> list[Op]:
    return [
        CreateNodes(NODES),
        CreatePods(stuck, spec_of(9_000), stays=True),
        CreatePods(10_000, PLAIN, measured=True),
        Barrier(),
    ]


def _mixed_churn() -> list[Op]:
    """Return the churn workload. The pods are placed in less than a tenth of a second, so there are
    100 changes a second and not one.
    """
    churn = CreateNodes(1, name="churn"), spec_of(9_000, priority=10), CreateService(labels("foo"))
    return [
        CreateNodes(NODES),
        Churn(*churn, interval_s=0.01),
        CreatePods(10_000, PLAIN, measured=True),
        Barrier(),
    ]


def _gated() -> list[Op]:
    """Return gated pods that are deleted, 50 a second, while the measured ones arrive."""
    return [
        ONE_LARGE,
        CreatePods(10_000, PLAIN, gated=True, stays=True),
        CreatePods(20_000, spec_of(1), deletes_per_s=50),
        Barrier(),
        CreatePods(20_000, spec_of(1), measured=True),
        Barrier(),
    ]


def _gated_affinity() -> list[Op]:
    """Return measured pods that match the affinity of all gated ones."""
    near = spec_of(pod_affinity=(PodTerm(HOSTNAME, color("blue"), BOTH),))
    return [
        ONE_LARGE,
        CreatePods(10_000, near, labels("blue"), BOTH[0], gated=True, stays=True),
        CreatePods(20_000, spec_of(1), labels("blue"), BOTH[1], measured=True),
        Barrier(),
    ]


def _preemption(nodes: int, init: int, measured: int) -> list[Op]:
    return [
        CreateNodes(nodes),
        CreatePods(init, spec_of(900)),
        Barrier(),
        CreatePods(measured, spec_of(3_000, priority=1_000), measured=True),
        Barrier(),
    ]


def _mixed() -> list[Op]:
    """Return a mixture after 2,000 pods of each kind: plain, and with each affinity in turn, of its
    own colour.
    """

    def term(name: str) -> PodTerm:
        return PodTerm(HOSTNAME if name != "blue" else ZONE, color(name), BOTH)

    kinds: dict[str, dict[str, object]] = {
        "plain": {},
        "blue": {"pod_affinity": (term("blue"),)},
        "green": {"pod_anti_affinity": (term("green"),)},
        "red": {"pods_preferred": (PreferredPodTerm(1, term("red")),)},
        "yellow": {"pods_preferred": (PreferredPodTerm(-1, term("yellow")),)},
    }
    return [
        CreateNodes(NODES, ("zone1",)),
        *(
            CreatePods(2_000, spec_of(100, **rule), labels(name), BOTH[0])
            for name, rule in kinds.items()
        ),
        Barrier(),
        CreatePods(5_000, PLAIN, namespace=BOTH[0], measured=True),
        Barrier(),
    ]


def _inclusion() -> list[Op]:
    """Return pods spread over host names; nodes with taints are not counted."""
    rule = SpreadConstraint(HOSTNAME, 1, True, color("blue"), honor_taints=True)
    return [
        CreateNodes(4_000),
        CreateNodes(1_000, taints=(Taint("foo", "", "NoSchedule"),), name="tainted"),
        CreatePods(4_000, spec_of(spread=(rule,)), labels("blue"), measured=True),
        Barrier(),
    ]


def _extended() -> list[Op]:
    spec = PodSpec(
        requests=((CPU, 100), (BAR, 1), (MEMORY, 500 * MIB)),
        nonzero_memory_bytes=500 * MIB,
    )
    return [
        CreateNodes(NODES, amounts=((BAR, 4),)),
        CreatePods(5_000, spec, measured=True),
        Barrier(),
    ]


WORKLOADS: dict[str, Workload] = {
    "basic": Workload(lambda: _plain(1_000, 10_000), 680),
    "basic-50k": Workload(lambda: _plain(5_000, 50_000), 810),
    "daemonset": Workload(_daemonset, 1_100),
    "node-affinity": Workload(_node_affinity, 540),
    "preferred-node-affinity": Workload(_preferred_node_affinity, 0),
    "anti-affinity": Workload(_anti_affinity, 180),
    "matching-anti-affinity": Workload(_matching_anti_affinity, 600),
    "affinity": Workload(_affinity, 70),
    "preferred-affinity": Workload(lambda: _preferred(1, "red"), 160),
    "preferred-anti-affinity": Workload(lambda: _preferred(-1, "yellow"), 190),
    "topology-spread": Workload(lambda: _spread(hard=True), 460),
    "preferred-topology-spread": Workload(lambda: _spread(hard=False), 340),
    "default-topology-spread": Workload(lambda: _default_spread(5_000, 50_000), 160),
    "unschedulable-100": Workload(lambda: _unschedulable(100), 590),
    "unschedulable-20k": Workload(lambda: _unschedulable(20_000), 600),
    "mixed-churn": Workload(_mixed_churn, 710),
    "gated": Workload(_gated, 910),
    "gated-affinity": Workload(_gated_affinity, 750),
    "preemption": Workload(lambda: _preemption(1_000, 4_000, 1_000), 0),
    "preemption-5k": Workload(lambda: _preemption(5_000, 20_000, 5_000), 570),
    "mixed": Workload(_mixed, 540),
    "node-inclusion-policy": Workload(_inclusion, 270),
    # Secrets are mounted by the node and do not affect scheduling, so no fact has them.
    "secrets": Workload(lambda: _plain(1_000, 10_000), 790),
    **NAMESPACED,
    **VOLUMES,
    "extended-resource": Workload(_extended, 180),
}
