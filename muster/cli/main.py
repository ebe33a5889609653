"""The command line: its commands, and how they end (exit codes, one line for an error).

0 = done, 1 = failure, 2 = unusable input or options (nothing was started or changed). Commands
import what they need when they run, so that each starts quickly. tests/unit/cli/test_imports.py
says what each may load.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster import __version__
from muster.cli import logs
from muster.cli.defrag_command import defrag
from muster.cli.errors import EXIT_USAGE, UsageFault, exit_code, one_of
from muster.cli.extender_command import extender
from muster.cli.flood_command import flood
from muster.cli.help import Commands
from muster.cli.options import shared as options
from muster.cli.options.shared import FILE, OUTPUTS
from muster.cli.simulate_command import simulate
from shared.model.text import one_line

if TYPE_CHECKING:
    from muster.cli.options.release import AskedRelease

PRIVATE_UMASK = 0o077
LISTS = (*OUTPUTS, "wide", "name", "csv")
KINDS = ("pods", "gangs", "queues", "nodes", "runs")
STORIES = (*OUTPUTS, "otlp")
BUSES = ("sqlite", "memory")

COMPLETION = "_MUSTER_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


def _show_completion(context: click.Context, _option: click.Parameter, shell: str | None) -> None:
    if shell is not None:
        from click.shell_completion import shell_complete

        shell_complete(app, {}, "muster", COMPLETION, f"{shell}_source")
        context.exit()


@click.group(
    "muster",
    cls=Commands,
    help="Schedules Kubernetes pods with a mesh of event-sourced services.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="muster %(version)s", help="Print the version and exit.")
@click.option(
    "--show-completion",
    type=click.Choice(SHELLS),
    is_flag=False,
    flag_value=Path(os.environ.get("SHELL", SHELLS[0])).name,
    is_eager=True,
    expose_value=False,
    callback=_show_completion,
    help="Print the completion script for this shell and exit.",
)
def app() -> None:
    """All commands."""


def _load(plugins: Sequence[Path]) -> None:
    """Load users' plugins for the life of the process."""
    if plugins:
        from muster.user_plugins.load import load

        load(plugins)


