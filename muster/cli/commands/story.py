"""`muster story`: everything that happened to one pod, gang or node of a recorded run."""

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from muster.cli.errors import UsageFault
from muster.cli.output import RecordText, print_json, time_of
from muster.cli.recorded_run import recorded
from muster.cli.terminal import cell, print_line, print_lines, rfc3339, since
from shared.events.names import NoSuchName
from shared.replay.read_once import ReadOnceBus
from shared.replay.story import StoryLine, began_ms, story


def print_story(
    name: str, namespace: str, run: Path, bus: str, placements: int, output: str
) -> None:
    """Print the story of KIND/NAME. Raises UsageFault, Fault, BusCorrupt, BusUnavailable."""
    try:
        lines, start = asyncio.run(_lines(name, namespace, run, bus, placements))
    except NoSuchName as error:
        raise UsageFault(str(error)) from error
    if output == "json":
        print_json(lines)
        return
    if output == "otlp":
        from muster.explain.traces import trace_of

        print_json(trace_of(name, lines))
        return
    rows = rows_of(lines, start)
    print_line(f"times are since the first record, {rfc3339(start)}")
    if not sys.stdout.isatty():
        print_lines("  ".join(row) for row in rows)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(*map(cell, row))
    Console().print(table)


def rows_of(lines: Sequence[RecordText], start: datetime) -> list[tuple[str, str, str]]:
    """Return the rows of a story: time since the start of the run, journal and position, event."""
    return [
        (since(line.time, start), f"{line.journal} {line.position}", line.text) for line in lines
    ]


def record_text(line: StoryLine) -> RecordText:
    """Return a line of a story for programs."""
    return RecordText(time_of(line.time_ms), line.journal, line.position, line.text)


async def _lines(
    name: str, namespace: str, run: Path, bus: str, placements: int
) -> tuple[list[RecordText], datetime]:
    """Return the story, and when the run began."""
    async with recorded(run, bus, placements) as found:
        reader = ReadOnceBus(found.bus)
        lines = [record_text(line) async for line in story(reader, found.journals, name, namespace)]
        return lines, time_of(await began_ms(reader, found.journals))
