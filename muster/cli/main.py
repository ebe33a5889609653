"""The command line: its commands, and how they end (exit codes, one line for what went wrong).

0 = done, 1 = failure, 2 = input or usage that cannot be used (nothing was started or changed).
Commands import what they need when they run, so that `--help` is quick.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from muster import __version__
from muster.cli import logs
from muster.cli.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE, Fault, UsageFault
from muster.cli.shared_options import (
    Compatibility,
    Config,
    CutJournals,
    Kubeconfig,
    LeaderElect,
    Output,
    Plain,
    Plugins,
    RunDir,
    SchedulerNames,
    Seed,
    Set,
    Shards,
    ShardsElsewhere,
    ShardsOfMesh,
    Speed,
)
from shared.model.text import one_line

PRIVATE_UMASK = 0o077
OUTPUTS = ("text", "json")
BUSES = ("sqlite", "memory")

app = typer.Typer(
    name="muster",
    help="Schedules Kubernetes pods with a mesh of event-sourced services.",
    # Plain text for pipes and logs.
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def _version(version: str) -> str:
    from shared.model.profile import VERSIONS

    return _one_of("--compatibility-version", version, VERSIONS)


def _with_version(settings: list[str] | None, version: str) -> list[str]:
    """The settings, and the version where it is not the default."""
    own = [] if _version(version) == "1.35" else [f'placement.compatibility="{version}"']
    return [*own, *(settings or [])]


def _load(plugins: list[Path] | None) -> None:
    """Own plugins, for as long as the process lives."""
    if plugins:
        from muster.user_plugins.load import load

        load(plugins)


def _one_of(name: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise UsageFault(f"{name} {value}: must be one of {', '.join(known)}")
    return value


@app.command()
def run(  # noqa: PLR0913 (one parameter per option)
    world: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORLD...]",
            help="Folders or files of manifests, or openb:DIR, dlrm:DIR, flood:KEY=VALUE,...",
        ),
    ] = None,
    kubeconfig: Kubeconfig = "",
    scheduler_name: SchedulerNames = None,
    placements: Shards = 1,
    run_dir: RunDir = None,
    bus: Annotated[str, typer.Option(help="sqlite or memory.")] = "sqlite",
    plain: Plain = False,
    speed: Speed = None,
    seed: Seed = None,
    settings: Set = None,
    config: Config = None,
    plugin: Plugins = None,
    compatibility_version: Compatibility = "1.35",
    leader_elect: LeaderElect = None,
    cut_journals: CutJournals = False,
    time_limit_s: Annotated[
        float, typer.Option("--time-limit", min=1, metavar="SECONDS", help="Give up after.")
    ] = 170,
    output: Output = "text",
) -> None:
    """Schedule a world, or a live cluster's pods, with the whole mesh in this process."""
    _one_of("--output", output, OUTPUTS)
    _one_of("--bus", bus, BUSES)
    _load(plugin)
    changed = _with_version(settings, compatibility_version)
    if bool(world) == bool(kubeconfig):
        raise UsageFault("run: name a WORLD or a --kubeconfig")
    if kubeconfig:
        for option, given in (("--plain", plain), ("--speed", speed), ("--seed", seed)):
            if given not in (None, False):
                raise UsageFault(f"{option}: means nothing with --kubeconfig")
        from muster.cli.commands.live import LiveOptions, run_live

        run_live(
            LiveOptions(
                kubeconfig,
                scheduler_name or [],
                placements,
                bus,
                run_dir,
                changed,
                config,
                leader_elect,
                cut_journals,
            ),
            output,
        )
        return
    live_only = {
        "--leader-elect": bool(leader_elect),
        "--cut-journals": cut_journals,
        "--scheduler-name": bool(scheduler_name),
    }
    for option, is_given in live_only.items():
        if is_given:
            raise UsageFault(f"{option}: means nothing without --kubeconfig")
    from muster.cli.commands.run import Options
    from muster.cli.commands.run import run as play
    from shared.worlds.settings import Choice

    choice = Choice(plain, speed, seed)
    options = Options(world or [], choice, placements, bus, run_dir, changed, time_limit_s, config)
    play(options, output)


