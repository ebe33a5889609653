"""The command `muster simulate`: a world under faults, or a mix of workloads without."""

from collections.abc import Sequence
from pathlib import Path

import click

from muster.cli.errors import UsageFault, one_of
from muster.cli.help import Command
from muster.cli.options import shared as options

SHARDS_UNDER_FAULTS = 3


@click.command(cls=Command)
@click.argument(
    "world",
    nargs=-1,
    metavar="[WORLD...]",
    help="A world as for muster run; default: made from the seed.",
)
@click.option(
    "--workloads",
    type=options.FILE,
    metavar="MIX",
    help="Instead play this mix of jobs, Deployments and failing nodes without faults of the mesh, "
    "and measure it (docs/reference/mixes.md; - is standard input).",
)
@options.seed
@click.option(
    "--placements",
    "-p",
    type=options.SHARDS,
    metavar="N",
    help=f"Placement shards.  [default: {SHARDS_UNDER_FAULTS}; 1 with --workloads]",
)
@options.plain
@options.speed
@click.option("--run-dir", type=options.FILE, metavar="DIR", help="Directory of the run of a mix.")
@options.settings
@options.config
@click.option(
    "--html", type=options.FILE, metavar="FILE", help="Also write a page with plots, for browsers."
)
@click.option(
    "--compare",
    nargs=2,
    type=options.FILE,
    metavar="A.json B.json",
    help="Play nothing: compare two mixes by what --output json printed.",
)
@options.output
def simulate(  # noqa: PLR0913 (one parameter per option)
    world: Sequence[str],
    workloads: Path | None,
    seed: int | None,
    placements: int | None,
    plain: bool,
    speed: str | None,
    run_dir: Path | None,
    settings: Sequence[str],
    config: Path | None,
    html: Path | None,
    compare: tuple[Path, Path] | None,
    output: str,
) -> int:
    """Run the mesh in virtual time: under seeded faults, checking what it did, or on a mix of
    workloads, measuring what became of them.
    """
    one_of("--output", output, options.OUTPUTS)
    if workloads is not None or compare is not None:
        if (workloads is None) == (compare is None) or world or plain or speed is not None:
            raise UsageFault("simulate: name a WORLD, or a mix with --workloads, or --compare two")
        if workloads is None:
            assert compare is not None
            from muster.cli.commands.mix import compare as show

            show(*compare, output, html)
            return 0
        from muster.cli.commands.mix import Options, play

        play(
            Options(workloads, seed, placements or 1, run_dir, list(settings), config, html), output
        )
        return 0
    of_mixes = {
        "--run-dir": run_dir,
        "--set": settings,
        "--config": config,
        "--html": html,
        "--output": output != options.OUTPUTS[0],
    }
    for option, given in of_mixes.items():
        if given:
            raise UsageFault(f"{option}: requires --workloads")
    from muster.simulation.command import simulate_world
    from shared.worlds.settings import Choice, load_world

    drawn = 1 if seed is None else seed
    chosen = load_world(list(world), Choice(plain, speed, drawn)).world if world else None
    return simulate_world(chosen, drawn, placements or SHARDS_UNDER_FAULTS)
