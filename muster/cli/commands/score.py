"""`muster score CASE.json`: how each node would fare for a pod, for people and for programs."""

from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from muster.cli.terminal import cell, print_json
from muster.explain.scoring import score_case
from shared.configuration.scheduler_config import read_config
from shared.kubernetes.objects.errors import WorldError
from shared.worlds.documents import FILE_BYTES_MAX


def print_scores(path: Path, config: Path | None, output: str, version: str) -> None:
    """Answer the case in a file, with the profiles of another and the formulas of a version of
    kube-scheduler. Raises WorldError.
    """
    profiles = None if config is None else read_config(config)
    answer = score_case(_read(path), path.name, profiles, version)
    if output == "json":
        print_json(answer)
        return
    console = Console(soft_wrap=True, highlight=False)
    for pod in answer["pods"]:
        console.print(_table(pod))
        if pod["fitError"]:
            console.print(cell(pod["fitError"]))
        best = pod.get("preemption", {}).get("best")
        if best:
            victims = ", ".join(pod["preemption"]["candidates"][best]["victims"])
            console.print(cell(f"preemption would end {victims} on {best}"))


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise WorldError(path.name, "", f"is larger than {FILE_BYTES_MAX >> 20} MiB")
        value = orjson.loads(path.read_bytes())
    except OSError as error:
        raise WorldError(str(path), "", f"cannot be read: {error.strerror}") from error
    except orjson.JSONDecodeError as error:
        raise WorldError(path.name, "", f"is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise WorldError(path.name, "", "must be an object with objects and pods")
    return value


def _table(pod: dict[str, Any]) -> Table:
    """Nodes by total, the best first; then those that are refused, with who refuses and why."""
    table = Table(title=cell(f"{pod['namespace']}/{pod['name']}"), title_justify="left")
    table.add_column("node")
    table.add_column("total", justify="right")
    table.add_column("scores, or who refuses it and why")
    for name, node in sorted(pod["nodes"].items(), key=lambda item: (-item[1]["total"], item[0])):
        if node["feasible"]:
            said = ", ".join(f"{plugin} {score}" for plugin, score in node["scores"].items())
            table.add_row(cell(name), str(node["total"]), cell(said))
        else:
            said = ", ".join(node["reasons"])
            said = f"{node['plugin']}: {said}" if node["plugin"] else said
            table.add_row(cell(name), "", cell(said))
    return table
