"""The openb GPU-cluster trace: its node list and pod list as a world (docs/reference/worlds.md).

Two modes: fill (all pods at once, in creation order, none is deleted) and timed (the trace's times
divided by a speed). It leaves the trace unchanged; openb_main.py has the changes of the main job.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import msgspec

from shared.kubernetes.objects.cluster_objects import PODS_PER_NODE
from shared.model.objects import CPU, MEMORY, PODS, GpuRequest, Node, PodSpec
from shared.model.world import World
from shared.worlds.arrivals import Pod, arrivals_of, plain_node
from shared.worlds.traces.tables import Row, read_rows

NODE_FILE = "openb_node_list_all_node.csv"
PLAIN_POD_FILE = "openb_pod_list_default.csv"
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"),
    *("qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
)
ASSUMED = {"gpu_spec": "", "qos": "BE", "pod_phase": "Running"}
ASSUMED_TIMES = {"creation_time": "0", "deletion_time": "0", "scheduled_time": ""}
"""Some of the published lists have only the first five columns. Without times the file's order is
the only order, and the list cannot be played by time.
"""
PRIORITY_OF_QOS = {"LS": 300, "Guaranteed": 200, "Burstable": 200, "BE": 100}
PHASES = ("Pending", "Running", "Succeeded", "Failed")
GPU_WHOLE_MILLI = 1000
MIB = 1 << 20
GPUS_PER_NODE_MAX = 63


@dataclass(frozen=True)
class Timing:
    """`speed` None = fill. `rate` (pods/s) replaces the creation times by an even, open-loop flow;
    `repeat` plays the pod list this many times, one copy after another.
    """

    speed: Fraction | None = None
    rate: Fraction | None = None
    repeat: int = 1


FILL = Timing()


@dataclass(frozen=True)
class PodRow:
    """One checked row of the pod list; times in seconds of the trace."""

    name: str
    spec: PodSpec
    qos: str
    created_s: Fraction
    runs_s: Fraction


def read_nodes(path: Path) -> tuple[Node, ...]:
    """Return the node list."""
    rows = read_rows(path, NODE_COLUMNS, "sn")
    return tuple(_node(number, row) for number, row in enumerate(rows))


def _node(number: int, row: Row) -> Node:
    gpus, model = row.integer("gpu"), row.text("model")
    if gpus > GPUS_PER_NODE_MAX:
        raise row.error("gpu", f"{gpus} is more than {GPUS_PER_NODE_MAX}")
    if bool(gpus) != bool(model):
        raise row.error("model", "must be set exactly where gpu is not 0")
    allocatable = {
        CPU: row.integer("cpu_milli"),
        MEMORY: row.integer("memory_mib") * MIB,
        PODS: PODS_PER_NODE,
    }
    return plain_node(row.name("sn"), number, allocatable, gpus, model)


def read_pods(path: Path, timing: Timing = FILL) -> list[PodRow]:
    """Return the pod list in order of creation (stable for equal times). Times may be missing in a
    file that is not played by time. Raises WorldError.
    """
    needs_times = timing.speed is not None and timing.rate is None
    defaults = ASSUMED if needs_times else ASSUMED | ASSUMED_TIMES
    rows = [_pod_row(row) for row in read_rows(path, POD_COLUMNS, "name", defaults)]
    rows.sort(key=lambda row: row.created_s)
    return rows


def _pod_row(row: Row) -> PodRow:
    row.one_of("pod_phase", PHASES)
    qos = row.one_of("qos", tuple(PRIORITY_OF_QOS))
    created_s = row.decimal("creation_time")
    started_s = row.decimal_or_none("scheduled_time")
    deleted_s = row.decimal("deletion_time")
    runs_s = deleted_s - (created_s if started_s is None else started_s)
    if runs_s < 0:
        raise row.error("deletion_time", "is before the pod was scheduled or created")
    cpu_milli, memory_bytes = row.integer("cpu_milli"), row.integer("memory_mib") * MIB
    spec = PodSpec(
        priority=PRIORITY_OF_QOS[qos],
        requests=tuple(
            (name, amount) for name, amount in ((CPU, cpu_milli), (MEMORY, memory_bytes)) if amount
        ),
        nonzero_cpu_milli=cpu_milli,
        nonzero_memory_bytes=memory_bytes,
        gpu=_gpu(row),
    )
    return PodRow(row.name("name"), spec, qos, created_s, runs_s)


def _gpu(row: Row) -> GpuRequest | None:
    count, milli = row.integer("num_gpu"), row.integer("gpu_milli")
    models = tuple(sorted({word for word in row.text("gpu_spec").split("|") if word}))
    if count == 0:
        if milli or models:
            raise row.error("num_gpu", "is 0, but gpu_milli or gpu_spec is set")
        return None
    if not 0 < milli <= GPU_WHOLE_MILLI:
        raise row.error("gpu_milli", f"{milli} is not within 1..{GPU_WHOLE_MILLI}")
    if count > 1 and milli != GPU_WHOLE_MILLI:
        raise row.error("gpu_milli", f"must be {GPU_WHOLE_MILLI} where num_gpu is more than 1")
    return GpuRequest(milli, count, models)


def pods_of(rows: list[PodRow], timing: Timing) -> list[Pod]:
    """Return the pods with their times in the world, in milliseconds."""
    return [
        _pod(row, f"{row.name}-{copy}" if copy else row.name, at_ms, timing)
        for copy, row, at_ms in _times(rows, timing)
    ]


def _times(rows: list[PodRow], timing: Timing) -> Iterable[tuple[int, PodRow, int]]:
    if not rows:
        return
    first_s = rows[0].created_s
    span_s = rows[-1].created_s - first_s + 1
    for copy in range(timing.repeat):
        for number, row in enumerate(rows):
            at_s = Fraction(0)
            if timing.rate is not None:
                at_s = Fraction(copy * len(rows) + number) / timing.rate
            elif timing.speed is not None:
                at_s = (copy * span_s + row.created_s - first_s) / timing.speed
            yield copy, row, int(at_s * 1000)


def _pod(row: PodRow, name: str, at_ms: int, timing: Timing) -> Pod:
    lifetime_ms = 0
    if timing.speed is not None:
        lifetime_ms = max(1, int(row.runs_s * 1000 / timing.speed))
    labels = (("muster.io/qos", row.qos),)
    return Pod(name=name, spec=row.spec, labels=labels, at_ms=at_ms, lifetime_ms=lifetime_ms)


def plain_world(folder: Path, pod_file: str, timing: Timing) -> World:
    """Return the trace unchanged; it has no priorities, so there is no preemption."""
    nodes = read_nodes(folder / NODE_FILE)
    pods = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=0))
        for pod in pods_of(read_pods(folder / pod_file, timing), timing)
    ]
    return World(name="openb", nodes=nodes, arrivals=arrivals_of(pods))
