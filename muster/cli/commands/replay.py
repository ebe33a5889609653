"""`muster replay`: fold a recorded run and decide every record again."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from muster.app.mesh import make_core
from muster.cli.commands.story import record_text, rows_of
from muster.cli.errors import EXIT_FAILURE, Fault, UsageFault
from muster.cli.output import RecordText, print_json, time_of
from muster.cli.recorded_run import Recorded, recorded
from muster.cli.terminal import cell, print_lines
from muster.user_plugins.load import core_maker
from shared.model.ids import JournalName, Position
from shared.ports.bus import Bus, BusCorrupt
from shared.ports.snapshots import SnapshotStore
from shared.replay.parallel import Part, ReplayLost, Source, processes_for, replay_all
from shared.replay.read_once import ReadOnceBus
from shared.replay.replay import ReplayReport
from shared.replay.start_points import beginnings
from shared.replay.story import began_ms, story_of_divergence

STARTS = ("start", "newest", "each")


Open = Callable[[], AbstractAsyncContextManager[Recorded]]


class ReplayedJournal(Struct):
    """The replay of one journal from position `start` up to `stop`. `voids`: records of an owner
    that another one had replaced; they count for nothing. `snapshots`: those that were compared.
    `problems`: what differs; empty if `ok`.
    """

    journal: JournalName
    start: int
    stop: int
    records: int
    voids: int
    events: int
    snapshots: int
    ok: bool
    problems: list[str]


class Replayed(Struct):
    """What `muster replay` found, in `seconds` of real time. `story`: the pod, gang or node for
    which a core decides differently now, up to there.
    """

    seconds: float
    journals: list[ReplayedJournal]
    story: list[RecordText]


def replay_run(
    run: Path,
    bus: str,
    placements: int,
    begin: str,
    journals: Sequence[str],
    output: str,
    processes: int = 0,
    plugins: Sequence[Path] = (),
) -> int:
    """Replay and report; return the exit code. `processes` 0 = one per core. Raises UsageFault,
    Fault (unreadable journals have nothing to compare, so there is no report), PluginMissing,
    BusCorrupt, BusUnavailable.
    """
    if begin not in STARTS:
        raise UsageFault(f"--from {begin}: must be one of {', '.join(STARTS)}")
    began_s = time.perf_counter()
    opened = partial(recorded, run, bus, placements)
    shards, place, parts = asyncio.run(_parts(opened, begin, journals))
    source = Source(partial(_client, opened), core_maker(plugins, shards))
    try:
        reports = replay_all(source, parts, processes or processes_for(parts))
    except ReplayLost as error:
        raise Fault(str(error)) from error
    text = next((report.unreadable for report in reports if report.unreadable), "")
    if text:
        raise Fault(text if text.startswith(place) else f"{place}: {text}")
    told, start = asyncio.run(_story(opened, reports))
    seconds = time.perf_counter() - began_s
    if output == "json":
        print_json(Replayed(round(seconds, 3), [*map(_journal, reports)], told))
    else:
        _show(reports, rows_of(told, start), seconds)
    return 0 if all(report.ok for report in reports) else EXIT_FAILURE


async def _parts(opened: Open, begin: str, journals: Sequence[str]) -> tuple[int, str, list[Part]]:
    """Return the number of shards, the place of the run, and the parts to replay."""
    async with opened() as found:
        unknown = [name for name in journals if name not in found.journals]
        if unknown:
            raise UsageFault(f"--journal {unknown[0]}: must be one of {', '.join(found.journals)}")
        parts = [
            Part(journal, start)
            for journal in map(JournalName, journals or found.journals)
            for start in await _starts(found, journal, begin)
        ]
        return found.placements, found.place, parts


@asynccontextmanager
async def _client(opened: Open) -> AsyncIterator[tuple[Bus, SnapshotStore]]:
    async with opened() as found:
        yield found.bus, found.store


async def _story(opened: Open, reports: list[ReplayReport]) -> tuple[list[RecordText], datetime]:
    """Return the story of the first divergence, if the journals can be read that far, and when the
    run began.
    """
    for report in reports:
        if report.divergence is not None:
            with contextlib.suppress(Fault, BusCorrupt):
                async with opened() as found:
                    reader, journal = ReadOnceBus(found.bus), report.journal
                    every = found.journals
                    told = await story_of_divergence(reader, every, journal, report.divergence)
                    return [*map(record_text, told)], time_of(await began_ms(reader, every))
            break
    return [], time_of(0)


async def _starts(found: Recorded, journal: JournalName, begin: str) -> list[Position | None]:
    if begin == "start":
        return [None]
    sources = make_core(journal, found.placements).sources
    possible = await beginnings(found.bus, found.store, journal, sources)
    kept: list[Position | None] = [position for position in reversed(possible) if position]
    return [None, *kept] if begin == "each" else kept[:1] or [None]


def _journal(report: ReplayReport) -> ReplayedJournal:
    return ReplayedJournal(
        report.journal,
        report.start,
        report.stop,
        report.records,
        report.voids,
        report.events,
        report.snapshots,
        report.ok,
        report.lines(),
    )


def _show(reports: list[ReplayReport], told: list[tuple[str, str, str]], seconds: float) -> None:
    """Print a table, and the rows of a story."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False)
    for heading in ("journal", "from", "to", "records", "void", "events", "snapshots", ""):
        table.add_column(heading, justify="left" if heading in ("journal", "") else "right")
    for report in reports:
        counts = (report.start, report.stop, report.records, report.voids, report.events)
        verdict = "[green]identical[/green]" if report.ok else "[red]DIFFERS[/red]"
        shown = [f"{count:,}" for count in (*counts, report.snapshots)]
        table.add_row(report.journal, *shown, verdict)
    console.print(table)
    for report in reports:
        for line in report.lines():
            console.print(cell(line), soft_wrap=True, highlight=False)
    if told:
        print("what the first one is about:")
    print_lines("  ".join(["", *row]) for row in told)
    console.print(f"replayed in {seconds:.1f} s", highlight=False)
