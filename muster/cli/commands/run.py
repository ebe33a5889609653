"""`muster run`: a world, the whole mesh in one process, and a summary."""

import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.app.embedded_bus import embedded_bus
from muster.app.event_loop import loop_factory
from muster.app.mesh import Mesh
from muster.app.runner import Outcome, Runner
from muster.cli.display import RunDisplay
from muster.cli.errors import Fault
from muster.cli.profiles import (
    binders_of,
    extender_calls_of,
    read_profiles,
    require_profiles,
    warn_of_one_shard,
    with_profiles,
)
from muster.cli.run_directory import (
    FORMAT,
    HISTORY,
    JOURNALS,
    SNAPSHOTS,
    SUMMARY,
    new_run,
    write_json,
)
from muster.cli.service_options import mesh_config, of_this_version, parse_settings, sim_config
from muster.explain.summary import show, summarise
from shared.adapters.run_files import NotWritten, writing
from shared.machine.snapshots import SnapshotPolicy
from shared.model.text import one_line
from shared.scheduling.api.custom.failures import failures
from shared.simulated.cluster import SimCluster
from shared.simulated.history import write_history
from shared.simulated.objects import SimObjects
from shared.snapshots.directory import DirectorySnapshots
from shared.worlds.settings import Choice, Chosen, load_world

SNAPSHOT_MS = 5_000
"""Short enough that a short run can be replayed from the middle."""

CONFIRM_MS = 2_000
"""Messages of waiting pods are refreshed this often, so that they are true at the end of a run."""

GANGS_COMMITTED_MIN, GANGS_TIMED_OUT_MIN, PREEMPTIONS_MIN = 50, 10, 50
"""Counts of the main job that must not be zero: a zero means that a path was not taken."""


class Options:
    """The checked options of the command; nothing is started or written yet."""

    def __init__(
        self,
        words: list[str],
        choice: Choice,
        placements: int,
        bus: str,
        run_dir: Path | None,
        settings: list[str],
        time_limit_s: float,
        config: Path | None = None,
    ) -> None:
        """Check the options. Raises UsageFault and WorldError."""
        self.words, self.choice, self.placements, self.bus = words, choice, placements, bus
        self.settings = parse_settings(settings)
        self.sim = sim_config(self.settings, choice.seed)
        self.time_limit_s = time_limit_s
        self.run_dir = run_dir
        self.config, self.profiles = config, read_profiles(config, (), placements)
        self.chosen: Chosen = load_world(words, choice)
        require_profiles(self.chosen.world, self.profiles)

    def folder(self) -> Path:
        """Return the run's folder."""
        if self.run_dir is not None:
            return self.run_dir
        return Path("runs") / time.strftime("%Y%m%d-%H%M%S")

    def meta(self) -> dict[str, Any]:
        """Return the settings that repeat the run."""
        return {
            "format": FORMAT,
            "world": self.words,
            "plain": self.choice.plain,
            "speed": self.choice.speed,
            "seed": self.choice.seed,
            "placements": self.placements,
            "bus": self.bus,
            "settings": self.settings,
            "config": None if self.config is None else str(self.config),
        }


def run(options: Options, output: str) -> None:
    """Play the world. Raises Fault when the run failed."""
    folder = options.folder()
    new_run(folder, options.meta())
    for rejected in options.chosen.world.rejected:
        print(one_line(f"{rejected.what}: {rejected.rule}"), file=sys.stderr)
    warn_of_one_shard(options.chosen.world, options.profiles, options.placements)
    with RunDisplay(sys.stderr, options.chosen.world.name, quiet=output == "json") as display:
        outcome = _play(options, folder, display)
    result = summarise(options.chosen.world.name, outcome.tally, outcome.final, outcome.verdict) | {
        "complete": outcome.complete,
        "placements": options.placements,
        "run": str(folder),
    }
    with writing(folder / SUMMARY):
        write_json(folder / SUMMARY, result)
    if output == "json":
        print(json.dumps(result, indent=2, sort_keys=True))
    else:
        show(result, sys.stdout)
        print(f"{'kept in':<26}{folder}")
    _judge(options, outcome, result)
    if failed := [str(failure) for failure in failures()]:
        raise Fault("; ".join(failed))


def _play(options: Options, folder: Path, display: RunDisplay) -> Outcome:
    cluster = SimCluster(options.chosen.world, options.sim)
    with embedded_bus(options.bus, folder / JOURNALS) as client:
        mesh = Mesh(
            client,
            DirectorySnapshots(folder / SNAPSHOTS),
            cluster,
            placements=options.placements,
            config=with_profiles(_config(options), options.profiles),
            policy=SnapshotPolicy(every_ms=SNAPSHOT_MS),
            extender_calls=extender_calls_of(options.profiles, SimObjects(cluster)),
            binders=binders_of(options.profiles, writes=False),
        )
        runner = Runner(
            options.chosen.world, cluster, mesh, client(""), options.time_limit_s, display.show
        )
        if options.profiles is not None:
            runner.profiles = {one.name: one for one in options.profiles.profiles}
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as loop:
                outcome = loop.run(runner.run())
        except BaseException:
            with suppress(NotWritten):  # the error that ended the run is reported
                write_history(folder / HISTORY, cluster.history)
            raise
        write_history(folder / HISTORY, cluster.history)
        return outcome


def _config(options: Options) -> dict[str, Any]:
    """Return the configuration with messages refreshed soon enough for the end of the run."""
    config = mesh_config(options.settings)
    queueing = {"confirm_ms": CONFIRM_MS, **config.get("queueing", {})}
    return of_this_version({**config, "queueing": queueing})


def _judge(options: Options, outcome: Outcome, result: dict[str, Any]) -> None:
    if not outcome.complete:
        problems = outcome.verdict.problems
        first = problems[0] if problems else "a gang still waits on permit"
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise Fault(f"not complete after {options.time_limit_s:g} s: {first}{more}")
    if options.chosen.is_main_job:
        for name, least in (
            ("gangs_committed", GANGS_COMMITTED_MIN),
            ("gangs_timed_out", GANGS_TIMED_OUT_MIN),
            ("preemptions", PREEMPTIONS_MIN),
        ):
            if result[name] < least:
                words = name.replace("_", " ")
                raise Fault(f"the main job has {result[name]} {words}, at least {least} needed")
