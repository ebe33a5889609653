"""What batches save: processor time a pod of the same workloads with batches, one pod per dispatch,
and one pod per dispatch with nothing cached. 5,000 nodes, one process, no API server.

Each round plays a workload in all three ways, in turn, each in a process of its own; the table has
medians. The simulated cluster's time is part of each figure.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from loadtest.cases import WORLDS
from loadtest.commands import chosen, show
from loadtest.one_process import measure

FLOODS = Path(__file__).parents[1] / "workloads"
ALONE: dict[str, Any] = {"queueing": {"max_batch": 1}}
FROM_SCRATCH: dict[str, Any] = {**ALONE, "placement": {"batch": False}}
WAYS: dict[str, dict[str, Any]] = {
    "batches": {},
    "one by one": ALONE,
    "from scratch": FROM_SCRATCH,
}
"""Options by way. Gangs are not dispatched one by one: only the last way differs for them."""
VOID = 0.0


def of_world(name: str, config: Mapping[str, Any]) -> float:
    """Return us of processor time a pod of a case of `make bench`, which runs in a process of its
    own.
    """
    command = [sys.executable, "-m", "loadtest.batching", "--here", json.dumps(config), name]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def of_flood(workload: Path, config: Mapping[str, Any]) -> float:
    """Return us of processor time a pod of a flood; 0 when the run is void."""
    with tempfile.TemporaryDirectory(prefix="muster-batching-") as folder:
        command = [sys.executable, "-m", "muster", "flood", str(workload), "-o", "json"]
        command += ["--run-dir", folder]
        for service, options in config.items():
            for name, value in options.items():
                command += ["--set", f"{service}.{name}={json.dumps(value)}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return float(json.loads(done.stdout)["processor_us_per_pod"]) if not done.returncode else VOID


WORKLOADS: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "identical": partial(of_world, "identical"),
    "openb": partial(of_world, "openb"),
    "spread": partial(of_flood, FLOODS / "topology-spread.yaml"),
    "preferred affinity": partial(of_flood, FLOODS / "preferred-affinity.yaml"),
    "default spreading": partial(of_flood, FLOODS / "default-topology-spread.yaml"),
    "gangs": partial(of_flood, Path(__file__).parent / "gangs.yaml"),
}


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME...]", help="Workloads; none = all.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Rounds.")
@click.option("--output", default="table", show_default=True, help="table or json.")
@click.option("--here", hidden=True)
def batching(names: Sequence[str], rounds: int, output: str, here: str | None) -> None:
    """Measure workloads and print them."""
    if here is not None:
        print(_measured_here(names[0], json.loads(here)))
        return
    console, rows = Console(stderr=True), []
    for name in chosen("batching", names, WORKLOADS):
        for number in range(rounds):
            console.print(f"{name}: round {number + 1} of {rounds}", highlight=False)
            found = {way: WORKLOADS[name](config) for way, config in WAYS.items()}
            console.print(f"  {found}", highlight=False)
            rows.append({"workload": name, **found})
    show(rows, output, _table)
    if any(VOID in row.values() for row in rows):
        sys.exit(1)


def _measured_here(name: str, config: dict[str, Any]) -> float:
    case = replace(WORLDS[name](), config=config)
    began_s = time.process_time()
    run = measure(case)
    spent_s = time.process_time() - began_s
    return 1e6 * spent_s / run.pods if run.bound == run.pods else VOID


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="us of processor time a pod, and times the batches'")
    for heading in ("workload", *WAYS):
        table.add_column(heading, justify="left" if heading == "workload" else "right")
    for name in dict.fromkeys(row["workload"] for row in rows):
        mine = [row for row in rows if row["workload"] == name]
        batches, *others = (statistics.median(row[way] for row in mine) for way in WAYS)
        void = VOID in (batches, *others)
        times = ["void" if void else f"{one:,.0f} ({one / batches:.1f} x)" for one in others]
        table.add_row(name, f"{batches:,.0f}", *times)
    return table


if __name__ == "__main__":
    batching()