@app.command()
def serve(  # noqa: PLR0913 (one parameter per option)
    services: Annotated[
        list[str],
        typer.Argument(metavar="SERVICE[/PARTITION]...", help="Such as ingest or placement/0."),
    ],
    bus: Annotated[
        str, typer.Option(metavar="ADDRESS", help="kafka://HOST:PORT[/PREFIX] or sqlite:FILE.")
    ],
    cluster: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The cluster (see muster cluster).")
    ] = "",
    kubeconfig: Kubeconfig = "",
    scheduler_name: SchedulerNames = None,
    placements: ShardsOfMesh = 1,
    run_dir: Annotated[
        Path, typer.Option("--run-dir", metavar="DIR", help="Snapshots are kept here.")
    ] = Path("runs/serve"),
    owner: Annotated[
        str | None, typer.Option(help="The name under which this process claims.")
    ] = None,
    settings: Set = None,
    config: Config = None,
    plugin: Plugins = None,
    compatibility_version: Compatibility = "1.35",
    metrics_port: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT", help="Serve metrics here, on 127.0.0.1 if no HOST; 0 = none."
        ),
    ] = "0",
    snapshot_seconds: Annotated[
        int, typer.Option(min=1, help="Time between snapshots of a journal.")
    ] = 60,
    cut_journals: CutJournals = False,
) -> None:
    """Own some of the mesh's journals in this process, until it is told to stop."""
    from muster.cli.bus_address import parse_metrics
    from muster.cli.commands.serve import Serving
    from muster.cli.commands.serve import serve as start
    from shared.machine.snapshots import SnapshotPolicy

    _load(plugin)
    start(
        Serving(
            services,
            bus,
            cluster,
            placements,
            run_dir,
            owner,
            _with_version(settings, compatibility_version),
            kubeconfig,
            scheduler_name or [],
            config,
        ),
        parse_metrics(metrics_port),
        SnapshotPolicy(every_ms=1_000 * snapshot_seconds, cut=cut_journals),
    )


@app.command()
def cluster(
    world: Annotated[list[str], typer.Argument(metavar="WORLD...", help="As for muster run.")],
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="Where clients connect.")],
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what happened here at the end.")
    ] = None,
    plain: Plain = False,
    speed: Speed = None,
    seed: Seed = None,
    settings: Set = None,
) -> None:
    """Serve a simulated cluster that plays a world, for services in other processes."""
    from muster.cli.commands.cluster import serve_cluster
    from shared.worlds.settings import Choice

    serve_cluster(world, Choice(plain, speed, seed), listen, history, settings or [])


@app.command()
def simulate(
    world: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORLD...]", help="As for muster run; none = made from the seed."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides every fault, delay and crash.")] = 1,
    placements: Shards = 3,
    plain: Plain = False,
    speed: Speed = None,
) -> int:
    """Run the mesh in virtual time under seeded faults, and check what it did."""
    from muster.simulation.command import simulate_world
    from shared.worlds.settings import Choice, load_world

    chosen = load_world(world, Choice(plain, speed, seed)).world if world else None
    return simulate_world(chosen, seed, placements)


@app.command()
def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's directory.")],
    begin: Annotated[
        str, typer.Option("--from", help="start, newest (snapshot), or each (start and snapshots).")
    ] = "start",
    journal: Annotated[
        list[str] | None, typer.Option(help="Only this journal, such as placement/0.")
    ] = None,
    bus: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Journals elsewhere (RUN holds the snapshots).")
    ] = "",
    placements: ShardsElsewhere = 1,
    processes: Annotated[
        int, typer.Option(min=0, help="Journals replayed side by side; 0 = one for each core.")
    ] = 0,
    plugin: Plugins = None,
    output: Output = "text",
) -> int:
    """Fold a recorded run and decide every record again: identical, or where it first differs."""
    from muster.cli.commands.replay import replay_run

    _one_of("--output", output, OUTPUTS)
    _load(plugin)
    return replay_run(run, bus, placements, begin, journal or [], output, processes, plugin or ())


@app.command()
def story(
    name: Annotated[str, typer.Argument(metavar="KIND/NAME", help="pod/, gang/ or node/NAME.")],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's directory.")],
    bus: Annotated[str, typer.Option(metavar="ADDRESS", help="Journals elsewhere.")] = "",
    placements: ShardsElsewhere = 1,
    output: Output = "text",
) -> None:
    """Tell everything that happened to a pod, a gang or a node, across services, with times."""
    from muster.cli.commands.story import tell

    _one_of("--output", output, OUTPUTS)
    tell(name, run, bus, placements, output)


