"""`muster run`: a world, the whole mesh in one process, and a summary.

Traces and manifests are played on virtual time: a clock that jumps when nothing is due sooner, so
months take minutes and a run repeats exactly. Floods measure speed, and extenders and bind plugins
answer in their own time, so these are played on the wall clock.
"""

import asyncio
import signal
import sys
import time
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any

from muster.app.embedded_bus import embedded_bus
from muster.app.event_loop import loop_factory
from muster.app.journals import all_journals
from muster.app.mesh import Mesh
from muster.app.pacing import ONE_PROCESS, VIRTUAL
from muster.app.runner import Outcome, Runner
from muster.app.virtual_time import VirtualLoop, virtual_host
from muster.cli.display import RunDisplay
from muster.cli.errors import EXIT_INTERRUPTED, EXIT_TERMINATED, Fault, UsageFault
from muster.cli.options.release import with_release
from muster.cli.options.services import mesh_config, of_this_version, parse_settings, sim_config
from muster.cli.output import print_json
from muster.cli.profiles import (
    binders_of,
    extender_calls_of,
    read_profiles,
    require_profiles,
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
from muster.cli.terminal import duration
from muster.explain.run_summary import RunSummary
from muster.explain.summary import show, summarise
from shared.adapters.run_files import NotWritten, writing
from shared.machine.snapshots import SnapshotPolicy
from shared.model.columns import split
from shared.model.release import DEFAULT_OPTIONS, ReleaseOptions
from shared.model.text import counted, one_line
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
SNAPSHOTS_MAX, CONFIRMS_MAX = 50, 500
"""In a long run on virtual time both happen less often: at most about this many times."""

DAY_S = 86_400
REAL_LIMIT_S = 170.0
SPINS_MAX = 5_000_000
"""Turns of the loop at one virtual time: a backlog of a million pods takes many."""

GANGS_COMMITTED_MIN, GANGS_TIMED_OUT_MIN, PREEMPTIONS_MIN = 50, 10, 50
"""Counts of the main job that must not be zero: a zero means that a path was not taken."""


class Options:
    """The checked options of the command; nothing is started or written yet."""

    def __init__(  # noqa: PLR0913 (one parameter per option)
        self,
        words: list[str],
        choice: Choice,
        placements: int,
        bus: str,
        run_dir: Path | None,
        settings: list[str],
        time_limit_s: float | None = None,
        config: Path | None = None,
        real_time: bool = False,
        release: ReleaseOptions = DEFAULT_OPTIONS,
    ) -> None:
        """Check the options. `time_limit_s` is of world time. Raises UsageFault and WorldError."""
        self.words, self.choice, self.placements, self.bus = words, choice, placements, bus
        self.settings = parse_settings(settings)
        self.sim = sim_config(self.settings, choice.seed)
        self.run_dir, self.release = run_dir, release
        self.config, self.profiles = config, read_profiles(config, (), release)
        self.chosen: Chosen = load_world(words, choice, release.release())
        require_profiles(self.chosen.world, self.profiles)
        waits = binders_of(self.profiles, writes=False) or (
            self.profiles is not None and self.profiles.extenders
        )
        self.is_virtual = not (real_time or self.chosen.is_flood or waits)
        arrivals = self.chosen.world.arrivals
        self.span_s = max((one.at_ms for one in arrivals), default=0) / 1000 / (self.sim.speed or 1)
        self.pods = sum(len(split(one.pods.uids)) for one in arrivals)
        default_s = self.span_s + DAY_S if self.is_virtual else REAL_LIMIT_S
        self.time_limit_s = default_s if time_limit_s is None else time_limit_s
        if time_limit_s is None and self.span_s > default_s:
            raise UsageFault(
                f"the last pod arrives after {duration(self.span_s)}, and without --time-limit a "
                f"run on the wall clock ends after {duration(default_s)}"
            )

    def every_ms(self, least_ms: int, times_max: int) -> int:
        """Return the period of what happens again and again in a run."""
        return max(least_ms, int(self.span_s * 1000) // times_max if self.is_virtual else 0)

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
            "compatibility": self.release.compatibility,
            "config": None if self.config is None else str(self.config),
        }


def run(options: Options, output: str, metrics: tuple[str, int] | None = None) -> None:
    """Play the world, and serve metrics at an address meanwhile. Raises UsageFault, and Fault when
    the run failed.
    """
    if metrics is not None and options.is_virtual:
        raise UsageFault("--metrics-port: a run on virtual time serves none: add --real-time")
    folder = options.folder()
    new_run(folder, options.meta())
    for rejected in options.chosen.world.rejected:
        print(one_line(f"{rejected.what}: {rejected.rule}"), file=sys.stderr)
    is_json = output == "json"
    if options.span_s and not is_json:
        print(_announced(options), file=sys.stderr)
    with RunDisplay(sys.stderr, options.chosen.world.name, quiet=is_json) as display:
        outcome, signal_code = _play(options, folder, display, metrics)
    result = summarise(
        options.chosen.world.name, outcome, folder, options.placements, options.is_virtual
    )
    with writing(folder / SUMMARY):
        write_json(folder / SUMMARY, result)
    if is_json:
        print_json(result)
    else:
        show(result, sys.stdout)
    if outcome.is_interrupted:
        raise Stopped(signal_code)
    _judge(options, outcome, result)
    if failed := [str(failure) for failure in failures()]:
        raise Fault("; ".join(failed))


class Stopped(Fault):
    """Ctrl-C or SIGTERM ended the run."""

    def __init__(self, code: int) -> None:
        """`code` is the exit code."""
        super().__init__("interrupted" if code == EXIT_INTERRUPTED else "terminated")
        self.code = code


def _announced(options: Options) -> str:
    ends = "virtual time" if options.is_virtual else "the wall clock"
    return (
        f"{options.chosen.world.name}: {counted(options.pods, 'pod')}, the last arrives after "
        f"{duration(options.span_s)} of world time, played on {ends}"
    )


def _play(
    options: Options, folder: Path, display: RunDisplay, metrics: tuple[str, int] | None
) -> tuple[Outcome, int]:
    """Return the outcome, and the exit code of the signal that ended the run, if one did."""
    cluster = SimCluster(options.chosen.world, options.sim)
    loop = VirtualLoop(SPINS_MAX) if options.is_virtual else None
    with embedded_bus(options.bus, folder / JOURNALS, not options.is_virtual) as client:
        mesh = Mesh(
            client,
            DirectorySnapshots(folder / SNAPSHOTS),
            cluster,
            placements=options.placements,
            config=with_profiles(_config(options), options.profiles),
            policy=SnapshotPolicy(every_ms=options.every_ms(SNAPSHOT_MS, SNAPSHOTS_MAX)),
            pace=VIRTUAL if options.is_virtual else ONE_PROCESS,
            host=None if loop is None else virtual_host(loop, "muster"),
            extender_calls=extender_calls_of(options.profiles, SimObjects(cluster)),
            binders=binders_of(options.profiles, writes=False),
        )
        profiles = () if options.profiles is None else options.profiles.profiles
        runner = Runner(
            options.chosen.world,
            cluster,
            mesh,
            client(""),
            options.time_limit_s,
            display.show,
            {one.name: one for one in profiles},
            options.is_virtual,
        )
        if loop is not None:
            loop.show_with(runner.refresh)
        try:
            factory = loop_factory() if loop is None else lambda: loop
            with asyncio.Runner(loop_factory=factory) as running:
                return running.run(_until_signal(runner, metrics))
        finally:
            # The error that ended a run is reported.
            with suppress(NotWritten) if sys.exc_info()[0] else nullcontext():
                write_history(folder / HISTORY, cluster.history)


async def _until_signal(runner: Runner, metrics: tuple[str, int] | None) -> tuple[Outcome, int]:
    """Run to the end; SIGTERM ends it as Ctrl-C does. Serve metrics meanwhile, if asked."""
    playing = asyncio.current_task()
    assert playing is not None
    code = EXIT_INTERRUPTED

    def on_terminated() -> None:
        nonlocal code
        code = EXIT_TERMINATED
        playing.cancel()

    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError, RuntimeError):  # not in the main thread
        loop.add_signal_handler(signal.SIGTERM, on_terminated)
    async with AsyncExitStack() as stack:
        if metrics is not None:
            # Imported here: most runs serve nothing.
            from muster.app.health import health_server

            journals = all_journals(runner.mesh.placements)
            await stack.enter_async_context(health_server(runner.mesh, journals, metrics))
        return await runner.run(), code


