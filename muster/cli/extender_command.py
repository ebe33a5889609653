"""The command `muster extender`: its options and their help."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.help import Command
from muster.cli.options import shared as options

if TYPE_CHECKING:
    from muster.cli.options.release import AskedRelease


@click.command(cls=Command)
@options.kubeconfig
@options.config
@options.plugin
@options.release
@click.option(
    "--listen",
    default="10270",
    show_default=True,
    metavar="[HOST:]PORT",
    help="Where kube-scheduler asks (default host 127.0.0.1).",
)
@options.log_format
@options.verbose
def extender(
    kubeconfig: str,
    config: Path | None,
    plugin: Sequence[Path],
    release: "AskedRelease",
    listen: str,
) -> None:
    """Answer kube-scheduler as an HTTP extender: filter, prioritize, preempt and bind.

    It watches the cluster and writes nothing but the bindings that kube-scheduler asks for.
    """
    from muster.cli.commands.extender import serve_extender

    serve_extender(kubeconfig, config, plugin, release, listen)
