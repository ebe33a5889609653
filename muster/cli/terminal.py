"""Texts from outside on a terminal: printable, and without rich's markup."""

import json
from collections.abc import Iterable
from typing import Any

from rich.text import Text

from shared.model.text import one_line


def cell(text: str) -> Text:
    """A cell of a table, as it is: `[red]` in a name is part of the name."""
    return Text(one_line(text))


def print_line(text: str) -> None:
    """To standard output."""
    print(one_line(text))


def print_lines(lines: Iterable[str]) -> None:
    """To standard output."""
    for line in lines:
        print_line(line)


def print_json(value: Any) -> None:
    """One line for programs, in ASCII: a terminal that shows it obeys nothing in it."""
    print(json.dumps(value))
