"""Options that several commands share: names, bounds and help texts."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from muster.cli import logs
from muster.cli.completion import complete_run, complete_subject
from shared.model.ids import SHARDS_MAX

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
FILE: click.Path = click.Path(path_type=Path)
OUTPUTS = ("text", "json")
SHARDS = click.IntRange(1, SHARDS_MAX)


def placements(text: str, default: int = 1) -> Decorator:
    """Return the option for the number of shards, with its help."""
    return click.option(
        "--placements",
        "-p",
        type=SHARDS,
        default=default,
        show_default=True,
        metavar="N",
        help=text,
    )


def address(name: str, text: str, is_required: bool = False) -> Decorator:
    """Return the option for an address: required, or empty by default."""
    presence: dict[str, Any] = {"required": True} if is_required else {"default": ""}
    return click.option(name, metavar="ADDRESS", help=text, **presence)


NEWEST = "[default: the newest in runs/]"
run = click.argument(
    "run",
    type=FILE,
    required=False,
    metavar="[RUN]",
    shell_complete=complete_run,
    help=f"The run's directory, finished or running.  {NEWEST}",
)
subject = click.argument(
    "words",
    nargs=-1,
    required=True,
    metavar="[KIND/][NAMESPACE/]NAME [RUN]",
    shell_complete=complete_subject,
    help=f"A pod, gang/NAME or node/NAME; and the run's directory.  {NEWEST}",
)
namespace = click.option(
    "--namespace", "-n", default="", metavar="NAME", help="Namespace of the pod or gang."
)
settings = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="SERVICE.OPTION=VALUE",
    help="An option of a service (docs/reference/options.md lists them).",
)
config = click.option(
    "--config",
    type=FILE,
    metavar="FILE",
    help="Profiles: a KubeSchedulerConfiguration, as of 1.35.",
)
_compatibility_version = click.option(
    "--compatibility-version",
    metavar="VERSION",
    default="",
    help="Decide as this kube-scheduler: 1.35, 1.36 or 1.37. Without it: as the version of the "
    "API server, and as 1.35 where there is none.",
)
_feature_gates = click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    default="",
    help="kube-scheduler's feature gates that differ from their defaults in that version.",
)


def release(command: Callable[..., None]) -> Callable[..., None]:
    """Add both options; the command gets them as `release`, an AskedRelease."""

    @wraps(command)
    def asked(*, compatibility_version: str, feature_gates: str, **others: Any) -> None:
        from muster.cli.options.release import asked_release

        command(release=asked_release(compatibility_version, feature_gates), **others)

    return _compatibility_version(_feature_gates(asked))


plugin = click.option(
    "--plugin",
    multiple=True,
    type=FILE,
    metavar="FILE.py",
    help="Your own plugins (docs/reference/plugins.md).",
)


def output_as(words: str) -> Decorator:
    """Return the option for the format of an output, with its help."""
    return click.option(
        "--output", "-o", default="text", show_default=True, metavar="FORMAT", help=words
    )


output = output_as("text or json.")
plain = click.option("--plain", is_flag=True, help="Play the trace unchanged (openb).")
speed = click.option(
    "--speed", metavar="FACTOR", help="Play the trace by its times, this many times faster."
)
real_time = click.option(
    "--real-time",
    is_flag=True,
    help="Play manifests and traces on the wall clock, as floods always are.",
)
seed = click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Seed of everything random."
)
kubeconfig = click.option(
    "--kubeconfig",
    default="",
    metavar="FILE",
    help="A live cluster: a kubeconfig, or in-cluster for the service account of our pod.",
)
scheduler_name = click.option(
    "--scheduler-name",
    multiple=True,
    metavar="NAME",
    help="Schedule pods with this spec.schedulerName (muster); may be given several times.",
)
metrics_port = click.option(
    "--metrics-port",
    default="0",
    show_default=True,
    metavar="[HOST:]PORT",
    help="Serve /livez, /readyz and /metrics at this address (default host 127.0.0.1); 0 = none.",
)
log_format = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    expose_value=False,
    callback=lambda _context, _option, value: logs.set_up(value),
    help="Form of the log lines.",
)
verbose = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    expose_value=False,
    callback=lambda _context, _option, value: logs.show_debug() if value else None,
    help="Log more, also of libraries.",
)
leader_elect = click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Stand by while another process for the same pods leads.",
    show_default="as --config says, else on",
)
cut_journals = click.option(
    "--cut-journals",
    is_flag=True,
    help="Drop records that no snapshot needs; else journals grow for ever.",
)
