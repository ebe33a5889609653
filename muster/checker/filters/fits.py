"""Decides whether a pod fits on a node, for one pod and one node at a time, written to be read.

Follows kube-scheduler's Filter plugins (NodeUnschedulable, TaintToleration, NodeAffinity,
NodePorts, NodeResourcesFit) and the per-device GPU rule; knows nothing of scores.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from shared.model.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PODS,
    UNSCHEDULABLE_TAINT,
    GpuRequest,
    HostPort,
    Node,
    PodSpec,
    Requirement,
    SelectorTerm,
    Taint,
    Toleration,
)

LISTED_MAX = 63  # devices of a node that masks tell apart
WRONG_MODEL = "node(s) didn't match Pod's GPU model"
"""The last reason checked: GPUs of the wrong model, where no amount is short."""


@dataclass
class Load:
    """The pods on one node: specs by pod id, and the known GPU devices as bit masks."""

    pods: dict[int, PodSpec] = field(default_factory=dict)
    devices: dict[int, int] = field(default_factory=dict)

    def without(self, ids: Iterable[int]) -> "Load":
        """Return a copy without some pods."""
        gone = set(ids)
        return Load(
            {pod: spec for pod, spec in self.pods.items() if pod not in gone},
            {pod: mask for pod, mask in self.devices.items() if pod not in gone},
        )

    def plus(self, pod: int, spec: PodSpec, mask: int = 0) -> "Load":
        """Return a copy with one more pod."""
        copy = Load(dict(self.pods), dict(self.devices))
        copy.add(pod, spec, mask)
        return copy

    def add(self, pod: int, spec: PodSpec, mask: int = 0) -> None:
        """Add a pod."""
        self.pods[pod] = spec
        if mask:
            self.devices[pod] = mask

    def drop(self, pod: int) -> None:
        """Remove a pod, if it is here."""
        self.pods.pop(pod, None)
        self.devices.pop(pod, None)

    def used(self, resource: str) -> int:
        """Return the sum of the pods' requests."""
        return sum(spec.request(resource) for spec in self.pods.values())


def why_not(spec: PodSpec, node: Node, load: Load) -> str | None:
    """Return the first rule that keeps the pod off the node, or None if it fits."""
    return static_obstacle(spec, node) or full_for(spec, node, load)


def static_obstacle(spec: PodSpec, node: Node) -> str | None:
    """Return Filter's reason by the first static rule that keeps the pod off the node: one that no
    other pod changes.
    """
    for reason, rejects in STATIC_RULES:
        if rejects(spec, node):
            return reason
    gpu = spec.gpu
    if gpu is not None and gpu.models and node.gpu_model not in gpu.models:
        return WRONG_MODEL
    return None


def _is_cordoned(spec: PodSpec, node: Node) -> bool:
    unschedulable = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)
    return node.unschedulable and not _tolerated(unschedulable, spec.tolerations)


def tolerates(spec: PodSpec, taints: Iterable[Taint]) -> bool:
    """Return whether the pod tolerates these taints."""
    hard = [taint for taint in taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE)]
    return all(_tolerated(taint, spec.tolerations) for taint in hard)


def selects(spec: PodSpec, node: Node) -> bool:
    """Return whether the node matches the pod's node selector and required node affinity."""
    if any(node.labels.get(key) != value for key, value in spec.node_selector):
        return False
    terms = spec.affinity_required
    return not terms or any(term_matches(term, node) for term in terms)


STATIC_RULES: tuple[tuple[str, Callable[[PodSpec, Node], bool]], ...] = (
    ("node(s) were unschedulable", _is_cordoned),
    ("node(s) had untolerated taint(s)", lambda spec, node: not tolerates(spec, node.taints)),
    (
        "node(s) didn't match Pod's node affinity/selector",
        lambda spec, node: not selects(spec, node),
    ),
)
"""Filter's reasons that no load changes, in the order of the plugins, each with its rule."""


def full_for(spec: PodSpec, node: Node, load: Load) -> str | None:
    """Return the first rule about free amounts, ports or devices that keeps the pod off
    the node.
    """
    have = dict(node.allocatable)
    if len(load.pods) + 1 > have.get(PODS, 0):
        return "too many pods"
    for resource, amount in spec.requests:
        if resource != PODS and amount > 0 and load.used(resource) + amount > have.get(resource, 0):
            return f"insufficient {resource}"
    if _ports_clash(spec, load):
        return "host port"
    return None if spec.gpu is None else _gpu_obstacle(spec, node, load)


def words_of_full(spec: PodSpec, node: Node, load: Load) -> tuple[str, ...]:
    """Return Filter's reasons about a node whose labels and taints match: taken ports, or else
    every amount that is short (whole GPUs are amounts too), or else a wrong GPU model, or else that
    no device has the share.
    """
    if _ports_clash(spec, load):
        return ("node(s) didn't have free ports for the requested pod ports",)
    have = dict(node.allocatable)
    short = [
        f"Insufficient {resource}"
        for resource, amount in spec.requests
        if resource != PODS and amount > 0 and load.used(resource) + amount > have.get(resource, 0)
    ]
    if len(load.pods) + 1 > have.get(PODS, 0):
        short.append("Too many pods")
    gpu = spec.gpu
    if gpu is None:
        return tuple(short)
    if gpu.milli >= 1000 and _gpu_obstacle(spec, node, load) is not None:
        short.append("Insufficient nvidia.com/gpu")
    if not short and gpu.models and node.gpu_model not in gpu.models:
        short.append(WRONG_MODEL)
    if not short and _gpu_obstacle(spec, node, load) is not None:
        short.append("Insufficient gpu")
    return tuple(short)


