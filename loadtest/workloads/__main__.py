"""scheduler_perf's workloads as floods in one process, with NO API SERVER: pods/s.

Every run has its own process. The published floors are those of kube-scheduler's CI, on other
machines and with an API server in the same process: they show which shapes are hard, no more. Left
out: its claims of devices, deleting pods with finalizers, and the Services of mixed-churn. Claims
and volumes exist before the flood.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from loadtest.commands import chosen, show

HERE = Path(__file__).parent
TARGET_PODS_PER_S, TARGET_TIMES = 2_000, 5
FLOORS = {
    "basic": 680,
    "basic-50k": 810,
    "daemonset": 1_100,
    "node-affinity": 540,
    "preferred-node-affinity": 0,
    "anti-affinity": 180,
    "matching-anti-affinity": 600,
    "affinity": 70,
    "preferred-affinity": 160,
    "preferred-anti-affinity": 190,
    "topology-spread": 460,
    "preferred-topology-spread": 340,
    "default-topology-spread": 160,
    "unschedulable-100": 590,
    "unschedulable-20k": 600,
    "mixed-churn": 710,
    "gated": 910,
    "gated-affinity": 750,
    "preemption": 0,
    "preemption-5k": 570,
    "mixed": 540,
    "node-inclusion-policy": 270,
    "secrets": 790,  # mounted by the node: they do not affect scheduling
    "anti-affinity-ns": 140,
    "affinity-ns": 180,
    "preferred-anti-affinity-ns": 180,
    "preferred-affinity-ns": 190,
    "csi-pvs": 100,
    "in-tree-pvs": 290,
    "migrated-pvs": 100,
    "extended-resource": 180,
    "resource-claims": 0,
    "claims-first-available": 0,
    "claims-match-attribute": 0,
    "claims-partitions": 0,
    "claims-gangs": 0,
}
"""By workload, scheduler_perf's published threshold in pods/s; 0 = it has none."""
LOWER_TARGETS = dict.fromkeys([name for name in FLOORS if name.startswith("claims-")], 1_000)
OPTIONS = {"claims-partitions": ["--set", "placement.compatibility='1.37'"]}
"""1.35 has no partitions."""


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME...]", help="Workloads; none = all.")
@click.option(
    "--runs", type=click.IntRange(1), default=3, show_default=True, help="Runs of each workload."
)
@click.option("--output", default="table", show_default=True, help="table or json.")
def workloads(names: Sequence[str], runs: int, output: str) -> None:
    """Play workloads and print them beside the published floors."""
    console, rows = Console(stderr=True), []
    for name in chosen("workloads", names, FLOORS):
        for number in range(runs):
            console.print(f"{name}: run {number + 1} of {runs}", highlight=False)
            rows.append({"workload": name, **run(HERE / f"{name}.yaml")})
    show(rows, output, _table)
    if any(row["bound"] < row["pods"] for row in rows):
        sys.exit(1)


def run(workload: Path) -> dict[str, Any]:
    """Return how many pods were measured and bound, and the speed; 0 when the run is void."""
    with tempfile.TemporaryDirectory(prefix="muster-workload-") as folder:
        command = [sys.executable, "-m", "muster", "flood", str(workload), "-o", "json"]
        command += ["--run-dir", folder, *OPTIONS.get(workload.stem, [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    found = json.loads(done.stdout or '{"measured": 1, "measured_bound": 0}')
    speed = 0.0 if done.returncode else found["pods_per_second"]
    return {"pods": found["measured"], "bound": found["measured_bound"], "speed": speed}


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="one process, no API server: pods/s (min / median / max)")
    for heading in ("workload", "pods", "min", "median", "max", "floor", "times", ""):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for name in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == name]
        speeds = [row["speed"] for row in mine]
        median, floor = statistics.median(speeds), FLOORS[name]
        void = any(row["bound"] < row["pods"] for row in mine)
        least = LOWER_TARGETS.get(name, TARGET_PODS_PER_S)
        met = median >= max(least, TARGET_TIMES * floor)
        table.add_row(
            name,
            f"{mine[0]['pods']:,}",
            *(f"{value:,.0f}" for value in (min(speeds), median, max(speeds))),
            f"{floor:,}" if floor else "-",
            f"{median / floor:.1f}" if floor else "-",
            "void" if void else "" if met else "missed",
        )
    return table


if __name__ == "__main__":
    workloads()
