"""The Helm chart, rendered by a real Helm (`make servers` builds it)."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.required_tools import require_tool
from tests.support.server_process import servers_dir

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "muster"
NAMESPACE = "muster"
BROKER = (
    "mode=services",
    "kafka.brokers={kafka:9093}",
    "kafka.passwordSecret.name=muster-kafka",
    "kafka.caSecret.name=muster-kafka",
)
"""Values of the services over a broker that exists."""
EVERYTHING = (
    "mode=services",
    "placements=3",
    "strimzi.enabled=true",
    "metrics.serviceMonitor.enabled=true",
    "provisioningRequests.enabled=true",
    "volume.sharedClaim=snapshots",
)
Manifest = dict[str, Any]


def helm_path() -> Path:
    """Return the program's path. Skips the test, or fails it in CI, where it is missing."""
    path = servers_dir() / "helm" / "helm"
    require_tool("helm", "bash deploy/servers/install.sh helm", found=path.is_file())
    return path


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    command = [str(helm_path()), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def template(
    *values: str, file: Path | None = None, words: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Render the chart as release `muster` with values (`a.b=c`) and a file of values. `words` are
    added to the command.
    """
    sets = [word for value in values for word in ("--set", value)]
    files = [] if file is None else ["--values", str(file)]
    return helm("template", "muster", str(CHART), "--namespace", NAMESPACE, *sets, *files, *words)


def rendered(*values: str, file: Path | None = None, words: Sequence[str] = ()) -> list[Manifest]:
    """Return the rendered manifests."""
    done = template(*values, file=file, words=words)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    """Return the manifests of a kind by name."""
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}
