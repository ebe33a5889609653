"""A single scheduling cycle written from kube-scheduler's formulas with Python's numbers alone;
shares no code with the kernel and knows no arrays, caches or batches.
"""

from dataclasses import dataclass, field
from hashlib import blake2b

from shared.model.images import number
from shared.model.objects import HostPort, Node, PodSpec, Requirement, SelectorTerm, Taint


@dataclass
class Host:
    """One node with the pods on it: (spec, device indexes)."""

    node_id: int
    node: Node
    pods: list[tuple[PodSpec, tuple[int, ...]]] = field(default_factory=list)

    def allocatable(self, name: str) -> int:
        return dict(self.node.allocatable).get(name, 0)

    def requested(self, name: str) -> int:
        return sum(dict(spec.requests).get(name, 0) for spec, _ in self.pods)

    def device_free(self) -> list[int]:
        free = [1000] * self.node.gpu_count
        for spec, devices in self.pods:
            for device in devices:
                assert spec.gpu is not None
                free[device] -= spec.gpu.milli
        return free


@dataclass(frozen=True)
class Answer:
    node_id: int
    total: int
    devices: tuple[int, ...]
    feasible: int
    runner_up: int


def _covers(spec: PodSpec, taint: Taint) -> bool:
    for toleration in spec.tolerations:
        if toleration.effect not in ("", taint.effect):
            continue
        if toleration.key not in ("", taint.key):
            continue
        if toleration.operator == "Exists" or toleration.value == taint.value:
            return True
    return False


def _holds(need: Requirement, labels: dict[str, str]) -> bool:
    value = labels.get(need.key)
    if need.operator == "Exists":
        return value is not None
    if need.operator == "DoesNotExist":
        return value is None
    if need.operator == "In":
        return value in need.values
    if need.operator == "NotIn":
        return value not in need.values
    if value is None or not value.lstrip("-").isdigit():
        return False
    bound = int(need.values[0])
    return int(value) > bound if need.operator == "Gt" else int(value) < bound


def _matches(term: SelectorTerm, node: Node) -> bool:
    if not term.labels and not term.fields:
        return False
    fields = {"metadata.name": node.name}
    return all(_holds(need, node.labels) for need in term.labels) and all(
        _holds(need, fields) for need in term.fields
    )


def _clash(a: HostPort, b: HostPort) -> bool:
    any_ip = "0.0.0.0" in (a.ip, b.ip)
    return a.port == b.port and a.protocol == b.protocol and (any_ip or a.ip == b.ip)


def _named(spec: PodSpec, node: Node) -> bool:
    terms = spec.affinity_required
    if not terms or not all(any(f.operator == "In" for f in t.fields) for t in terms):
        return True
    return any(all(node.name in f.values for f in t.fields if f.operator == "In") for t in terms)


def choose_devices(spec: PodSpec, free: list[int]) -> tuple[int, ...] | None:
    if spec.gpu is None:
        return ()
    if len(free) > 63:  # counted, whole ones only
        fits = sum(free) >= 1000 * spec.gpu.count and spec.gpu.milli == 1000
        return tuple(range(spec.gpu.count)) if fits else None
    if sum(free) < spec.gpu.milli * spec.gpu.count:
        return None  # some device may hold more than it has: a fact put where it is guessed to be
    if spec.gpu.milli == 1000:
        empty = [index for index, milli in enumerate(free) if milli == 1000]
        return tuple(empty[: spec.gpu.count]) if len(empty) >= spec.gpu.count else None
    enough = [(milli, index) for index, milli in enumerate(free) if milli >= spec.gpu.milli]
    return (min(enough)[1],) if enough else None


def refusal(spec: PodSpec, host: Host) -> tuple[set[str], bool]:
    """Return the messages of the first refusing plugin, and whether removing pods could help."""
    node = host.node
    if not _named(spec, node):
        return {"node(s) didn't satisfy plugin(s) [NodeAffinity]"}, False
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    if node.unschedulable and not _covers(spec, cordon):
        return {"node(s) were unschedulable"}, False
    if any(t.effect in ("NoSchedule", "NoExecute") and not _covers(spec, t) for t in node.taints):
        return {"node(s) had untolerated taint(s)"}, False
    selected = all(node.labels.get(key) == value for key, value in spec.node_selector)
    terms = spec.affinity_required
    if not selected or (terms and not any(_matches(term, node) for term in terms)):
        return {"node(s) didn't match Pod's node affinity/selector"}, False
    used = [port for pod, _ in host.pods for port in pod.host_ports]
    if any(_clash(a, b) for a in spec.host_ports for b in used):
        return {"node(s) didn't have free ports for the requested pod ports"}, True
    return _resource_refusal(spec, host)


def _resource_refusal(spec: PodSpec, host: Host) -> tuple[set[str], bool]:
    messages, resolvable = set(), True
    if len(host.pods) + 1 > host.allocatable("pods"):
        messages.add("Too many pods")
    for name, amount in spec.requests:
        if amount > 0 and amount > host.allocatable(name) - host.requested(name):
            messages.add(f"Insufficient {name}")
            resolvable = resolvable and amount <= host.allocatable(name)
    whole = spec.gpu is not None and spec.gpu.milli == 1000
    if spec.gpu is not None and whole and choose_devices(spec, host.device_free()) is None:
        messages.add("Insufficient nvidia.com/gpu")
        resolvable = resolvable and spec.gpu.count <= host.node.gpu_count
    if messages:
        return messages, resolvable
    if spec.gpu is not None and spec.gpu.models and host.node.gpu_model not in spec.gpu.models:
        return {"node(s) didn't match Pod's GPU model"}, False
    if not whole and choose_devices(spec, host.device_free()) is None:
        assert spec.gpu is not None
        return {"Insufficient gpu"}, spec.gpu.count <= host.node.gpu_count
    return set(), False


