"""Options that several commands share: their names, bounds and help; what they do is not here."""

from pathlib import Path
from typing import Annotated, Any

import typer

from shared.model.ids import SHARDS_MAX


def _shards(text: str) -> Any:
    return typer.Option("--placements", "-p", min=1, max=SHARDS_MAX, help=text)


Shards = Annotated[int, _shards("Placement shards.")]
ShardsOfMesh = Annotated[int, _shards("Shards of the whole mesh.")]
ShardsElsewhere = Annotated[int, _shards("Shards, with --bus.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SERVICE.OPTION=VALUE", help="An option of a service."),
]
Config = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Profiles: a KubeSchedulerConfiguration, as of 1.35."),
]
Compatibility = Annotated[
    str,
    typer.Option(
        "--compatibility-version",
        metavar="VERSION",
        help="Formulas of this kube-scheduler: 1.35 or 1.36.",
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE.py", help="Your own plugins (docs/plugins.md)."),
]
RunDir = Annotated[Path | None, typer.Option("--run-dir", metavar="DIR", help="Keep the run here.")]
Output = Annotated[str, typer.Option("--output", "-o", help="text or json.")]
Plain = Annotated[bool, typer.Option("--plain", help="The trace as it is (openb).")]
Speed = Annotated[str | None, typer.Option(help="Play a trace's times, so many times faster.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of everything random.")]
Kubeconfig = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="A live cluster: a kubeconfig, or in-cluster for the service account of our pod.",
    ),
]
SchedulerNames = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name",
        metavar="NAME",
        help="Schedule pods with this spec.schedulerName (muster); may be given several times.",
    ),
]
LeaderElect = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect",
        help="Stand by while another process for the same pods leads (docs/live.md).",
        show_default="as --config says, else on",
    ),
]
CutJournals = Annotated[
    bool,
    typer.Option(
        "--cut-journals",
        help="Drop records that no snapshot needs (docs/live.md); else journals grow for ever.",
    ),
]
