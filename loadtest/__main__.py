"""`make bench`: the speed table, each figure min / median / max of a few runs.

Every run has its own process, so that one case's memory does not count for another. A fixed loop
and page syncs, timed during each run, show how fast the machine was. A figure is void (and the exit
code 1) when a pod stayed unbound. Targets are those of a two-core machine.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from loadtest.cases import CASES, figure
from loadtest.commands import chosen

WIDTH = 110
LOOK_S, LOOP_NUMBERS = 0.5, 100_000
CALM_LOOKS, CALM_LOOK_S, CALM_AGAIN_S = 60, 0.05, 10
BASELINE = "a fixed loop meanwhile"
"""Shared processors are slower for minutes at a time, and nothing else shows it."""
SLOWEST_SYNC = "the slowest sync meanwhile"
"""Shared disks stall for 0.1 s and more, and every journal with them."""


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, metavar="[CASE...]", help="Cases to run; none = all.")
@click.option("--runs", default=3, show_default=True, help="Runs of each case.")
@click.option("--output", default="table", show_default=True, help="table or json.")
@click.option(
    "--calm-ms",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="Begin a run when the fixed loop takes less than this; 0 = now.",
)
@click.option("--here", is_flag=True, hidden=True)
def bench(cases: Sequence[str], runs: int, output: str, calm_ms: float, here: bool) -> None:
    """Measure the cases and print them beside their targets."""
    names = chosen("loadtest", cases, CASES)
    if here:
        print(json.dumps(CASES[names[0]].measure()))
        return
    console = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    for name in names:
        for number in range(runs):
            console.print(f"{name}: run {number + 1} of {runs}", highlight=False)
            _wait_until_calm(calm_ms, console)
            rows.extend({"case": name, **one} for one in _run(name))
    if output == "json":
        print(json.dumps(rows, indent=2))
    else:
        Console(width=WIDTH).print(_table(rows))
    if any(row["void"] for row in rows):
        sys.exit(1)


def _run(name: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "loadtest", "--here", name]
    with (
        tempfile.TemporaryFile() as file,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        loops_ms, syncs_ms = [], [0.0]
        while process.poll() is None:
            time.sleep(LOOK_S)
            loops_ms.append(_loop_ms())
            syncs_ms.append(_sync_ms(file.fileno()))
        assert process.stdout is not None
        said = process.stdout.read()
    if process.returncode:
        return [{"what": name, "value": 0.0, "unit": "failed", "void": True}]
    figures: list[dict[str, Any]] = json.loads(said.splitlines()[-1])
    baselines = (
        figure(BASELINE, statistics.median(loops_ms), "ms"),
        figure(SLOWEST_SYNC, max(syncs_ms), "ms"),
    )
    return [*figures, *baselines]


def _wait_until_calm(limit_ms: float, console: Console) -> None:
    """Wait until other users of shared processors rest. That may not last, so every run also
    reports the loop's time.
    """
    while limit_ms:
        looks_ms = []
        for _ in range(CALM_LOOKS):
            looks_ms.append(_loop_ms())
            time.sleep(CALM_LOOK_S)
        if (median_ms := statistics.median(looks_ms)) < limit_ms:
            return
        console.print(f"  the loop takes {median_ms:.2f} ms: waiting", highlight=False)
        time.sleep(CALM_AGAIN_S)


def _loop_ms() -> float:
    """Return the processor time of a fixed loop: how fast this machine is just now."""
    began_ns = time.thread_time_ns()
    sum(range(LOOP_NUMBERS))
    return (time.thread_time_ns() - began_ns) / 1_000_000


def _sync_ms(file: int) -> float:
    """Return the time to sync a page to the disk of the journals."""
    began_ns = time.perf_counter_ns()
    os.pwrite(file, bytes(4_096), 0)
    os.fdatasync(file)
    return (time.perf_counter_ns() - began_ns) / 1_000_000


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="speed (min / median / max)")
    for heading in ("case", "what", "min", "median", "max", "unit", "target", "stretch", ""):
        table.add_column(
            heading, justify="left" if heading in ("case", "what", "unit") else "right"
        )
    keys = list(dict.fromkeys((row["case"], row["what"]) for row in rows))
    for case, what in keys:
        mine = [row for row in rows if (row["case"], row["what"]) == (case, what)]
        values = [row["value"] for row in mine]
        void = "void" if any(row["void"] for row in mine) else ""
        target, stretch = CASES[case].targets.get(what, ("", ""))
        spread = (min(values), statistics.median(values), max(values))
        shown = [f"{value:,.0f}" if value >= 100 else f"{value:,.2f}" for value in spread]
        table.add_row(case, what, *shown, mine[0]["unit"], target, stretch, void)
    return table


if __name__ == "__main__":
    bench()