def least_allocated(spec: PodSpec, host: Host) -> int:
    scores = []
    for name, own in (
        ("cpu", spec.asked[0] if spec.asked else spec.nonzero_cpu_milli),
        ("memory", spec.asked[1] if spec.asked else spec.nonzero_memory_bytes),
    ):
        capacity = host.allocatable(name)
        if capacity == 0:
            continue
        nonzero = {"cpu": "nonzero_cpu_milli", "memory": "nonzero_memory_bytes"}[name]
        asked = own + sum(getattr(pod, nonzero) for pod, _ in host.pods)
        scores.append(0 if asked > capacity else (capacity - asked) * 100 // capacity)
    return sum(scores) // len(scores) if scores else 0


def balanced(spec: PodSpec, host: Host) -> int:
    """Return BalancedAllocation's score, the 1.35 form."""
    own = dict(spec.requests)
    if not own.get("cpu", 0) and not own.get("memory", 0):
        return 0
    shares = []
    for name in ("cpu", "memory"):
        capacity = host.allocatable(name)
        if capacity:
            shares.append(min((host.requested(name) + own.get(name, 0)) / capacity, 1.0))
    if len(shares) < 2:
        return 100
    return int((1 - abs(shares[0] - shares[1]) / 2) * 100)


def image_sizes(host: Host) -> dict[int, int]:
    column = host.node.images
    values = [int.from_bytes(column[i : i + 8], "little") for i in range(0, len(column), 8)]
    return dict(zip(values[: len(values) // 2], values[len(values) // 2 :], strict=True))


def locality(spec: PodSpec, host: Host, cluster: list[Host]) -> int:
    """`cluster`: feasible or not, all hosts count."""
    if not spec.images:
        return 0
    found = 0
    for name in spec.images:
        wanted = number(name) % (1 << 64)
        holders = sum(wanted in image_sizes(other) for other in cluster)
        found += int(float(image_sizes(host).get(wanted, 0)) * (holders / len(cluster)))
    least, most = 23 << 20, 1000 * len(spec.images) << 20
    return 100 * (min(max(found, least), most) - least) // (most - least)


def totals(spec: PodSpec, hosts: list[Host], cluster: list[Host]) -> list[int]:
    """Return the weighted totals of feasible hosts."""
    taints = [
        sum(t.effect == "PreferNoSchedule" and not _covers(spec, t) for t in host.node.taints)
        for host in hosts
    ]
    prefers = [
        sum(p.weight for p in spec.affinity_preferred if _matches(p.term, host.node))
        for host in hosts
    ]
    most_taints, most_preferred = max(taints), max(prefers)
    out = []
    for host, taint, preferred in zip(hosts, taints, prefers, strict=True):
        taint_score = 100 - 100 * taint // most_taints if most_taints else 100
        affinity_score = 100 * preferred // most_preferred if most_preferred else 0
        out.append(
            least_allocated(spec, host)
            + balanced(spec, host)
            + 3 * taint_score
            + 2 * affinity_score
            + locality(spec, host, cluster)
        )
    return out


def tie_order(seed: int, host: Host) -> bytes:
    key = seed.to_bytes(8, "little")
    return blake2b(host.node.uid.encode(), digest_size=8, key=key).digest()


def single_cycle(
    seed: int, spec: PodSpec, hosts: list[Host], held: dict[int, list[Host]] | None = None
) -> Answer | None:
    """The best host, ties by hash. `held[node_id]` is that host with nominated pods on it: both
    must let the pod in, the one without scores.
    """
    held = held or {}
    open_hosts = [
        host
        for host in hosts
        if not refusal(spec, host)[0]
        and all(not refusal(spec, full)[0] for full in held.get(host.node_id, []))
    ]
    if not open_hosts:
        return None
    scored = totals(spec, open_hosts, hosts)
    order = sorted(
        range(len(open_hosts)), key=lambda i: (-scored[i], tie_order(seed, open_hosts[i]))
    )
    best = open_hosts[order[0]]
    seen = held.get(best.node_id, [best])[0]
    devices = choose_devices(spec, seen.device_free())
    assert devices is not None
    runner_up = scored[order[1]] if len(order) > 1 else -1
    return Answer(best.node_id, scored[order[0]], devices, len(open_hosts), runner_up)


def why_not(spec: PodSpec, hosts: list[Host]) -> tuple[tuple[tuple[str, int], ...], int]:
    """Return (message, count) sorted, and the number of resolvable hosts."""
    counts: dict[str, int] = {}
    resolvable = 0
    for host in hosts:
        messages, can_help = refusal(spec, host)
        for message in messages:
            counts[message] = counts.get(message, 0) + 1
        resolvable += bool(messages) and can_help
    return tuple(sorted(counts.items())), resolvable
