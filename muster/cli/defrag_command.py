"""The command `muster defrag`: its options and their help."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.errors import UsageFault, one_of
from muster.cli.help import Command
from muster.cli.options import shared as options

if TYPE_CHECKING:
    from muster.cli.options.release import AskedRelease


@click.command(cls=Command)
@click.argument(
    "source",
    type=options.FILE,
    required=False,
    metavar="[SOURCE]",
    help="Manifests (- is standard input), or the directory of a run of a world with one shard."
    f"  {options.NEWEST}",
)
@options.kubeconfig
@click.option(
    "--for",
    "wanted",
    default="",
    metavar="WHAT",
    help="What should fit: RESOURCE=AMOUNT,... or a pending pod, pod/[NAMESPACE/]NAME.  "
    "[default: all GPUs of a node]",
)
@click.option(
    "--count",
    type=click.IntRange(1),
    metavar="N",
    help="How many should fit, with those that fit now.  [default: as many as can; of a pod 1]",
)
@click.option(
    "--topology-key",
    default="",
    metavar="LABEL",
    help="All of them on nodes with one value of this label, such as a rack.",
)
@options.config
@options.release
@click.option("--apply", is_flag=True, help="Carry the plan out on the live cluster.")
@click.option(
    "--at-most",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    metavar="N",
    help="With --apply: so many pods are without a node at a time.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="With --apply: stop if a pod is not evicted and replaced within this time.",
)
@options.output
def defrag(  # noqa: PLR0913 (one parameter per option)
    source: Path | None,
    kubeconfig: str,
    wanted: str,
    count: int | None,
    topology_key: str,
    config: Path | None,
    release: "AskedRelease",
    apply: bool,
    at_most: int,
    wait_s: float,
    output: str,
) -> None:
    """Plan which pods to move where, so that larger ones fit: what that frees, and what it costs.

    Without --apply nothing is changed. Pods without a controller and members of gangs stay where
    they are (docs/how-to/defragment.md).
    """
    one_of("--output", output, options.OUTPUTS)
    if source is not None and kubeconfig:
        raise UsageFault("defrag: name a SOURCE or a --kubeconfig")
    if apply and not kubeconfig:
        raise UsageFault("--apply: requires --kubeconfig")
    if topology_key and count is None:
        raise UsageFault("--topology-key: requires --count")
    if wanted.startswith("pod/"):
        count = count or 1
    from muster.cli.commands.defrag.show import Asked, print_plan

    asked = Asked(source, kubeconfig, wanted, count, topology_key, config, release)
    print_plan(asked, output, (at_most, wait_s) if apply else None)
