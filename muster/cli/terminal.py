"""Prints texts from outside on a terminal: printable, and without rich's markup.

Commands import rich where they draw a table or a bar: it takes 25 ms, and most output is lines.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from shared.model.text import one_line

if TYPE_CHECKING:
    from rich.text import Text


def cell(text: str) -> "Text":
    """Return a table cell with the text as it is: `[red]` in a name is part of the name."""
    from rich.text import Text

    return Text(one_line(text))


def duration(seconds: float) -> str:
    """Return a duration in at most two units: `51 ms`, `3.1 s`, `2 min 5 s`, `149 d 3 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    big_s, big, small_s, small = 60, "min", 1, "s"
    if seconds >= 86_400:
        big_s, big, small_s, small = 86_400, "d", 3_600, "h"
    elif seconds >= 3_600:
        big_s, big, small_s, small = 3_600, "h", 60, "min"
    whole, rest_s = divmod(int(seconds), big_s)
    rest = rest_s // small_s
    return f"{whole:,} {big} {rest} {small}" if rest else f"{whole:,} {big}"


def since(time: datetime, start: datetime) -> str:
    """Return the time since the start of a run, to the millisecond: `+3.043 s`."""
    return f"{(time - start).total_seconds():+,.3f} s"


def rfc3339(time: datetime) -> str:
    """Return a time for programs, such as `2026-11-27T23:25:50.123Z`."""
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def print_line(text: str) -> None:
    """Print one line on standard output."""
    print(one_line(text))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard output."""
    for line in lines:
        print_line(line)
