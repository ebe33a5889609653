"""The command `muster flood`: its options and their help."""

from collections.abc import Sequence
from pathlib import Path

import click

from muster.cli.errors import UsageFault, one_of
from muster.cli.help import Command
from muster.cli.options import shared as options


@click.command(cls=Command)
@click.argument(
    "workload",
    type=options.FILE,
    required=False,
    metavar="[WORKLOAD]",
    help="A file (- is standard input).",
)
@click.option(
    "--target",
    default="in-process",
    show_default=True,
    metavar="TARGET",
    help="in-process; kafka (on 127.0.0.1:9092) or kafka://HOST:PORT, with a process for each "
    "service; or the kubeconfig of a cluster where the scheduler runs already.",
)
@click.option(
    "--rival",
    type=click.Choice(["kube-scheduler"]),
    help="Play it for this scheduler of the live cluster first, and compare.",
)
@options.placements("Placement shards.")
@click.option("--run-dir", type=options.FILE, metavar="DIR", help="Directory of the run.")
@options.seed
@options.settings
@click.option(
    "--time-limit",
    "time_limit_s",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Give up when pods have not reached a barrier after this long.",
)
@click.option(
    "--html", type=options.FILE, metavar="FILE", help="Also write a page with plots, for browsers."
)
@click.option(
    "--compare",
    nargs=2,
    type=options.FILE,
    metavar="A.json B.json",
    help="Play nothing: compare two floods by what --output json printed.",
)
@options.output
def flood(  # noqa: PLR0913 (one parameter per option)
    workload: Path | None,
    target: str,
    rival: str | None,
    placements: int,
    run_dir: Path | None,
    seed: int | None,
    settings: Sequence[str],
    time_limit_s: float,
    html: Path | None,
    compare: tuple[Path, Path] | None,
    output: str,
) -> None:
    """Play a workload of many pods against a target in real time, and measure it."""
    one_of("--output", output, options.OUTPUTS)
    if (workload is None) == (compare is None):
        raise UsageFault("flood: name a WORKLOAD, or two floods to --compare")
    if workload is None:
        assert compare is not None
        from muster.cli.commands.flood import compare as show

        show(*compare, output, html)
        return
    from muster.cli.commands.flood import Options
    from muster.cli.commands.flood import flood as play

    asked = (
        workload,
        placements,
        run_dir,
        list(settings),
        seed,
        time_limit_s,
        html,
        target,
        rival or "",
    )
    play(Options(*asked), output)
