"""`muster simulate --workloads`: plays a mix on virtual time, and says what became of it."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from muster.app.virtual_time import VirtualLoop, virtual_host
from muster.cli.commands.flood import check_html, read_both, show_compared, write_page
from muster.cli.display import MixDisplay
from muster.cli.errors import UsageFault
from muster.cli.options.services import mesh_config, of_this_version, parse_settings, sim_config
from muster.cli.output import print_json
from muster.cli.profiles import binders_of, read_profiles, scheduler_names, with_profiles
from muster.cli.run_directory import FORMAT, SUMMARY, new_run, write_json
from muster.cli.terminal import print_lines
from muster.flood.targets.in_process import in_process
from muster.mix.draw import plan_of
from muster.mix.figures import About, summarise
from muster.mix.page import page
from muster.mix.player import Player
from muster.mix.read import read_mix
from muster.mix.summary import MixSummary
from muster.mix.text import figures_of, lines_of
from shared.adapters.run_files import writing

SCHEDULER = "muster"
"""The schedulerName of the pods."""
LOOK_S = 1.0
"""Kubelets and controllers notice what happens to pods about so soon."""
SPINS_MAX = 5_000_000
SNAPSHOTS_MAX, CONFIRMS_MAX = 20, 500
SNAPSHOT_MS, CONFIRM_MS = 60_000, 10_000
"""In a long run snapshots and fresh messages of waiting pods are less frequent."""


class Options:
    """The checked options of the command; nothing is started or written yet."""

    def __init__(
        self,
        file: Path,
        seed: int | None,
        placements: int,
        run_dir: Path | None,
        settings: list[str],
        config: Path | None,
        html: Path | None,
    ) -> None:
        """Check the options. Raises UsageFault and WorldError."""
        check_html(html)
        self.file, self.placements, self.settings, self.html = file, placements, settings, html
        self.config = config
        self.mix = read_mix(file, seed)
        parsed = parse_settings(settings)
        self.sim = sim_config(parsed, self.mix.seed)
        profiles = read_profiles(config)
        if profiles is not None and (binders_of(profiles, writes=False) or profiles.extenders):
            raise UsageFault("--config: extenders and bind plugins answer in real time only")
        if profiles is not None and SCHEDULER not in scheduler_names(profiles, ()):
            raise UsageFault(f"--config: no profile {SCHEDULER!r}, which the pods name")
        mesh = mesh_config(parsed)
        confirm_ms = max(CONFIRM_MS, self.mix.horizon_ms // CONFIRMS_MAX)
        mesh["queueing"] = {"confirm_ms": confirm_ms, **mesh.get("queueing", {})}
        self.mesh = of_this_version(with_profiles(mesh, profiles))
        self.folder = run_dir or Path("runs") / time.strftime("%Y%m%d-%H%M%S")

    def meta(self) -> dict[str, Any]:
        """Return the settings that repeat the run."""
        return {
            "format": FORMAT,
            "world": [str(self.file)],
            "seed": self.mix.seed,
            "placements": self.placements,
            "settings": self.settings,
            "config": None if self.config is None else str(self.config),
        }


def compare(first: Path, second: Path, output: str, html: Path | None) -> None:
    """Print the figures of two mixes beside each other. Raises UsageFault."""
    check_html(html)
    mixes = read_both(first, second, MixSummary, "mix")
    if html is not None:
        write_page(html, page(mixes))
    show_compared({name: figures_of(mix) for name, mix in mixes.items()}, output == "json")


def play(options: Options, output: str) -> None:
    """Play the mix to its horizon, and print its figures."""
    new_run(options.folder, options.meta())
    is_json = output == "json"
    loop = VirtualLoop(SPINS_MAX)
    with (
        MixDisplay(sys.stderr, options.mix.name, quiet=is_json) as display,
        asyncio.Runner(loop_factory=lambda: loop) as running,
    ):
        result = running.run(_played(options, loop, display))
    with writing(options.folder / SUMMARY):
        write_json(options.folder / SUMMARY, result)
    if options.html is not None:
        write_page(options.html, page({options.mix.name: result}))
    if is_json:
        print_json(result)
    else:
        print_lines(lines_of(result))


async def _played(options: Options, loop: VirtualLoop, display: MixDisplay) -> MixSummary:
    mix, folder = options.mix, options.folder
    plan = plan_of(mix)
    snapshot_ms = max(SNAPSHOT_MS, mix.horizon_ms // SNAPSHOTS_MAX)
    host = virtual_host(loop, SCHEDULER)
    began_s = time.monotonic()
    async with in_process(
        plan, folder, options.placements, options.mesh, options.sim, snapshot_ms, host
    ) as target:
        player = Player(mix, target, LOOK_S)
        loop.show_with(lambda: display.show(player.progress()))
        await player.play()
        loop.show_with(lambda: None)
    about = About(
        str(folder),
        options.placements,
        time.monotonic() - began_s,
        options.settings,
        "" if options.config is None else str(options.config),
    )
    return summarise(mix, player.controllers, about)
