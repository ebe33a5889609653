"""Floods on up to 100,000 nodes in one process with a durable journal: speed, processor time,
memory and journal of each (docs/explanation/scaling.md).

Each has its own process. `nodes-N`: 100,000 identical pods on N nodes with one shard, for the cost
by nodes. Pods of `identical-1m`, `openb` and `distinct` exist before the nodes are read, the others
come afterwards.
"""

import json
import os
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
IDENTICAL = "flood:pods=1000000,nodes=100000"
OPENB = "flood:pods=100000,nodes=100000,gpu-nodes=20000,shapes=openb"
RULED = ("spread", "zone-affinity", "preferred-affinity")
SIZES = (1_000, 10_000, 100_000)
CASES: dict[str, tuple[str, ...]] = {
    "identical-1m": ("run", IDENTICAL, "-p", "8"),
    "openb": ("run", OPENB, "-p", "8"),
    "distinct": ("run", "flood:pods=20000,nodes=5000,shapes=distinct"),
    **{name: ("flood", str(HERE / f"{name}.yaml"), "-p", "8") for name in ("identical", *RULED)},
    **{f"nodes-{n}": ("flood", "-") for n in SIZES},
}
COLUMNS = {
    "pods/s": "pods_per_second",
    "processor us a pod": "us_per_pod",
    "peak MB": "peak_mb",
    "journal bytes a pod": "journal_bytes_per_pod",
}


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME...]", help="Floods; none = all.")
@click.option("--output", default="table", show_default=True, help="table or json.")
def scale(names: Sequence[str], output: str) -> None:
    """Play the floods and print a row for each. Exit 1 if a pod of one is not bound."""
    rows = []
    for name in chosen("scale", names, CASES):
        Console(stderr=True).print(name, highlight=False)
        rows.append({"case": name, **measure(CASES[name], _input(name))})
    show(rows, output, _table)
    if any(row["bound"] < row["pods"] for row in rows):
        sys.exit(1)


def _input(name: str) -> bytes:
    """Return the workload that a flood reads from its input."""
    nodes = [n for n in SIZES if name == f"nodes-{n}"]
    steps = [{"opcode": "createNodes", "count": n} for n in nodes]
    pods = {"opcode": "createPods", "count": 100_000, "template": "small"}
    small = {"resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}
    workload = {
        "name": name,
        "podTemplates": {"small": {"spec": {"containers": [{"name": "c", **small}]}}},
        "steps": [*steps, pods, {"opcode": "barrier"}],
    }
    return json.dumps(workload).encode()


def measure(arguments: Sequence[str], given: bytes) -> dict[str, Any]:
    """Return the figures of one flood. Processor time counts the whole process: it reads the nodes,
    too, and checks the result.
    """
    with tempfile.TemporaryDirectory(prefix="muster-scale-") as folder:
        command = [sys.executable, "-m", "muster", *arguments, "-o", "json", "--run-dir", folder]
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out)
            assert child.stdin is not None
            child.stdin.write(given)
            child.stdin.close()
            _pid, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            text = out.read()
        journal = sum(path.stat().st_size for path in Path(folder).glob("journals.db*"))
    found = json.loads(text) if text else {"pods": 1, "bound": 0, "pods_per_second": 0.0}
    return {
        "pods": found["pods"],
        "bound": found["bound"],
        "pods_per_second": found["pods_per_second"],
        "us_per_pod": round((used.ru_utime + used.ru_stime) * 1e6 / found["pods"], 1),
        "peak_mb": round(used.ru_maxrss / 1024),
        "journal_bytes_per_pod": round(journal / found["pods"]),
    }


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="one process, no API server, durable journal")
    table.add_column("flood")
    for heading in ("pods", *COLUMNS):
        table.add_column(heading, justify="right")
    for row in rows:
        void = " (void)" if row["bound"] < row["pods"] else ""
        figures = (f"{row[key]:,.0f}" for key in COLUMNS.values())
        table.add_row(row["case"], f"{row['pods']:,}{void}", *figures)
    return table


if __name__ == "__main__":
    scale()