@app.command()
@click.argument(
    "world",
    nargs=-1,
    metavar="[WORLD...]",
    help="Folders or files of manifests (- is standard input), or openb:DIR, dlrm:DIR, "
    "flood:KEY=VALUE,...",
)
@options.kubeconfig
@options.scheduler_name
@options.placements("Placement shards.")
@click.option("--run-dir", type=FILE, metavar="DIR", help="Directory of the run.")
@click.option(
    "--bus", default="sqlite", show_default=True, metavar="BUS", help=f"{' or '.join(BUSES)}."
)
@options.plain
@options.speed
@options.seed
@options.settings
@options.config
@options.plugin
@options.release
@options.leader_elect
@options.cut_journals
@options.metrics_port
@options.log_format
@options.verbose
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(1),
    metavar="SECONDS",
    help="Give up after this much world time (170; on virtual time a day after the last pod).",
)
@options.real_time
@options.output
def run(  # noqa: PLR0913 (one parameter per option)
    world: Sequence[str],
    kubeconfig: str,
    scheduler_name: Sequence[str],
    placements: int,
    run_dir: Path | None,
    bus: str,
    plain: bool,
    speed: str | None,
    seed: int | None,
    settings: Sequence[str],
    config: Path | None,
    plugin: Sequence[Path],
    release: "AskedRelease",
    leader_elect: bool | None,
    cut_journals: bool,
    metrics_port: str,
    time_limit_s: float | None,
    real_time: bool,
    output: str,
) -> None:
    """Schedule a world, or a live cluster's pods, with the whole mesh in this process."""
    one_of("--output", output, OUTPUTS)
    one_of("--bus", bus, BUSES)
    _load(plugin)
    if bool(world) == bool(kubeconfig):
        raise UsageFault("run: name a WORLD or a --kubeconfig")
    from muster.cli.addresses.bus import parse_metrics

    metrics = parse_metrics(metrics_port)
    if kubeconfig:
        limits = ("--time-limit", time_limit_s), ("--real-time", real_time)
        for option, given in (("--plain", plain), ("--speed", speed), ("--seed", seed), *limits):
            if given not in (None, False):
                raise UsageFault(f"{option}: cannot be combined with --kubeconfig")
        from muster.cli.commands.live import LiveOptions, run_live

        run_live(
            LiveOptions(
                kubeconfig,
                list(scheduler_name),
                placements,
                bus,
                run_dir,
                list(settings),
                config,
                leader_elect,
                cut_journals,
                metrics,
                release,
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
            raise UsageFault(f"{option}: requires --kubeconfig")
    from muster.cli.commands.run import Options
    from muster.cli.commands.run import run as play
    from shared.worlds.settings import Choice

    choice = Choice(plain, speed, seed)
    asked = list(world), choice, placements, bus, run_dir, list(settings)
    more = time_limit_s, config, real_time, release.chosen()
    play(Options(*asked, *more), output, metrics)


@app.command()
@click.argument(
    "services",
    nargs=-1,
    required=True,
    metavar="SERVICE[/PARTITION]...",
    help="Such as ingest or placement/0; all: every one.",
)
@options.address("--bus", "kafka://HOST:PORT[/PREFIX] or sqlite:FILE.", is_required=True)
@options.address("--cluster", "The cluster (see muster cluster).")
@options.kubeconfig
@options.scheduler_name
@options.placements("Shards of the whole mesh.")
@click.option(
    "--run-dir",
    type=FILE,
    default=Path("runs/serve"),
    show_default=True,
    metavar="DIR",
    help="Directory of snapshots.",
)
@click.option("--owner", metavar="NAME", help="Name of this process as an owner.")
@options.settings
@options.config
@options.plugin
@options.release
@options.metrics_port
@click.option(
    "--snapshot-seconds",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time between snapshots of a journal.",
)
@options.leader_elect
@options.cut_journals
@options.log_format
@options.verbose
def serve(  # noqa: PLR0913 (one parameter per option)
    services: Sequence[str],
    bus: str,
    cluster: str,
    kubeconfig: str,
    scheduler_name: Sequence[str],
    placements: int,
    run_dir: Path,
    owner: str | None,
    settings: Sequence[str],
    config: Path | None,
    plugin: Sequence[Path],
    release: "AskedRelease",
    metrics_port: str,
    snapshot_seconds: int,
    leader_elect: bool | None,
    cut_journals: bool,
) -> None:
    """Own some of the mesh's journals in this process, until it is stopped."""
    from muster.cli.addresses.bus import parse_metrics
    from muster.cli.commands.serve import Serving
    from muster.cli.commands.serve import serve as start
    from shared.machine.snapshots import SnapshotPolicy

    _load(plugin)
    start(
        Serving(
            list(services),
            bus,
            cluster,
            placements,
            run_dir,
            owner,
            list(settings),
            kubeconfig,
            list(scheduler_name),
            config,
            leader_elect,
            release,
        ),
        parse_metrics(metrics_port),
        SnapshotPolicy(every_ms=1_000 * snapshot_seconds, cut=cut_journals),
    )


@app.command()
@click.argument("world", nargs=-1, required=True, metavar="WORLD...", help="As for muster run.")
@options.address("--listen", "Address for clients.", is_required=True)
@click.option(
    "--history", type=FILE, metavar="FILE", help="File for the history, written at the end."
)
@options.plain
@options.speed
@options.seed
@options.settings
def cluster(
    world: Sequence[str],
    listen: str,
    history: Path | None,
    plain: bool,
    speed: str | None,
    seed: int | None,
    settings: Sequence[str],
) -> None:
    """Serve a simulated cluster that plays a world, for services in other processes."""
    from muster.cli.commands.cluster import serve_cluster
    from shared.worlds.settings import Choice

    serve_cluster(list(world), Choice(plain, speed, seed), listen, history, list(settings))


app.add_command(simulate)
app.add_command(flood)
app.add_command(extender)


@app.command()
@options.run
@click.option(
    "--from",
    "begin",
    default="start",
    show_default=True,
    metavar="POINT",
    help="start, newest (snapshot), or each (start and snapshots).",
)
@click.option(
    "--journal", multiple=True, metavar="JOURNAL", help="Only this journal, such as placement/0."
)
@options.address("--bus", "Bus with the journals (RUN then holds only snapshots).")
@options.placements("Shards, with --bus.")
@click.option(
    "--processes",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of parallel replays; 0 = one per core.",
)
@options.plugin
@options.output
def replay(
    run: Path | None,
    begin: str,
    journal: Sequence[str],
    bus: str,
    placements: int,
    processes: int,
    plugin: Sequence[Path],
    output: str,
) -> int:
    """Fold a recorded run and decide every record again: identical, or where it first differs."""
    from muster.cli.commands.replay import replay_run
    from muster.cli.run_directory import chosen_run

    one_of("--output", output, OUTPUTS)
    _load(plugin)
    return replay_run(
        chosen_run(run, bus), bus, placements, begin, journal, output, processes, plugin
    )


@app.command()
@options.subject
@options.namespace
@options.address("--bus", "Journals elsewhere.")
@options.placements("Shards, with --bus.")
@options.output_as("text, json, or otlp: a trace for OpenTelemetry.")
def story(words: Sequence[str], namespace: str, bus: str, placements: int, output: str) -> None:
    """Show everything that happened to a pod, a gang or a node, across services, with times."""
    from muster.cli.commands.story import print_story
    from muster.cli.run_directory import chosen_run
    from muster.cli.subject import subject_of

    one_of("--output", output, STORIES)
    found = subject_of(words)
    name = f"{found.kind}/{found.name}"
    print_story(name, namespace, chosen_run(found.run, bus), bus, placements, output)


@app.command()
@options.subject
@options.namespace
@click.option("--run-dir", type=FILE, metavar="DIR", help="The same as RUN.")
@click.option(
    "--node", default="", metavar="NAME", help="Also explain why the pod is not on this node."
)
@options.address("--bus", "Bus with the journals (DIR then holds only snapshots).")
@options.placements("Shards, with --bus.")
@options.plugin
@options.output
def why(
    words: Sequence[str],
    namespace: str,
    run_dir: Path | None,
    node: str,
    bus: str,
    placements: int,
    plugin: Sequence[Path],
    output: str,
) -> None:
    """Say where a pod, a gang or a node stands and why, and which record decided it.

    It reads the journals. Exit code 0: explained; 1: the journals cannot be read; 2: the object, or
    the run, is unknown.
    """
    from muster.cli.commands.why import Question, print_why
    from muster.cli.run_directory import chosen_run
    from muster.cli.subject import subject_of

    one_of("--output", output, OUTPUTS)
    found = subject_of(words)
    _load(plugin)
    asked = Question(found.kind, found.name, namespace, node)
    print_why(asked, chosen_run(run_dir or found.run, bus), bus, placements, output)


@app.command()
@click.argument("kind", type=click.Choice(KINDS), help="What to list.")
@options.run
@options.namespace
@click.option("--waiting", is_flag=True, help="Only pods without a node, or gangs that wait.")
@options.address("--bus", "Bus with the journals (RUN then holds only snapshots).")
@options.placements("Shards, with --bus.")
@options.plugin
@options.output_as(f"{', '.join(LISTS)}.")
def get(
    kind: str,
    run: Path | None,
    namespace: str,
    waiting: bool,
    bus: str,
    placements: int,
    plugin: Sequence[Path],
    output: str,
) -> None:
    """List the pods, gangs, queues or nodes of a run, or the runs in runs/."""
    from muster.cli.commands.get import Asked, print_list

    one_of("--output", output, LISTS)
    _load(plugin)
    print_list(Asked(kind, run, namespace, waiting, bus, placements), output)


@app.group(no_args_is_help=False)
def queues() -> None:
    """Manage Queues."""


@queues.command("import")
@click.argument(
    "files", nargs=-1, type=FILE, required=True, metavar="FILE...", help="- is standard input."
)
def import_queues(files: Sequence[Path]) -> None:
    """Print the queues of YuniKorn (queues.yaml), KAI or Volcano, or ElasticQuotas, as Queues.
    Standard error names the fields without a counterpart.
    """
    from muster.cli.commands.import_queues import print_queues

    print_queues(files)


@app.group(no_args_is_help=False)
def runs() -> None:
    """Manage the folders of runs."""


@runs.command()
@click.argument("runs", nargs=-1, type=FILE, metavar="[RUN...]", help="Their directories.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="All in runs/ but the N newest.")
def rm(runs: Sequence[Path], keep: int | None) -> None:
    """Delete runs. A run in use is refused; --keep passes it over."""
    from muster.cli.commands.runs import remove_runs

    remove_runs(runs, keep)


@app.command()
@click.argument(
    "case",
    type=FILE,
    required=False,
    metavar="[CASE]",
    help='{"objects": [nodes, pods...], "pods": [...]} as JSON or YAML, or manifests: their pods '
    "without a node are asked about. - is standard input.",
)
@options.kubeconfig
@click.option(
    "--pod",
    default="",
    metavar="POD",
    help="Ask about [pod/][NAMESPACE/]NAME alone, as if it had no node.",
)
@options.namespace
@options.config
@options.plugin
@click.option(
    "--check-plugin",
    is_flag=True,
    help="Ask the plugins twice, and under two hash seeds: exit code 2 if they differ.",
)
@options.release
@options.output
def score(
    case: Path | None,
    kubeconfig: str,
    pod: str,
    namespace: str,
    config: Path | None,
    plugin: Sequence[Path],
    check_plugin: bool,
    release: "AskedRelease",
    output: str,
) -> None:
    """Say how each node fares for a pod: its score by plugin, or the plugin that rejects it.

    Of a live cluster everything is listed, and nothing is written. With "preempt": true in the case
    also the victims of preemption for a pod that fits nowhere. Profiles come from --config, or from
    "config" in the case.
    """
    from muster.cli.commands.score import Asked, print_scores

    one_of("--output", output, OUTPUTS)
    _load(plugin)
    if check_plugin and not plugin:
        raise UsageFault("--check-plugin: give the plugins with --plugin FILE.py")
    checked = plugin if check_plugin else ()
    asked = Asked(case, kubeconfig, pod, namespace)
    print_scores(asked, config, output, release, checked)


app.add_command(defrag)


@app.command()
@options.address("--bus", "As for muster serve.", is_required=True)
@click.option("--reason", required=True, metavar="WORDS", help="Reason, kept in the journals.")
@options.address("--cluster", "The cluster to fence and list.")
@options.kubeconfig
@options.scheduler_name
@options.placements("Shards of the whole mesh.")
def reset(
    bus: str,
    reason: str,
    cluster: str,
    kubeconfig: str,
    scheduler_name: Sequence[str],
    placements: int,
) -> None:
    """Start over with empty journals, once no older bind can land any more."""
    from muster.cli.commands.reset import reset_mesh

    print(reset_mesh(bus, cluster, kubeconfig, scheduler_name, placements, reason))


def _text_of(error: click.ClickException) -> str:
    """Return click's message; an unknown option is named without quotes, as users type it."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    alike = ", ".join(sorted(error.possibilities or ()))
    more = f" (Possible options: {alike})" if alike else ""
    return f"No such option: {error.option_name}{more}"


def _complain(text: str) -> None:
    sys.stdout.flush()
    print(f"muster: {one_line(text)}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code. Files are readable for their user alone: journals,
    snapshots and histories name the pods of a whole cluster.
    """
    before = os.umask(PRIVATE_UMASK)
    try:
        return _main(arguments)
    finally:
        os.umask(before)


def _main(arguments: Sequence[str] | None) -> int:
    logs.set_up()
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app.main(words or ["--help"], prog_name="muster", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        _complain(f"{_text_of(error)} (see 'muster --help')")
        return EXIT_USAGE
    except Exception as error:
        known = exit_code(error)
        if known is None:
            raise
        _complain(str(error))
        return known
