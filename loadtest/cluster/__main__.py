"""`make bench-cluster`: Muster beside kube-scheduler and the bare limit, on a real API server.

Every run measures all of them, each in its own cluster; figures are min / median / max of a few
runs. A figure is void (and the exit code 1) when a pod stayed unbound. A missed target is reported
but is not a failure: speed here depends on what else the machine does.
"""

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from loadtest.cluster.batching import batching
from loadtest.cluster.contestants import BARE, BATCHING, CONTESTANTS, OPTIONS, SINGLE
from loadtest.cluster.devices import devices
from loadtest.cluster.groups import groups
from loadtest.cluster.lists import lists
from loadtest.cluster.measure import Figures, Sizes
from loadtest.cluster.shapes import SHAPES, shapes
from loadtest.cluster.throughput import OF_BARE, SHARE, TIMES, backlog, creating
from loadtest.cluster.times import latency, startup
from loadtest.cluster.waiting import CPU, JOURNALS, waiting
from tests.support.kube_server import INSTALL_COMMAND, missing_parts

WIDTH = 150
CASES: dict[str, Callable[[Sizes], Figures]] = {
    "backlog": backlog,
    "batching": batching,
    "creating": creating,
    "devices": devices,
    "groups": groups,
    "startup": startup,
    "latency": latency,
    "lists": lists,
    "shapes": shapes,
    "waiting": waiting,
}
TARGETS: dict[tuple[str, str], tuple[str, float]] = {
    ("backlog", SHARE): (">=", 1.0),
    ("creating", SHARE): (">=", 1.0),
    ("groups", TIMES): (">=", 5.0),
    ("groups", OF_BARE): (">=", 0.7),
    ("devices", TIMES): (">=", 5.0),
    ("devices", OF_BARE): (">=", 0.6),
    ("startup", "first bind after"): ("<=", 10.0),
    ("latency", "p99"): ("<=", 100.0),
    ("waiting", CPU): ("<=", 5.0),
    ("waiting", JOURNALS): ("<=", 1.0),
    **{("shapes", one.judged): (">=", one.least) for one in SHAPES},
}
"""Targets by case and figure of Muster."""


def _number(name: str, default: int, text: str, least: int = 1) -> Callable[[Any], Any]:
    bounds = click.IntRange(least)
    return click.option(name, type=bounds, default=default, show_default=True, help=text)


@click.command(help=__doc__)
@click.argument("cases", nargs=-1, metavar="[CASE...]", help="Cases to run; none = all.")
@_number("--runs", 3, "Runs of each case.")
@_number("--nodes", 5_000, "Ready nodes.")
@_number("--pods", 10_000, "Pods to bind, or that wait.")
@_number("--bound", 50_000, "Pods bound before a start-up.", least=0)
@click.option(
    "--seconds",
    type=click.FloatRange(1),
    default=30,
    show_default=True,
    help="How long 200 pods/s come, or others wait.",
)
@click.option("--only", multiple=True, help="Measure this one; none = all.")
@click.option("--shape", multiple=True, help="Of `shapes` this one; none = all.")
@click.option("--output", "-o", default="table", show_default=True, help="table or json.")
def bench(
    cases: Sequence[str],
    runs: int,
    nodes: int,
    pods: int,
    bound: int,
    seconds: float,
    only: Sequence[str],
    shape: Sequence[str],
    output: str,
) -> None:
    """Measure the cases and print them beside their targets."""
    chosen = cases or list(CASES)
    wrong = [name for name in chosen if name not in CASES]
    if wrong:
        _refuse(f"{wrong[0]}: must be one of {', '.join(CASES)}")
    known = [BARE, *(one.name for one in (*CONTESTANTS, SINGLE, BATCHING))]
    if set(only) - set(known):
        _refuse(f"--only: must be one of {', '.join(known)}")
    if set(shape) - {one.name for one in SHAPES}:
        _refuse(f"--shape: must be one of {', '.join(one.name for one in SHAPES)}")
    if missing_parts(OPTIONS.version):
        _refuse(f"no {', '.join(missing_parts(OPTIONS.version))}: run '{INSTALL_COMMAND}'")
    sizes = Sizes(nodes, pods, bound, seconds, tuple(only), shapes=tuple(shape))
    console = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    for number in range(runs):
        for name in chosen:
            console.print(f"{name}: run {number + 1} of {runs}", highlight=False)
            new = [{"case": name, **one} for one in CASES[name](sizes)]
            for row in new:
                console.print(f"  {_line(row)}", highlight=False)
            rows += new
    if output == "json":
        print(json.dumps(rows, indent=2))
    else:
        Console(width=WIDTH).print(_table(rows))
    if any(row["void"] for row in rows):
        sys.exit(1)


def _refuse(text: str) -> None:
    click.echo(f"loadtest: {text}", err=True)
    sys.exit(2)


def _line(row: dict[str, Any]) -> str:
    void = " (void)" if row["void"] else ""
    return f"{row['who']}: {row['what']} {_shown(row['value'])} {row['unit']}{void}"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:,.2f}"


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="speed on a real API server (min / median / max)")
    for heading in ("case", "who", "what", "min", "median", "max", "unit", "target", ""):
        is_text = heading in ("case", "who", "what", "unit")
        table.add_column(heading, justify="left" if is_text else "right", no_wrap=True)
    keys = dict.fromkeys((row["case"], row["who"], row["what"]) for row in rows)
    for case, who, what in keys:
        mine = [row for row in rows if (row["case"], row["who"], row["what"]) == (case, who, what)]
        values = [row["value"] for row in mine]
        spread = (min(values), statistics.median(values), max(values))
        target, verdict = _judged(case, who, what, spread[1])
        if any(row["void"] for row in mine):
            verdict = "void"
        table.add_row(
            case, who, what, *(_shown(one) for one in spread), mine[0]["unit"], target, verdict
        )
    return table


def _judged(case: str, who: str, what: str, median: float) -> tuple[str, str]:
    """Return the target as text, and whether the median misses it."""
    if who != "muster" or (case, what) not in TARGETS:
        return "", ""
    sign, bound = TARGETS[case, what]
    is_met = median >= bound if sign == ">=" else median <= bound
    return f"{sign} {bound:g}", "" if is_met else "missed"


if __name__ == "__main__":
    bench()
