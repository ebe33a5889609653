"""Microseconds of CPU time per pod of the placement kernel alone: place and charge, without
journals.

Each case is printed beside the naive single cycle on the same cluster and pods. Run it as `python
-m loadtest.bench_kernel [identical|shapes|one|different|wide]...`.
"""

import csv
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from time import process_time

import numpy as np

from shared.model.ids import NodeId, SignatureId
from shared.model.objects import GpuRequest, Node, PodSpec
from shared.scheduling.cycle import sweep
from shared.scheduling.cycle.kernel import Kernel
from shared.scheduling.cycle.signature import Signature
from shared.scheduling.table.table import NodeTable

MI, GI = 1 << 20, 1 << 30
NODES = 5_000
NAIVE_PODS = 200
DATA = Path(os.environ.get("MUSTER_DATA") or Path(__file__).parents[2] / "shared" / "data")

Batches = Iterator[tuple[PodSpec, int]]


def spec_of(cpu_milli: int, memory_bytes: int, gpu: GpuRequest | None = None) -> PodSpec:
    """Return a spec with these requests."""
    return PodSpec(
        requests=(("cpu", cpu_milli), ("memory", memory_bytes)),
        nonzero_cpu_milli=cpu_milli,
        nonzero_memory_bytes=memory_bytes,
        gpu=gpu,
    )


def cluster(gpu_nodes: int = 0) -> NodeTable:
    """Return 5,000 nodes of 32 CPU, 256 Gi and 110 pods, the first `gpu_nodes` of them
    with 8 GPUs.
    """
    table = NodeTable(seed=1)
    amounts = (("cpu", 32_000), ("memory", 256 * GI), ("pods", 110))
    nodes = [
        Node(
            uid=f"node-{i}",
            name=f"node-{i}",
            allocatable=amounts,
            labels={"kubernetes.io/hostname": f"node-{i}"},
            gpu_count=8 if i < gpu_nodes else 0,
            gpu_model="T4" if i < gpu_nodes else "",
        )
        for i in range(NODES)
    ]
    table.set_nodes(map(NodeId, range(1, NODES + 1)), nodes)
    return table


def openb_shapes() -> list[PodSpec]:
    """Return the pods of the openb trace, cpu and memory divided by 16, as often as they occur
    there.
    """
    shapes = []
    with (DATA / "openb" / "openb_pod_list_default.csv").open() as file:
        for row in csv.DictReader(file):
            count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
            gpu = GpuRequest(milli, count) if count else None
            cpu, memory = int(row["cpu_milli"]) // 16, int(row["memory_mib"]) // 16
            shapes.append(spec_of(max(cpu, 1), max(memory, 1) * MI, gpu))
    return shapes


def identical(batch: int) -> Batches:
    """Yield 100,000 equal pods."""
    spec = spec_of(100, 128 * MI)
    for _ in range(100_000 // batch):
        yield spec, batch


def shapes(batch: int, pods: int) -> Batches:
    """Yield shapes in random order, `batch` pods of one at a time."""
    random = Random(5)
    known = openb_shapes()
    for _ in range(pods // batch):
        yield random.choice(known), batch


def different(pods: int) -> Batches:
    """Yield pods that all have different specs."""
    for i in range(pods):
        yield spec_of(100 + i % 400, (128 + i // 400) * MI), 1


def run(table: NodeTable, batches: Batches, naive_pods: int = 0) -> tuple[float, int, int]:
    """Return microseconds per placed pod, pods placed, and pods refused. Compiling a signature is
    not timed: it happens once, when the world journal names it.
    """
    kernel, sigs = Kernel(), dict[PodSpec, Signature]()
    work: list[tuple[Signature, int]] = []
    for spec, k in batches:
        if spec not in sigs:
            sigs[spec] = Signature(table, SignatureId(len(sigs) + 1), spec)
        work.append((sigs[spec], k))
    work = work[: naive_pods or len(work)]
    placed = asked = 0
    start = process_time()
    for sig, k in work:
        picks = kernel.place_naive(table, sig) if naive_pods else kernel.place(table, sig, k)
        table.charge(sig, picks.rows, picks.masks)
        placed += len(picks.rows)
        asked += k
    return (process_time() - start) * 1e6 / max(placed, 1), placed, asked - placed


def show(name: str, make: Callable[[], Batches], gpu_nodes: int = 0) -> None:
    """Print one line: best, median and worst of three runs, and the naive baseline."""
    results = sorted(run(cluster(gpu_nodes), make()) for _ in range(3))
    naive = run(cluster(gpu_nodes), make(), NAIVE_PODS)[0]
    best, middle, worst = (result[0] for result in results)
    _, placed, refused = results[0]
    print(
        f"{name:34} {best:7.2f} / {middle:7.2f} / {worst:7.2f} us/pod   naive {naive:7.1f}   "
        f"{placed:,} placed, {refused:,} refused"
    )


def wide() -> None:
    """Print where numpy's rounds become faster than Python on one level: the level's nodes and both
    times.
    """
    for nodes in (25, 50, 100, 200, 400, 800):
        times = []
        for wide_min in (1, 1 << 30):
            sweep.LEVEL_NODES_MIN = wide_min
            times.append(min(_level(nodes) for _ in range(5)))
        print(f"level of {nodes:4} nodes: wide {times[0]:6.2f}, narrow {times[1]:6.2f} us/pod")


def _level(nodes: int) -> float:
    table = NodeTable(seed=1)
    amounts = (("cpu", 32_000), ("memory", 256 * GI), ("pods", 110))
    made = [Node(uid=f"n{i}", name=f"n{i}", allocatable=amounts) for i in range(nodes)]
    table.set_nodes(map(NodeId, range(1, nodes + 1)), made)
    kernel, sig = Kernel(), Signature(table, SignatureId(1), spec_of(400, 1 * GI))
    kernel.place(table, sig, 2)
    start = process_time()
    picks = kernel.place(table, sig, 2 * nodes)
    return (process_time() - start) * 1e6 / len(picks.rows)


def show_identical() -> None:
    """Print large batches, as of a backlog, and smaller ones."""
    show("identical, batches of 10,000", lambda: identical(10_000))
    show("identical, batches of 1,000", lambda: identical(1_000))


CASES: dict[str, Callable[[], None]] = {
    "identical": show_identical,
    "shapes": lambda: show("openb shapes, batches of 256", lambda: shapes(256, 50_000), 4_000),
    "one": lambda: show("openb shapes, one at a time", lambda: shapes(1, 10_000), 4_000),
    "different": lambda: show("all different, one at a time", lambda: different(3_000)),
    "wide": wide,
}


def main() -> None:
    """Run the named cases, or all but `wide`."""
    np.seterr(all="raise")
    for name in sys.argv[1:] or ["identical", "shapes", "one", "different"]:
        CASES[name]()


if __name__ == "__main__":
    main()
