"""scheduler_perf's workloads in one process, journals durable, NO API SERVER: pods a second.

Every run is a process of its own. Published floors are those of kube-scheduler's CI, on other
machines and with an API server in the same process: they tell which shapes are hard, no more.
"""

import json
import statistics
import subprocess
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from loadtest.workloads.play import measure
from loadtest.workloads.shapes import WORKLOADS

TARGET_PODS_PER_S, TARGET_TIMES = 2_000, 5

app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def workloads(
    names: Annotated[list[str] | None, typer.Argument(help="Workloads; none = all.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each workload.")] = 3,
    output: Annotated[str, typer.Option(help="table or json.")] = "table",
    here: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Play workloads and print them beside the published floors."""
    chosen = names or list(WORKLOADS)
    unknown = [name for name in chosen if name not in WORKLOADS]
    if unknown:
        typer.echo(f"workloads: {unknown[0]}: must be one of {', '.join(WORKLOADS)}", err=True)
        raise typer.Exit(2)
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
        raise typer.Exit(1)


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
    app()
