"""`muster flood`: plays a workload against a target, and says how it went."""

import asyncio
import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from muster.app.event_loop import loop_factory
from muster.cli.addresses.bus import parse_bus
from muster.cli.display import FloodDisplay
from muster.cli.errors import Fault, UsageFault
from muster.cli.options.services import mesh_config, of_this_version, parse_settings, sim_config
from muster.cli.output import print_json
from muster.cli.profiles import with_profiles
from muster.cli.run_directory import FORMAT, SUMMARY, new_run, write_json
from muster.cli.table import table
from muster.cli.terminal import print_lines
from muster.flood.compare import Compared, Figures, compared, figures_of, read_summary
from muster.flood.figures import About, summarise
from muster.flood.journals import told
from muster.flood.page import page, require_plots
from muster.flood.plan import Plan, plan_of
from muster.flood.player import Player
from muster.flood.read import read_workload
from muster.flood.summary import FloodSummary
from muster.flood.targets.target import Target
from muster.flood.text import lines_of
from shared.adapters.run_files import writing
from shared.model.text import counted

T = TypeVar("T", bound=Struct)
IN_PROCESS, KAFKA = "in-process", "kafka"
LOCAL_BROKER = "kafka://127.0.0.1:9092"
MUSTER = "muster"
NAMES = {MUSTER: "muster", "kube-scheduler": "default-scheduler"}
"""The schedulerName of their pods."""


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
        target: str = IN_PROCESS,
        rival: str = "",
    ) -> None:
        """Check the options. Raises UsageFault and WorldError."""
        check_html(html)
        self.html, self.target, self.rival = html, target, rival
        self.schedulers = (rival, MUSTER) if rival else (MUSTER,)
        self.bus = _bus_of(target)
        is_live = target != IN_PROCESS and not self.bus
        if is_live and not Path(target).is_file():
            known = f"{IN_PROCESS}, {KAFKA}, kafka://HOST:PORT, or the file of a kubeconfig"
            raise UsageFault(f"--target {target}: must be {known}")
        if is_live and (placements > 1 or settings):
            option = "--placements" if placements > 1 else "--set"
            raise UsageFault(f"{option}: cannot be combined with a live cluster")
        if rival and not is_live:
            raise UsageFault("--rival: requires a live cluster as --target")
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


def _bus_of(target: str) -> str:
    """Return the address of the bus of a target over Kafka, with a prefix of its own; else ""."""
    address = LOCAL_BROKER if target == KAFKA else target
    if not address.startswith("kafka:"):
        return ""
    parse_bus(address)
    place, question, more = address.partition("?")
    return f"{place.rstrip('/')}/flood-{time.time_ns():x}{question}{more}"


def check_html(html: Path | None) -> None:
    """Raise UsageFault where a page with plots cannot be written."""
    if html is not None:
        require_plots()
        if not html.parent.is_dir():
            raise UsageFault(f"--html {html}: there is no folder {html.parent}")


def compare(first: Path, second: Path, output: str, html: Path | None) -> None:
    """Print the figures of two floods beside each other. Raises UsageFault."""
    check_html(html)
    floods = read_both(first, second, FloodSummary, "flood")
    if html is not None:
        write_page(html, page(floods))
    show_compared({name: figures_of(flood) for name, flood in floods.items()}, output == "json")


def read_both(first: Path, second: Path, kind: type[T], what: str) -> dict[str, T]:
    """Return two summaries of a kind by the names that they have beside each other."""
    names = [str(first), str(second)] if first != second else [f"{first} (1)", f"{first} (2)"]
    found = (read_summary(path, kind, what) for path in (first, second))
    return dict(zip(names, found, strict=True))


def show_compared(runs: dict[str, Figures], is_json: bool) -> None:
    """Print the figures of two runs, by name, beside each other."""
    found = compared(*runs.values())
    if is_json:
        print_json(found)
    else:
        print_lines(table([_cells(one, list(runs)) for one in found]))


def _cells(one: Compared, names: list[str]) -> dict[str, str]:
    values = dict(zip(names, (one.first, one.second), strict=True))
    cells = {name: "" if value is None else f"{value:,.10g}" for name, value in values.items()}
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
    return {"FIGURE": one.figure, **cells, "RATIO": ratio}


def write_page(html: Path, content: str) -> None:
    """Write a page, replacing the file."""
    with writing(html):
        html.write_text(content, encoding="utf-8")


def flood(options: Options, output: str) -> None:
    """Play the flood. Raises Fault when a barrier was not reached."""
    new_run(options.folder, options.meta())
    is_json = output == "json"
    results: dict[str, FloodSummary] = {}
    for scheduler in options.schedulers:
        with (
            FloodDisplay(sys.stderr, options.workload.name, quiet=is_json) as display,
            asyncio.Runner(loop_factory=loop_factory()) as running,
        ):
            results[scheduler] = running.run(_play(options, scheduler, display))
        file = SUMMARY if scheduler == MUSTER else f"{scheduler}.json"
        with writing(options.folder / file):
            write_json(options.folder / file, results[scheduler])
    if options.html is not None:
        write_page(options.html, page(results))
    if options.rival:
        show_compared({name: figures_of(one) for name, one in results.items()}, is_json)
    elif is_json:
        print_json(results[MUSTER])
    else:
        print_lines(lines_of(results[MUSTER]))
    for result in results.values():
        if not result.complete:
            waiting = counted(result.waiting, "pod")
            verb = "waits" if result.waiting == 1 else "wait"
            raise Fault(f"{waiting} still {verb} after {options.time_limit_s:g} s")


async def _play(options: Options, scheduler: str, display: FloodDisplay) -> FloodSummary:
    plan = plan_of(options.workload)
    async with _opened(options, plan, scheduler) as target:
        player = Player(plan, target, options.time_limit_s, display.show)
        is_complete = await player.play()
        about = About(
            options.workload.seed,
            options.target,
            scheduler,
            str(options.folder),
            options.placements,
            target.started_ms,
        )
        reader = target.reader
        said = None if reader is None else await told(reader, options.placements)
    return summarise(player.book, about, said, is_complete)


def _opened(options: Options, plan: Plan, scheduler: str) -> AbstractAsyncContextManager[Target]:
    """Return the target. Each loads what it needs: a client takes as long as a small flood."""
    folder, shards = options.folder, options.placements
    if options.target == IN_PROCESS:
        from muster.flood.targets.in_process import in_process

        return in_process(plan, folder, shards, options.config, options.sim)
    if options.bus:
        from muster.flood.targets.kafka import over_kafka

        return over_kafka(plan, options.bus, folder, shards, options.settings, options.sim)
    from muster.flood.targets.kube import live

    return live(plan, options.target, NAMES[scheduler])
