"""`muster story`: everything that happened to one pod, gang or node of a recorded run."""

import asyncio
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from muster.faults import UsageFault
from muster.recorded import recorded
from shared.events.names import NoSuchName
from shared.replay.read_once import ReadOnceBus
from shared.replay.story import StoryLine, story


def tell(name: str, run: Path, bus: str, placements: int, output: str) -> None:
    """Print the story. Raises UsageFault, BusCorrupt, BusUnavailable, RecordUnreadable."""
    try:
        lines = asyncio.run(_lines(name, run, bus, placements))
    except NoSuchName as error:
        raise UsageFault(str(error)) from error
    if output == "json":
        told = [
            {"time_ms": line.time_ms, "journal": line.journal, "position": line.position}
            | {"text": line.text}
            for line in lines
        ]
        print(json.dumps(told))
        return
    began_ms = lines[0].time_ms if lines else 0
    rows = [
        (f"+{(line.time_ms - began_ms) / 1000:.3f} s", f"{line.journal} {line.position}", line.text)
        for line in lines
    ]
    console = Console()
    if not console.is_terminal:
        print("\n".join("  ".join(row) for row in rows))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for row in rows:
        table.add_row(*row)
    console.print(table)


async def _lines(name: str, run: Path, bus: str, placements: int) -> list[StoryLine]:
    async with recorded(run, bus, placements) as found:
        reader = ReadOnceBus(found.bus)
        return [line async for line in story(reader, found.journals, name)]
