"""`python -m loadtest.defrag [RUN]`: how many pods with all GPUs of a node fit after a day of churn
on openb, and after the plan of `muster defrag`, beside what any packing of all pods can reach.

Without RUN the mix loadtest/mixes/openb-day.yaml is played first, into a folder that is deleted.
The bound counts devices: no packing can free more nodes, even one that starts from nothing.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from muster.cli.commands.defrag.show import cluster_of_run
from muster.defrag.cluster import Cluster
from muster.defrag.plan import plan
from shared.model.objects import Node, PodSpec

MIX = Path(__file__).parent / "mixes" / "openb-day.yaml"
WHOLE = 1000
TARGET = 0.9


@dataclass(frozen=True)
class Figures:
    """Nodes with all GPUs free: `before`, `planned` for after the moves, and a bound for both."""

    gpus: int
    used_gpus: float
    pods: int
    before: int
    planned: int
    bound: int
    moves: int
    plan_s: float

    @property
    def share(self) -> float:
        """Return the plan's part of the bound."""
        return self.planned / self.bound if self.bound else 1.0


def figures(cluster: Cluster) -> Figures:
    """Return the figures of a cluster."""
    began_s = time.perf_counter()
    found = plan(cluster)
    plan_s = time.perf_counter() - began_s
    state = cluster.state
    ledger = state.ledger
    specs = [state.specs[ledger.sig_at(at)] for at in ledger.charged().tolist()]
    nodes = list(state.nodes.values())
    most = max(node.gpu_count for node in nodes)
    return Figures(
        gpus=sum(node.gpu_count for node in nodes),
        used_gpus=sum(map(_gpu_milli, specs)) / WHOLE,
        pods=len(specs),
        before=len(found.free),
        planned=len(found.free) + len(found.places),
        bound=bound(nodes, specs, most),
        moves=len(found.moves),
        plan_s=round(plan_s, 2),
    )


def _gpu_milli(spec: PodSpec) -> int:
    return 0 if spec.gpu is None else spec.gpu.milli * spec.gpu.count


def bound(nodes: Sequence[Node], specs: Sequence[PodSpec], most: int) -> int:
    """Return how many nodes with `most` GPUs could be free at most, by the devices that pods need
    beyond those of all other nodes.
    """
    counts = [node.gpu_count for node in nodes]
    gpus = [spec.gpu for spec in specs if spec.gpu is not None]
    whole = sum(gpu.count for gpu in gpus if gpu.milli == WHOLE)
    needed = whole + devices_min([gpu.milli for gpu in gpus if gpu.milli < WHOLE])
    rest = needed - sum(count for count in counts if count != most)
    return counts.count(most) - max(0, -(-rest // most))


def devices_min(shares: Sequence[int]) -> int:
    """Return a bound for the devices that these shares need in thousandths (Martello and Toth's L2
    for bin packing): shares above half a device share it with small ones alone.
    """
    best = 0
    for small in sorted({0, *(share for share in shares if 2 * share <= WHOLE)}):
        alone = sum(share > WHOLE - small for share in shares)
        large = [share for share in shares if 2 * share > WHOLE and share <= WHOLE - small]
        rest = sum(share for share in shares if small <= share and 2 * share <= WHOLE)
        more = max(0, rest - (len(large) * WHOLE - sum(large)))
        best = max(best, alone + len(large) + -(-more // WHOLE))
    return best


@click.command(help=__doc__)
@click.argument("run", required=False, type=click.Path(exists=True, path_type=Path))
def bench(run: Path | None) -> None:
    """Print the figures as JSON; exit code 1 below the target."""
    with tempfile.TemporaryDirectory() as folder:
        if run is None:
            run = Path(folder) / "run"
            words = ["simulate", "--workloads", str(MIX), "--run-dir", str(run)]
            subprocess.run([sys.executable, "-m", "muster", *words], check=True)
        _what, cluster = asyncio.run(cluster_of_run("", run))
        found = figures(cluster)
    print(json.dumps({**asdict(found), "share": round(found.share, 4)}, indent=2))
    sys.exit(found.share < TARGET)


if __name__ == "__main__":
    bench()