def _config(options: Options) -> dict[str, Any]:
    """Return the configuration with messages refreshed soon enough for the end of the run."""
    config = with_release(mesh_config(options.settings), options.release)
    queueing = {
        "confirm_ms": options.every_ms(CONFIRM_MS, CONFIRMS_MAX),
        **config.get("queueing", {}),
    }
    return of_this_version({**config, "queueing": queueing})


def _judge(options: Options, outcome: Outcome, result: RunSummary) -> None:
    if not outcome.complete:
        problems = outcome.verdict.problems
        to_come = options.pods - result.pods
        rest = (
            f"{to_come:,} {'pod is' if to_come == 1 else 'pods are'} still to come"
            if to_come > 0
            else "a gang waits on permit"
        )
        first = problems[0] if problems else rest
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        limit = duration(options.time_limit_s)
        raise Fault(f"not complete after {limit} of world time: {first}{more}")
    if options.chosen.is_main_job:
        for words, found, least in (
            ("gangs committed", result.gangs_committed, GANGS_COMMITTED_MIN),
            ("gangs timed out", result.gangs_timed_out, GANGS_TIMED_OUT_MIN),
            ("preemptions", result.preemptions, PREEMPTIONS_MIN),
        ):
            if found < least:
                raise Fault(f"the main job has {found} {words}, at least {least} needed")
