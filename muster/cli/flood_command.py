"""The command `muster flood`: its options and their help."""

from collections.abc import Sequence
from pathlib import Path

import click

from muster.cli import shared_options as options
from muster.cli.errors import one_of
from muster.cli.help import Command


@click.command(cls=Command)
@click.argument(
    "workload", type=options.FILE, metavar="WORKLOAD", help="A file (- is standard input)."
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
@options.output
def flood(
    workload: Path,
    placements: int,
    run_dir: Path | None,
    seed: int | None,
    settings: Sequence[str],
    time_limit_s: float,
    output: str,
) -> None:
    """Play a workload of many pods against a target in real time, and measure it."""
    one_of("--output", output, options.OUTPUTS)
    from muster.cli.commands.flood import Options
    from muster.cli.commands.flood import flood as play

    asked = workload, placements, run_dir, list(settings), seed, time_limit_s
    play(Options(*asked), output)
