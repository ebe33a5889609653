"""scheduler_perf's workloads by name, with its numbers of nodes and pods and its floors.

Left out: volumes, secrets (volumes of the node decide nothing), claims, and what needs namespaces
with labels.
"""

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
from shared.model.objects import (
    CPU,
    MEMORY,
    PODS,
    PodSpec,
    PodTerm,
    PreferredPodTerm,
    PreferredTerm,
    Requirement,
    Selector,
    SelectorTerm,
    SpreadConstraint,
)

NODES = 5_000
ZONES = ("moon-1", "moon-2", "moon-3")
BOTH = ("sched-0", "sched-1")
BAR = "foo.com/bar"


def _spec(cpu_milli: int = 100, **rules: object) -> PodSpec:
    memory_bytes = 500 * MIB
    return PodSpec(
        requests=((CPU, cpu_milli), (MEMORY, memory_bytes)),
        nonzero_cpu_milli=cpu_milli,
        nonzero_memory_bytes=memory_bytes,
        **rules,  # type: ignore[arg-type]
    )


PLAIN = _spec()


def _color(value: str) -> Selector:
    return (Requirement("color", "In", (value,)),)


def _labels(value: str) -> tuple[tuple[str, str], ...]:
    return (("color", value),)


def _plain(init: int, measured: int) -> list[Op]:
    return [
        CreateNodes(NODES),
        CreatePods(init, PLAIN),
        Barrier(),
        CreatePods(measured, PLAIN, measured=True),
        Barrier(),
    ]


def _alike(spec: PodSpec, color: str, init: int, measured: int, nodes: CreateNodes) -> list[Op]:
    """Init and measured pods of one shape, in two namespaces."""
    return [
        nodes,
        CreatePods(init, spec, _labels(color), BOTH[0]),
        Barrier(),
        CreatePods(measured, spec, _labels(color), BOTH[1], measured=True),
        Barrier(),
    ]


def _after_plain(
    spec: PodSpec, color: str, init: int, measured: int, nodes: CreateNodes
) -> list[Op]:
    """Measured pods of a shape after plain ones."""
    return [
        nodes,
        CreatePods(init, PLAIN),
        Barrier(),
        CreatePods(measured, spec, _labels(color), BOTH[1], measured=True),
        Barrier(),
    ]


def _daemonset() -> list[Op]:
    one = SelectorTerm(fields=(Requirement("metadata.name", "In", ("scheduler-perf-node",)),))
    large = ((CPU, 4_000_000), (MEMORY, 1 << 46), (PODS, 90_000))
    return [
        CreateNodes(1, amounts=large, name="scheduler-perf-node"),
        CreateNodes(15_000),
        CreatePods(30_000, _spec(1, affinity_required=(one,)), measured=True),
        Barrier(),
    ]


def _node_affinity() -> list[Op]:
    term = SelectorTerm((Requirement(ZONE, "In", ("zone1", "zone2")),))
    spec = _spec(affinity_required=(term,))
    return _after_plain(spec, "none", 5_000, 10_000, CreateNodes(NODES, ("zone1",)))


def _preferred_node_affinity() -> list[Op]:
    term = SelectorTerm((Requirement(ZONE, "In", ("moon-1",)),))
    spec = _spec(affinity_preferred=(PreferredTerm(10, term),))
    return _after_plain(spec, "none", 5_000, 10_000, CreateNodes(NODES, ZONES))


def _anti_affinity() -> list[Op]:
    term = PodTerm(HOSTNAME, _color("green"), BOTH)
    return _alike(_spec(pod_anti_affinity=(term,)), "green", 1_000, 2_000, CreateNodes(NODES))


def _matching_anti_affinity() -> list[Op]:
    term = PodTerm(HOSTNAME, _color("green"), BOTH)
    return [
        CreateNodes(NODES),
        CreatePods(1_000, _spec(pod_anti_affinity=(term,)), _labels("green"), BOTH[0]),
        Barrier(),
        CreatePods(5_000, PLAIN, _labels("green"), BOTH[1], measured=True),
        Barrier(),
    ]


def _affinity() -> list[Op]:
    term = PodTerm(ZONE, _color("blue"), BOTH)
    nodes = CreateNodes(NODES, ("zone1",))
    return _alike(_spec(pod_affinity=(term,)), "blue", 5_000, 5_000, nodes)


def _preferred(weight: int, color: str) -> list[Op]:
    term = PodTerm(HOSTNAME, _color(color), BOTH)
    spec = _spec(pods_preferred=(PreferredPodTerm(weight, term),))
    return _alike(spec, color, 5_000, 5_000, CreateNodes(NODES))


def _spread(hard: bool) -> list[Op]:
    rule = SpreadConstraint(ZONE, 5, hard, _color("blue"))
    return _after_plain(_spec(spread=(rule,)), "blue", 5_000, 5_000, CreateNodes(NODES, ZONES))


def _default_spread(init: int, measured: int) -> list[Op]:
    """A Service selects the measured pods, which say nothing about spreading themselves."""
    return [
        CreateService(_labels("blue"), BOTH[1]),
        *_after_plain(PLAIN, "blue", init, measured, CreateNodes(NODES, ZONES)),
    ]


def _unschedulable(stuck: int) -> list[Op]:
    return [
        CreateNodes(NODES),
        CreatePods(stuck, _spec(9_000), stays=True),
        CreatePods(10_000, PLAIN, measured=True),
        Barrier(),
    ]


def _mixed_churn() -> list[Op]:
    return [
        CreateNodes(NODES),
        Churn(_spec(9_000, priority=10)),
        CreatePods(10_000, PLAIN, measured=True),
        Barrier(),
    ]


def _gated() -> list[Op]:
    room = ((CPU, 4_000_000), (MEMORY, 1 << 46), (PODS, 90_000))
    return [
        CreateNodes(1, amounts=room),
        CreatePods(10_000, PLAIN, gated=True, stays=True),
        CreatePods(20_000, _spec(1), measured=True),
        Barrier(),
    ]


def _preemption(nodes: int, init: int, measured: int) -> list[Op]:
    return [
        CreateNodes(nodes),
        CreatePods(init, _spec(900)),
        Barrier(),
        CreatePods(measured, _spec(3_000, priority=1_000), measured=True),
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
    "preemption": Workload(lambda: _preemption(1_000, 4_000, 1_000), 0),
    "preemption-5k": Workload(lambda: _preemption(5_000, 20_000, 5_000), 570),
    "extended-resource": Workload(_extended, 180),
}
