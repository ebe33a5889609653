"""scheduler_perf's workloads in one process with durable journals and NO API SERVER: pods/s.

Every run has its own process. The published floors are those of kube-scheduler's CI, on other
machines and with an API server in the same process: they show which shapes are hard, no more.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from loadtest.workloads.play import measure
from loadtest.workloads.shapes import WORKLOADS

TARGET_PODS_PER_S, TARGET_TIMES = 2_000, 5


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME...]", help="Workloads; none = all.")
@click.option(
    "--runs", type=click.IntRange(1), default=3, show_default=True, help="Runs of each workload."
)
@click.option("--output", default="table", show_default=True, help="table or json.")
@click.option("--here", is_flag=True, hidden=True)
def workloads(names: Sequence[str], runs: int, output: str, here: bool) -> None:
    """Play workloads and print them beside the published floors."""
    chosen = names or list(WORKLOADS)
    unknown = [name for name in chosen if name not in WORKLOADS]
    if unknown:
        click.echo(f"workloads: {unknown[0]}: must be one of {', '.join(WORKLOADS)}", err=True)
        sys.exit(2)
    if here:
        played = measure(WORKLOADS[chosen[0]])
        print(json.dumps({"pods": played.pods, "bound": played.bound, "speed": played.pods_per_s}))
        return
    console, rows = Console(stderr=True), []
    for name in chosen:
        for number in range(runs):
            console.print(f"{name}: run {number + 1} of {runs}", highlight=False)
            rows.append({"workload": name, **_run(name)})
    print(json.dumps(rows, indent=2)) if output == "json" else Console().print(_table(rows))
    if any(row["bound"] < row["pods"] for row in rows):
        sys.exit(1)


def _run(name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "loadtest.workloads", "--here", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return {"pods": 1, "bound": 0, "speed": 0.0}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="one process, no API server: pods/s (min / median / max)")
    for heading in ("workload", "pods", "min", "median", "max", "floor", "times", ""):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for name in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == name]
        speeds = [row["speed"] for row in mine]
        median, floor = statistics.median(speeds), WORKLOADS[name].floor
        void = any(row["bound"] < row["pods"] for row in mine)
        met = median >= max(TARGET_PODS_PER_S, TARGET_TIMES * floor)
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
