"""Prints texts from outside on a terminal: printable, and without rich's markup.

Commands import rich where they draw a table or a bar: it takes 25 ms, and most output is lines.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from shared.model.text import one_line

if TYPE_CHECKING:
    from rich.text import Text


def cell(text: str) -> "Text":
    """Return a table cell with the text as it is: `[red]` in a name is part of the name."""
    from rich.text import Text

    return Text(one_line(text))


def print_line(text: str) -> None:
    """To standard output."""
    print(one_line(text))


def print_lines(lines: Iterable[str]) -> None:
    """To standard output."""
    for line in lines:
        print_line(line)


def print_json(value: Any) -> None:
    """Print one line for programs, in ASCII: no text in it can control the terminal."""
    print(json.dumps(value))
