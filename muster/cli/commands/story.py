"""`muster story`: everything that happened to one pod, gang or node of a recorded run."""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from muster.cli.errors import UsageFault
from muster.cli.recorded_run import recorded
from muster.cli.terminal import cell, print_json, print_lines
from shared.events.names import NoSuchName
from shared.replay.read_once import ReadOnceBus
from shared.replay.story import StoryLine, story


def print_story(
    name: str, namespace: str, run: Path, bus: str, placements: int, output: str
) -> None:
    """Print the story of KIND/NAME. Raises UsageFault, Fault, BusCorrupt, BusUnavailable."""
    try:
        lines = asyncio.run(_lines(name, namespace, run, bus, placements))
    except NoSuchName as error:
        raise UsageFault(str(error)) from error
    if output == "json":
        print_json([asdict(line) for line in lines])
        return
    rows = rows_of(lines)
    if not sys.stdout.isatty():
        print_lines("  ".join(row) for row in rows)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(*map(cell, row))
    Console().print(table)


def rows_of(lines: Sequence[StoryLine]) -> list[tuple[str, str, str]]:
    """Return the rows of a story: time since its beginning, journal and position, event."""
    began_ms = lines[0].time_ms if lines else 0
    return [
        (f"+{(line.time_ms - began_ms) / 1000:.3f} s", f"{line.journal} {line.position}", line.text)
        for line in lines
    ]


async def _lines(
    name: str, namespace: str, run: Path, bus: str, placements: int
) -> list[StoryLine]:
    async with recorded(run, bus, placements) as found:
        reader = ReadOnceBus(found.bus)
        return [line async for line in story(reader, found.journals, name, namespace)]
