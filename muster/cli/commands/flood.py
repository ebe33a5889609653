"""`muster flood`: plays a workload against a target, and says how it went."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from muster.app.event_loop import loop_factory
from muster.cli.display import FloodDisplay
from muster.cli.errors import Fault, UsageFault
from muster.cli.output import print_json
from muster.cli.profiles import with_profiles
from muster.cli.run_directory import FORMAT, SUMMARY, new_run, write_json
from muster.cli.service_options import mesh_config, of_this_version, parse_settings, sim_config
from muster.cli.table import table
from muster.cli.terminal import print_lines
from muster.flood.compare import Compared, compared, read_summary
from muster.flood.figures import About, summarise
from muster.flood.in_process import in_process
from muster.flood.journals import told
from muster.flood.page import page, require_plots
from muster.flood.plan import plan_of
from muster.flood.player import Player
from muster.flood.read import read_workload
from muster.flood.summary import FloodSummary
from muster.flood.text import lines_of
from shared.adapters.run_files import writing
from shared.model.text import counted

SETTLE_S = 0.3
"""Messages and the last records follow the last bind."""


class Options:
    """The checked options of the command; nothing is started or written yet."""

    def __init__(
        self,
        file: Path,
        placements: int,
        run_dir: Path | None,
        settings: list[str],
        seed: int | None,
        time_limit_s: float,
        html: Path | None = None,
    ) -> None:
        """Check the options. Raises UsageFault and WorldError."""
        check_html(html)
        self.html = html
        self.file, self.placements = file, placements
        self.settings, self.time_limit_s = settings, time_limit_s
        parsed = parse_settings(settings)
        self.workload = read_workload(file, seed)
        self.sim = sim_config(parsed, self.workload.seed)
        self.config = of_this_version(with_profiles(mesh_config(parsed), None))
        self.folder = run_dir or Path("runs") / time.strftime("%Y%m%d-%H%M%S")

    def meta(self) -> dict[str, Any]:
        """Return the settings that repeat the flood."""
        return {
            "format": FORMAT,
            "world": [str(self.file)],
            "seed": self.workload.seed,
            "placements": self.placements,
            "settings": self.settings,
        }


def check_html(html: Path | None) -> None:
    """Raise UsageFault where a page with plots cannot be written."""
    if html is not None:
        require_plots()
        if not html.parent.is_dir():
            raise UsageFault(f"--html {html}: there is no folder {html.parent}")


def compare(first: Path, second: Path, output: str, html: Path | None) -> None:
    """Print the figures of two floods beside each other. Raises UsageFault."""
    check_html(html)
    names = [str(first), str(second)] if first != second else [f"{first} (1)", f"{first} (2)"]
    floods = dict(zip(names, map(read_summary, (first, second)), strict=True))
    found = compared(*floods.values())
    if html is not None:
        _write_page(html, floods)
    if output == "json":
        print_json(found)
    else:
        print_lines(table([_cells(one, names) for one in found]))


def _cells(one: Compared, names: list[str]) -> dict[str, str]:
    values = dict(zip(names, (one.first, one.second), strict=True))
    cells = {name: "" if value is None else f"{value:,.10g}" for name, value in values.items()}
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
    return {"FIGURE": one.figure, **cells, "RATIO": ratio}


def _write_page(html: Path, floods: dict[str, FloodSummary]) -> None:
    with writing(html):
        html.write_text(page(floods), encoding="utf-8")


def flood(options: Options, output: str) -> None:
    """Play the flood. Raises Fault when a barrier was not reached."""
    new_run(options.folder, options.meta())
    is_json = output == "json"
    with (
        FloodDisplay(sys.stderr, options.workload.name, quiet=is_json) as display,
        asyncio.Runner(loop_factory=loop_factory()) as running,
    ):
        result = running.run(_play(options, display))
    with writing(options.folder / SUMMARY):
        write_json(options.folder / SUMMARY, result)
    if options.html is not None:
        _write_page(options.html, {result.workload: result})
    if is_json:
        print_json(result)
    else:
        print_lines(lines_of(result))
    if not result.complete:
        waiting = counted(result.waiting, "pod")
        verb = "waits" if result.waiting == 1 else "wait"
        raise Fault(f"{waiting} still {verb} after {options.time_limit_s:g} s")


async def _play(options: Options, display: FloodDisplay) -> FloodSummary:
    plan = plan_of(options.workload)
    playing = options.folder, options.placements, options.config, options.sim
    async with in_process(plan, *playing) as target:
        player = Player(plan, target, options.time_limit_s, display.show)
        is_complete = await player.play()
        await asyncio.sleep(SETTLE_S)
        player.sample()
        about = About(
            options.workload.seed,
            "in-process",
            "muster",
            str(options.folder),
            options.placements,
            target.started_ms,
        )
        said = await told(target.reader, options.placements)
    return summarise(player.book, about, said, is_complete)
