"""Lists of objects as tables for people, and as JSON, CSV or names for programs."""

import csv
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from muster.cli.output import plain, print_json
from muster.cli.terminal import print_lines
from shared.model.text import one_line


class Listing(NamedTuple):
    """Rows of one kind, and for each the cells of its line by heading, and its name."""

    kind: type[Struct]
    rows: Sequence[Struct]
    cells: Sequence[dict[str, str]]
    names: Sequence[str]


def print_listing(found: Listing, output: str) -> None:
    """Print the rows as text, wide (text too), json, name or csv."""
    if output == "json":
        print_json(found.rows)
    elif output == "name":
        print_lines(found.names)
    elif output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found.kind.__struct_fields__)
        for row in plain(found.rows):
            writer.writerow(map(_csv_cell, row.values()))
    elif found.cells:
        print_lines(table(found.cells))
    else:
        print("nothing found", file=sys.stderr)


def _csv_cell(value: Any) -> str:
    if isinstance(value, list):
        return one_line(" ".join(value))
    return "" if value is None else one_line(str(value))


def table(cells: Sequence[dict[str, str]]) -> list[str]:
    """Return lines with columns of equal width, the headings first; `<none>` is an empty cell."""
    heads = list(cells[0])
    lines = [heads, *([one_line(row[head]) or "<none>" for head in heads] for row in cells)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
