"""`muster score CASE.json`: how each node fares for a pod, for people and for programs."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import asdict

from muster.cli.errors import Fault, UsageFault
from muster.cli.terminal import cell, print_json
from muster.explain.scoring import score_case
from shared.configuration.scheduler_config import read_config
from shared.kubernetes.objects.errors import WorldError
from shared.scheduling.api.custom.failures import failures
from shared.worlds.documents import FILE_BYTES_MAX

if TYPE_CHECKING:
    from rich.table import Table

HASH_SEEDS = (1, 2)


def print_scores(
    path: Path, config: Path | None, output: str, version: str, checked: Sequence[Path] = ()
) -> None:
    """Answer the case in a file, with the profiles of another file and the formulas of a version of
    kube-scheduler. The plugins in `checked` are asked four times, in three processes. Raises
    WorldError; UsageFault where their answers differ; Fault if a plugin failed.
    """
    profiles = None if config is None else read_config(config)
    case = _read(path)
    answer = score_case(case, path.name, profiles, version)
    if checked:
        second = score_case(case, path.name, profiles, version)
        _compare(answer, second, "asked again by the same process", "remembers something")
        for seed in HASH_SEEDS:
            other = _under_hash_seed(seed, path, config, version, checked)
            _compare(answer, other, f"under PYTHONHASHSEED={seed}", "follows the order of a set")
    answer["pluginFailures"] = [asdict(failure) for failure in failures()]
    if output == "json":
        print_json(answer)
    else:
        _show(answer)
    if failed := [str(failure) for failure in failures()]:
        raise Fault("; ".join(failed))


def _show(answer: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False)
    for pod in answer["pods"]:
        console.print(_table(pod))
        if pod["fitError"]:
            console.print(cell(pod["fitError"]))
        best = pod.get("preemption", {}).get("best")
        if best:
            victims = ", ".join(pod["preemption"]["candidates"][best]["victims"])
            console.print(cell(f"preemption would end {victims} on {best}"))


def _under_hash_seed(
    seed: int, path: Path, config: Path | None, version: str, plugins: Sequence[Path]
) -> Any:
    command = [sys.executable, "-m", "muster", "score", str(path), "--output", "json"]
    command += ["--compatibility-version", version]
    command += [] if config is None else ["--config", str(config)]
    for plugin in plugins:
        command += ["--plugin", str(plugin)]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    found = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    if found.returncode:
        raise UsageFault(f"--check-plugin: under PYTHONHASHSEED={seed}: {found.stderr.strip()}")
    answer = orjson.loads(found.stdout)
    del answer["pluginFailures"]  # none, as the exit code is 0
    return answer


def _compare(answer: Any, other: Any, how: str, likely: str) -> None:
    """Raise UsageFault with the first node whose answer differs."""
    if orjson.loads(orjson.dumps(answer)) == other:
        return
    for pod, found in zip(answer["pods"], other["pods"], strict=True):
        for name, node in pod["nodes"].items():
            if orjson.loads(orjson.dumps(node)) != found["nodes"].get(name):
                raise UsageFault(
                    f"--check-plugin: {pod['namespace']}/{pod['name']}: another answer for node "
                    f"{name} {how}: a replay would differ; a plugin probably {likely}"
                )
    raise UsageFault(f"--check-plugin: another answer {how}: a replay would differ")


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


def _table(pod: dict[str, Any]) -> "Table":
    """Return a table of the nodes by total, best first; then the rejected ones with plugin and
    reason.
    """
    from rich.table import Table

    table = Table(title=cell(f"{pod['namespace']}/{pod['name']}"), title_justify="left")
    table.add_column("node")
    table.add_column("total", justify="right")
    table.add_column("scores, or the plugin that rejects it and why")
    for name, node in sorted(pod["nodes"].items(), key=lambda item: (-item[1]["total"], item[0])):
        if node["feasible"]:
            said = ", ".join(f"{plugin} {score}" for plugin, score in node["scores"].items())
            table.add_row(cell(name), str(node["total"]), cell(said))
        else:
            said = ", ".join(node["reasons"])
            said = f"{node['plugin']}: {said}" if node["plugin"] else said
            table.add_row(cell(name), "", cell(said))
    return table