@app.command()
def why(
    kind: Annotated[str, typer.Argument(metavar="pod", help="What is asked about: pod.")],
    name: Annotated[str, typer.Argument(metavar="NAMESPACE/NAME", help="Which one.")],
    run: Annotated[
        Path, typer.Argument(metavar="[RUN]", help="The run's directory; it may be going on.")
    ] = Path("runs/live"),
    run_dir: Annotated[
        Path | None, typer.Option("--run-dir", metavar="DIR", help="The same as RUN.")
    ] = None,
    node: Annotated[
        str, typer.Option("--node", metavar="NAME", help="Also why not this node.")
    ] = "",
    bus: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Journals elsewhere (DIR holds the snapshots).")
    ] = "",
    placements: ShardsElsewhere = 1,
    plugin: Plugins = None,
    output: Output = "text",
) -> None:
    """Say where a pod stands and why, and which record decided it, from the journals.

    Exit code 0: it was explained; 2: nobody knows the pod, the run or the node; 1: the journals
    cannot be read.
    """
    from muster.cli.commands.why import tell_why

    _one_of("--output", output, OUTPUTS)
    _one_of("why", kind, ("pod",))
    _load(plugin)
    tell_why(name, run_dir or run, node, bus, placements, output)


@app.command()
def score(
    case: Annotated[
        Path,
        typer.Argument(metavar="CASE.json", help='{"objects": [nodes, pods...], "pods": [...]}.'),
    ],
    config: Config = None,
    plugin: Plugins = None,
    check_plugin: Annotated[
        bool,
        typer.Option(
            "--check-plugin",
            help="Ask the plugins twice, and under two hash seeds: exit code 2 if they differ.",
        ),
    ] = False,
    compatibility_version: Compatibility = "1.35",
    output: Output = "text",
) -> None:
    """Say how each node would fare for a pod: its score by plugin, or who refuses it and why.

    With "preempt": true in the case also whom preemption would end for a pod that fits nowhere.
    Profiles come from --config, or from "config" in the case.
    """
    from muster.cli.commands.score import print_scores

    _one_of("--output", output, OUTPUTS)
    _load(plugin)
    if check_plugin and not plugin:
        raise UsageFault("--check-plugin: give the plugins with --plugin FILE.py")
    checked = plugin or [] if check_plugin else []
    print_scores(case, config, output, _version(compatibility_version), checked)


@app.command()
def reset(
    bus: Annotated[str, typer.Option(metavar="ADDRESS", help="As for muster serve.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept in the journals.")],
    cluster: Annotated[
        str, typer.Option(metavar="ADDRESS", help="The cluster to fence and list.")
    ] = "",
    kubeconfig: Kubeconfig = "",
    scheduler_name: SchedulerNames = None,
    placements: ShardsOfMesh = 1,
) -> None:
    """Start over with empty journals, once no older bind can land any more."""
    from muster.cli.commands.reset import reset_mesh

    print(reset_mesh(bus, cluster, kubeconfig, scheduler_name or [], placements, reason))


def _complain(text: str) -> None:
    sys.stdout.flush()
    print(f"muster: {one_line(text)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. What it writes its user alone may read: journals,
    snapshots and histories name the pods of a whole cluster.
    """
    before = os.umask(PRIVATE_UMASK)
    try:
        return _main(arguments)
    finally:
        os.umask(before)


def _main(arguments: Sequence[str] | None) -> int:
    from shared.adapters.run_files import NotWritten
    from shared.kubernetes.objects.errors import WorldError
    from shared.machine.fold import NeedsReset
    from shared.machine.reader import JournalGap
    from shared.machine.record import RecordUnreadable
    from shared.ports.bus import BusCorrupt, BusUnavailable
    from shared.scheduling.api.custom import PluginMissing

    logs.set_up()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command = typer.main.get_command(app)
        code = command.main(words or ["--help"], prog_name="muster", standalone_mode=False)
        if code == EXIT_INTERRUPTED:  # Typer's own word for Ctrl-C
            _complain("interrupted")
        return code if isinstance(code, int) else 0
    except typer.TyperException as error:
        message = getattr(error, "format_message", error.__str__)()
        _complain(f"{message} (see 'muster --help')")
        return EXIT_USAGE
    except Fault as error:
        _complain(str(error))
        return error.code
    except (WorldError, PluginMissing) as error:
        _complain(str(error))
        return EXIT_USAGE
    except (
        *(BusUnavailable, BusCorrupt, RecordUnreadable, JournalGap, NeedsReset, NotWritten),
    ) as error:
        _complain(str(error))
        return EXIT_FAILURE
