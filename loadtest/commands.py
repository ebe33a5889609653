"""What the commands of the benches share."""

import json
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

Rows = list[dict[str, Any]]


def chosen(command: str, names: Sequence[str], known: Collection[str]) -> list[str]:
    """Return the cases named, or all. Exits with 2 if one is unknown."""
    for name in names:
        if name not in known:
            click.echo(f"{command}: {name}: must be one of {', '.join(known)}", err=True)
            sys.exit(2)
    return list(names or known)


def show(rows: Rows, output: str, table: Callable[[Rows], Table]) -> None:
    """Print the rows as JSON or as a table."""
    print(json.dumps(rows, indent=2)) if output == "json" else Console().print(table(rows))