def _ports_clash(spec: PodSpec, load: Load) -> bool:
    taken = [port for other in load.pods.values() for port in other.host_ports]
    return any(_clash(port, other) for port in spec.host_ports for other in taken)


def _gpu_obstacle(spec: PodSpec, node: Node, load: Load) -> str | None:
    assert spec.gpu is not None
    wanted = spec.gpu
    free = device_room(node, load)
    if node.gpu_count > LISTED_MAX and not 1000 <= wanted.milli * wanted.count <= LISTED_MAX * 1000:
        return "gpu"  # devices are only counted: no share fits, and no pod gets so many
    if free is None:
        # The devices of a pod here are unknown: only the sum can be checked.
        used = sum(o.gpu.milli * o.gpu.count for o in load.pods.values() if o.gpu is not None)
        enough = used + wanted.milli * wanted.count <= node.gpu_count * 1000
        return None if enough else "gpu"
    if wanted.milli >= 1000:
        empty = sum(1 for room in free if room == 1000)
        return None if empty >= wanted.count else "gpu"
    return None if any(room >= wanted.milli for room in free) else "gpu"


def device_room(node: Node, load: Load) -> list[int] | None:
    """Return free milli per device; None if a pod's devices are unknown, or if the node has more
    devices than a mask has bits and they are only counted.
    """
    if node.gpu_count > LISTED_MAX:
        return None
    free = [1000] * node.gpu_count
    for pod, spec in load.pods.items():
        if spec.gpu is None:
            continue
        mask = load.devices.get(pod, 0)
        if not mask:
            return None
        for device in range(mask.bit_length()):
            if mask >> device & 1:
                if device >= len(free):
                    return None
                free[device] -= spec.gpu.milli
    return free


def surely_fits(spec: PodSpec, node: Node, load: Load) -> bool:
    """Return whether the pod fits whichever devices the others have. After a reset, for pods of
    other schedulers and for nominations only the number of devices is known.
    """
    gpu = spec.gpu
    if why_not(spec, node, load) is not None:
        return False
    if gpu is None or device_room(node, load) is not None:
        return True
    touched = sum(other.gpu.count for other in load.pods.values() if other.gpu is not None)
    return node.gpu_count - touched >= gpu.count


def surely_not(spec: PodSpec, node: Node, load: Load) -> str | None:
    """Return the rule that keeps the pod off whichever devices the others have, or None. If another
    scheduler over-committed the node, it is unknown which devices the surplus shares.
    """
    reason = why_not(spec, node, load)
    if reason != "gpu" or device_room(node, load) is not None:
        return reason
    gpus = {pod: other.gpu for pod, other in load.pods.items() if other.gpu is not None}
    if sum(gpu.milli * gpu.count for gpu in gpus.values()) <= node.gpu_count * 1000:
        return reason
    return full_for(spec, node, load.without(pod for pod in gpus if not load.devices.get(pod)))


def all_fit(wanted: Sequence[GpuRequest], free: Sequence[int]) -> bool:
    """Return whether all of them can get devices at once. `free` is free milli by device."""
    if not wanted:
        return True
    first, rest = wanted[0], wanted[1:]
    roomy = [device for device, milli in enumerate(free) if milli >= first.milli]
    for chosen in combinations(roomy, first.count):
        left = [milli - first.milli * (device in chosen) for device, milli in enumerate(free)]
        if all_fit(rest, left):
            return True
    return False


def _clash(a: HostPort, b: HostPort) -> bool:
    if a.port != b.port or a.protocol != b.protocol:
        return False
    return a.ip == b.ip or "0.0.0.0" in (a.ip, b.ip)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):
        least, number = _number(toleration.value), _number(taint.value)
        low, high = (least, number) if toleration.operator == "Gt" else (number, least)
        return low is not None and high is not None and low < high
    return bool(toleration.key) and toleration.value == taint.value


def _number(text: str) -> int | None:
    """Return a number as Kubernetes writes it, in 64 bits."""
    try:
        number = int(text)
    except ValueError:
        return None
    return number if str(number) == text and -(2**63) <= number < 2**63 else None


def term_matches(term: SelectorTerm, node: Node) -> bool:
    """Return whether all requirements of a term match; an empty term matches nothing."""
    if not term.labels and not term.fields:
        return False
    return all(holds(need, node.labels) for need in term.labels) and all(
        holds(need, {"metadata.name": node.name}) for need in term.fields
    )


def holds(need: Requirement, labels: dict[str, str]) -> bool:
    """Return whether the labels meet one requirement."""
    value = labels.get(need.key)
    match need.operator:
        case "In":
            return value is not None and value in need.values
        case "NotIn":
            return value is None or value not in need.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(need, value)


def _compares(need: Requirement, value: str | None) -> bool:
    if value is None:
        return False
    try:
        have, bound = int(value), int(need.values[0])
    except ValueError:
        return False
    return have > bound if need.operator == "Gt" else have < bound
