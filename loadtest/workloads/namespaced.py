"""The workloads whose inter-pod rules select namespaces by their labels."""

from loadtest.workloads.ops import (
    HOSTNAME,
    ZONE,
    Barrier,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    Op,
    Workload,
)
from loadtest.workloads.parts import NODES, color, labels, spec_of
from shared.model.objects import PodSpec, PodTerm, PreferredPodTerm, Requirement

INIT, MEASURED = "init-ns", "measure-ns"
DEVOPS = (Requirement("team", "In", ("devops",)),)
PODS_EACH = 100


def _term(key: str, name: str) -> PodTerm:
    return PodTerm(key, color(name), namespace_selector=DEVOPS)


def _in_namespaces(
    spec: PodSpec, name: str, init: int, measured: int, nodes: CreateNodes
) -> list[Op]:
    """Return init pods in namespaces of a hundred pods each, and measured ones in one more."""
    first = CreateNamespaces(INIT, init // PODS_EACH, (("team", "devops"),))
    last = CreateNamespaces(MEASURED, 1, (("team", "devops"),))
    there = (CreatePods(PODS_EACH, spec, labels(name), where) for where in first.names())
    return [
        nodes,
        first,
        last,
        *there,
        Barrier(),
        CreatePods(measured, spec, labels(name), last.names()[0], measured=True),
        Barrier(),
    ]


def _anti_affinity() -> list[Op]:
    spec = spec_of(pod_anti_affinity=(_term(HOSTNAME, "green"),))
    return _in_namespaces(spec, "green", 4_000, 2_000, CreateNodes(6_000))


def _affinity() -> list[Op]:
    spec = spec_of(pod_affinity=(_term(ZONE, "blue"),))
    return _in_namespaces(spec, "blue", 5_000, 2_000, CreateNodes(NODES, ("zone1",)))


def _preferred(weight: int, name: str, init: int, measured: int) -> list[Op]:
    rule = PreferredPodTerm(weight, _term(HOSTNAME, name))
    spec = spec_of(pods_preferred=(rule,))
    return _in_namespaces(spec, name, init, measured, CreateNodes(NODES))


NAMESPACED: dict[str, Workload] = {
    "anti-affinity-ns": Workload(_anti_affinity, 140),
    "affinity-ns": Workload(_affinity, 180),
    "preferred-anti-affinity-ns": Workload(lambda: _preferred(-1, "yellow", 4_000, 2_000), 180),
    "preferred-affinity-ns": Workload(lambda: _preferred(1, "red", 5_000, 5_000), 190),
}
