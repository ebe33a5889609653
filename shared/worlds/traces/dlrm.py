"""The trace of disaggregated recommendation-model instances (rules: docs/reference/worlds.md).

It has no node list, so nodes are made up that hold the peak with a stated headroom. 7,280 of its
rows have no creation time; they exist from the start.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from shared.kubernetes.objects.cluster_objects import PODS_PER_NODE
from shared.model.objects import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, GpuRequest, Node, PodSpec
from shared.model.world import World
from shared.worlds.arrivals import Pod, arrivals_of, plain_node
from shared.worlds.traces.tables import Row, read_rows

FILE = "disaggregated_DLRM_trace.csv"
COLUMNS = (
    *("instance_sn", "role", "app_name", "cpu_request", "cpu_limit", "gpu_request", "gpu_limit"),
    *("rdma_request", "rdma_limit", "memory_request", "memory_limit", "disk_request"),
    *("disk_limit", "max_instance_per_node", "creation_time", "scheduled_time", "deletion_time"),
)
RDMA = "muster.io/rdma"
GPU = "gpu"
ROLE_LABEL = "muster.io/role"
APP_LABEL = "app"
GIB = 1 << 30
GPU_WHOLE_MILLI = 1000
GPU_MODEL = "HN"
HEADROOM_PERCENT = 25
"""The nodes of a role hold the peak of each resource plus this share."""

SHAPES: dict[str, dict[str, int]] = {
    "CN": {CPU: 192_000, MEMORY: 1024 * GIB, EPHEMERAL_STORAGE: 4096 * GIB, RDMA: 400, GPU: 0},
    "HN": {CPU: 128_000, MEMORY: 1024 * GIB, EPHEMERAL_STORAGE: 8192 * GIB, RDMA: 400, GPU: 8},
}
"""One node of each role: CN computes and has no GPU, HN has eight."""


@dataclass(frozen=True)
class Instance:
    """One checked row; times in seconds, `ends_s` None = it runs beyond the trace."""

    name: str
    role: str
    spec: PodSpec
    app: str
    created_s: Fraction
    started_s: Fraction
    ends_s: Fraction | None


def read_instances(path: Path) -> list[Instance]:
    """Return all rows in order of creation; rows without creation time come first, at 0."""
    rows = [_instance(row) for row in read_rows(path, COLUMNS, "instance_sn")]
    rows.sort(key=lambda row: row.created_s)
    return rows


def _instance(row: Row) -> Instance:
    role = row.one_of("role", tuple(SHAPES))
    created_s = row.decimal_or_none("creation_time") or Fraction(0)
    started_s = row.decimal_or_none("scheduled_time") or created_s
    ends_s = row.decimal_or_none("deletion_time")
    if ends_s is not None and ends_s < started_s:
        raise row.error("deletion_time", "is before the instance was scheduled or created")
    for resource in ("cpu", "gpu", "rdma", "memory", "disk"):
        if row.decimal(f"{resource}_limit") < row.decimal(f"{resource}_request"):
            raise row.error(f"{resource}_limit", f"is less than {resource}_request")
    spec = _spec(row, role)
    name, app = row.name("instance_sn"), row.name("app_name")
    return Instance(name, role, spec, app, created_s, started_s, ends_s)


def _spec(row: Row, role: str) -> PodSpec:
    _check_per_node(row)
    cpu_milli = _scaled(row, "cpu_request", 1000)
    memory_bytes = _scaled(row, "memory_request", GIB)
    requests = {
        CPU: cpu_milli,
        MEMORY: memory_bytes,
        EPHEMERAL_STORAGE: _scaled(row, "disk_request", GIB),
        RDMA: row.integer("rdma_request"),
    }
    gpus = row.integer("gpu_request")
    return PodSpec(
        requests=tuple(sorted((name, amount) for name, amount in requests.items() if amount)),
        nonzero_cpu_milli=cpu_milli,
        nonzero_memory_bytes=memory_bytes,
        node_selector=((ROLE_LABEL, role),),
        gpu=GpuRequest(GPU_WHOLE_MILLI, gpus) if gpus else None,
    )


def _scaled(row: Row, field: str, factor: int) -> int:
    amount = row.decimal(field) * factor
    return -(-amount.numerator // amount.denominator)


def _check_per_node(row: Row) -> None:
    if row.text("max_instance_per_node") != "-1" and row.integer("max_instance_per_node") < 1:
        raise row.error("max_instance_per_node", "must be -1 (no limit) or at least 1")


def _demand(instance: Instance) -> dict[str, int]:
    gpu = instance.spec.gpu
    return dict(instance.spec.requests) | {GPU: gpu.count if gpu else 0, PODS: 1}


def peak(instances: Sequence[Instance], timed: bool) -> dict[str, int]:
    """Return the largest amount of each resource requested at one time (timed), or by
    all (fill).
    """
    changes: list[tuple[Fraction, int, Instance]] = []
    for instance in instances:
        changes.append((instance.created_s, 1, instance))
        if timed and instance.ends_s is not None:
            changes.append((instance.ends_s, -1, instance))
    changes.sort(key=lambda change: change[:2])
    now: dict[str, int] = {}
    most: dict[str, int] = {}
    for _at_s, sign, instance in changes:
        for resource, amount in _demand(instance).items():
            now[resource] = now.get(resource, 0) + sign * amount
            most[resource] = max(most.get(resource, 0), now[resource])
    return most


def nodes_needed(role: str, most: dict[str, int]) -> int:
    """Return the number of nodes of a role that hold the peak plus the headroom."""
    shape = SHAPES[role] | {PODS: PODS_PER_NODE}
    needed = 0
    for resource, amount in most.items():
        if amount:
            wanted = amount * (100 + HEADROOM_PERCENT)
            needed = max(needed, -(-wanted // (100 * shape[resource])))
    return needed


def _nodes(instances: Sequence[Instance], timed: bool) -> Iterable[Node]:
    row = 0
    for role, shape in SHAPES.items():
        of_role = [instance for instance in instances if instance.role == role]
        allocatable = {name: amount for name, amount in shape.items() if name != GPU}
        model = GPU_MODEL if shape[GPU] else ""
        for number in range(nodes_needed(role, peak(of_role, timed))):
            name = f"{role.lower()}-{number:04d}"
            full = allocatable | {PODS: PODS_PER_NODE}
            yield plain_node(name, row, full, shape[GPU], model, {ROLE_LABEL: role})
            row += 1


def _pod(instance: Instance, speed: Fraction | None) -> Pod:
    at_ms = lifetime_ms = 0
    if speed is not None:
        at_ms = int(instance.created_s * 1000 / speed)
        if instance.ends_s is not None:
            lifetime_ms = max(1, int((instance.ends_s - instance.started_s) * 1000 / speed))
    return Pod(
        name=instance.name,
        spec=instance.spec,
        labels=((APP_LABEL, instance.app), (ROLE_LABEL, instance.role)),
        at_ms=at_ms,
        lifetime_ms=lifetime_ms,
    )


def dlrm_world(folder: Path, speed: Fraction | None) -> World:
    """Return the trace as a world; `speed` None = fill (everything at once, nothing is deleted)."""
    instances = read_instances(folder / FILE)
    return World(
        name="dlrm",
        nodes=tuple(_nodes(instances, speed is not None)),
        arrivals=arrivals_of(_pod(instance, speed) for instance in instances),
    )
