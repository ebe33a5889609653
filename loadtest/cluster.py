"""`make bench-cluster`: Muster beside kube-scheduler and the bare limit, on a real API server.

Every run measures all of them, each in a cluster of its own; figures are min / median / max of a
few runs. A figure is void (and the exit code 1) when a pod stayed unbound. A target that was missed
is said, and is no failure: how fast it is here depends on what else this machine does.
"""

import json
import statistics
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from loadtest.cluster_contestants import BARE, CONTESTANTS
from loadtest.cluster_lists import lists
from loadtest.cluster_measure import Figures, Sizes
from loadtest.cluster_shapes import SHAPES, shapes
from loadtest.cluster_throughput import SHARE, backlog, creating
from loadtest.cluster_times import latency, startup
from loadtest.cluster_waiting import CPU, JOURNALS, waiting
from tests.support.kube_server import INSTALL_COMMAND, missing_parts

WIDTH = 150
CASES: dict[str, Callable[[Sizes], Figures]] = {
    "backlog": backlog,
    "creating": creating,
    "startup": startup,
    "latency": latency,
    "lists": lists,
    "shapes": shapes,
    "waiting": waiting,
}
TARGETS: dict[tuple[str, str], tuple[str, float]] = {
    ("backlog", SHARE): (">=", 1.0),
    ("creating", SHARE): (">=", 1.0),
    ("startup", "first bind after"): ("<=", 10.0),
    ("latency", "p99"): ("<=", 100.0),
    ("waiting", CPU): ("<=", 5.0),
    ("waiting", JOURNALS): ("<=", 1.0),
    **{("shapes", one.judged): (">=", one.least) for one in SHAPES},
}
"""By case and figure of Muster's."""

app = typer.Typer(add_completion=False, help=__doc__)


@app.command()
def bench(
    cases: Annotated[list[str] | None, typer.Argument(help="Cases to run; none = all.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each case.")] = 3,
    nodes: Annotated[int, typer.Option(min=1, help="Ready nodes.")] = 5_000,
    pods: Annotated[int, typer.Option(min=1, help="Pods to bind, or that wait.")] = 10_000,
    bound: Annotated[int, typer.Option(min=0, help="Pods bound before a start-up.")] = 50_000,
    seconds: Annotated[
        float, typer.Option(min=1, help="How long 200 pods/s come, or others wait.")
    ] = 30,
    only: Annotated[list[str] | None, typer.Option(help="Measure this one; none = all.")] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Of `shapes` this one; none = all.")
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Measure the cases and print them beside their targets."""
    chosen = cases or list(CASES)
    wrong = [name for name in chosen if name not in CASES]
    if wrong:
        _refuse(f"{wrong[0]}: must be one of {', '.join(CASES)}")
    known = [BARE, *(one.name for one in CONTESTANTS)]
    if set(only or ()) - set(known):
        _refuse(f"--only: must be one of {', '.join(known)}")
    if set(shape or ()) - {one.name for one in SHAPES}:
        _refuse(f"--shape: must be one of {', '.join(one.name for one in SHAPES)}")
    if missing_parts():
        _refuse(f"no {', '.join(missing_parts())}: run '{INSTALL_COMMAND}'")
    sizes = Sizes(nodes, pods, bound, seconds, tuple(only or ()), shapes=tuple(shape or ()))
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
        raise typer.Exit(1)


def _refuse(text: str) -> None:
    typer.echo(f"loadtest: {text}", err=True)
    raise typer.Exit(2)


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
    """The target as text, and whether the median misses it."""
    if who != "muster" or (case, what) not in TARGETS:
        return "", ""
    sign, bound = TARGETS[case, what]
    is_met = median >= bound if sign == ">=" else median <= bound
    return f"{sign} {bound:g}", "" if is_met else "missed"


if __name__ == "__main__":
    app()
