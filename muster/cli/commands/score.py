"""`muster score`: how each node fares for a pod, for people and for programs."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from muster.cli.errors import Fault, UsageFault
from muster.cli.options.release import AskedRelease
from muster.cli.output import plain, print_json
from muster.cli.subject import subject_of
from muster.cli.terminal import cell
from muster.explain.case_answer import CaseAnswer, PodAnswer, Scored
from muster.explain.scoring import score_case
from shared.configuration.scheduler_config import read_config
from shared.events.names import is_named
from shared.kubernetes.objects.errors import WorldError
from shared.kubernetes.objects.fields import Fields
from shared.model.release import ReleaseOptions
from shared.scheduling.api.custom.failures import failures
from shared.worlds.case import ENDED
from shared.worlds.documents import name_of, objects_of, read_documents

if TYPE_CHECKING:
    from rich.table import Table

HASH_SEEDS = (1, 2)


class Asked(NamedTuple):
    """The words of the command line: a case in a file, or a live cluster. An empty `pod`: all pods
    without a node.
    """

    case: Path | None
    kubeconfig: str = ""
    pod: str = ""
    namespace: str = ""


def print_scores(
    asked: Asked,
    config: Path | None,
    output: str,
    release: AskedRelease,
    checked: Sequence[Path] = (),
) -> None:
    """Answer the case, with the profiles of a file and the formulas of a release of kube-scheduler.
    The plugins in `checked` are asked four times, in three processes. Raises WorldError; UsageFault
    where their answers differ; Fault if a plugin failed, or the cluster does not answer.
    """
    what, case = _case(asked)
    chosen = release.chosen(asked.kubeconfig)
    profiles = None if config is None else read_config(config, chosen.release())
    answer = score_case(case, what, profiles, chosen)
    if checked:
        second = score_case(case, what, profiles, chosen)
        _compare(answer, second, "asked again by the same process", "remembers something")
        for seed in HASH_SEEDS:
            other = _under_hash_seed(seed, case, config, chosen, checked)
            _compare(answer, other, f"under PYTHONHASHSEED={seed}", "follows the order of a set")
    if output == "json":
        print_json(Scored(pods=answer["pods"], pluginFailures=failures()))
    else:
        _show(answer)
    if failed := [str(failure) for failure in failures()]:
        raise Fault("; ".join(failed))


def _show(answer: CaseAnswer) -> None:
    from rich.console import Console

    console = Console(soft_wrap=True, highlight=False)
    for pod in answer["pods"]:
        console.print(_table(pod))
        if pod["fitError"]:
            console.print(cell(pod["fitError"]))
        for best in pod["best"][:1]:
            for claim, given in pod["nodes"][best].get("allocations", {}).items():
                console.print(cell(f"claim {claim} would get {_devices(given)} on {best}"))
        preemption = pod.get("preemption")
        if preemption and (best := preemption["best"]):
            victims = ", ".join(preemption["candidates"][best]["victims"])
            console.print(cell(f"preemption would end {victims} on {best}"))


def _devices(allocation: dict[str, Any]) -> str:
    """Return the devices of an allocation: DRIVER/POOL/DEVICE."""
    results = allocation["devices"].get("results", ())
    devices = [f"{one['driver']}/{one['pool']}/{one['device']}" for one in results]
    return ", ".join(devices) or "no device"


def _under_hash_seed(
    seed: int, case: Any, config: Path | None, release: ReleaseOptions, plugins: Sequence[Path]
) -> Any:
    command = [sys.executable, "-m", "muster", "score", "-", "--output", "json"]
    command += ["--compatibility-version", release.compatibility]
    gates = (f"{name}={is_on}" for name, is_on in release.feature_gates.items())
    command += ["--feature-gates", ",".join(gates)]
    command += [] if config is None else ["--config", str(config)]
    for plugin in plugins:
        command += ["--plugin", str(plugin)]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    found = subprocess.run(
        command, env=environment, input=orjson.dumps(case), capture_output=True, check=False
    )
    if found.returncode:
        told = found.stderr.decode(errors="replace").strip()
        raise UsageFault(f"--check-plugin: under PYTHONHASHSEED={seed}: {told}")
    answer = orjson.loads(found.stdout)
    del answer["pluginFailures"]  # none, as the exit code is 0
    return answer


def _compare(answer: CaseAnswer, other: Any, how: str, likely: str) -> None:
    """Raise UsageFault with the first node whose answer differs."""
    if plain(answer) == plain(other):
        return
    for pod, found in zip(answer["pods"], other["pods"], strict=True):
        for name, node in pod["nodes"].items():
            if plain(node) != plain(found["nodes"].get(name)):
                raise UsageFault(
                    f"--check-plugin: {pod['namespace']}/{pod['name']}: another answer for node "
                    f"{name} {how}: a replay would differ; a plugin probably {likely}"
                )
    raise UsageFault(f"--check-plugin: another answer {how}: a replay would differ")


def _case(asked: Asked) -> tuple[str, dict[str, Any]]:
    """Return the case, and its name for messages."""
    if (asked.case is None) == (not asked.kubeconfig):
        raise UsageFault("score: name a CASE or a --kubeconfig")
    if asked.namespace and not asked.pod:
        raise UsageFault("--namespace: requires --pod")
    if asked.case is None:
        # Imported here: a case in a file needs no client.
        from muster.cli.commands.cluster_case import objects_in

        what = "cluster"
        case = _of_manifests(what, objects_in(asked.kubeconfig))
    else:
        what = name_of(asked.case)
        case = _read(asked.case)
    if asked.pod:
        case = _about(asked, what, case)
    if case.get("pods") in (None, []):
        raise WorldError(what, "pods", "holds no Pod without a node to ask about")
    return what, case


def _read(path: Path) -> dict[str, Any]:
    """Return the case in a file. Of manifests, the pods without a node are asked about."""
    documents = read_documents(path)
    first = documents[0] if documents else {}
    if not isinstance(first, dict):
        raise WorldError(name_of(path), "", "must be an object with objects and pods")
    is_case = len(documents) < 2 and "kind" not in first
    return first if is_case else _of_manifests(name_of(path), documents)


def _of_manifests(what: str, documents: Sequence[Any]) -> dict[str, Any]:
    found = [one for document in documents for one in objects_of(what, document)]
    asked = [one for one in found if _is_asked(one)]
    there = [one for one in found if not _is_asked(one)]
    return {"objects": [one.values for one in there], "pods": [one.values for one in asked]}


def _about(asked: Asked, what: str, case: dict[str, Any]) -> dict[str, Any]:
    """Return the case with one pod to ask about, as if it had no node. Raises UsageFault."""
    subject = subject_of([asked.pod])
    if subject.kind != "pod":
        raise UsageFault(f"--pod {asked.pod}: must be [pod/][NAMESPACE/]NAME")
    document = Fields.root(what, case)
    every = [*document.children("objects"), *document.children("pods")]
    inside = f"{asked.namespace}/" if asked.namespace else ""
    pods = [(_name(one), one) for one in every if one.text("kind") == "Pod"]
    found = [(name, one) for name, one in pods if is_named(name, subject.name, inside)]
    if not found:
        raise UsageFault(f"--pod {asked.pod}: there is no such pod")
    if len(found) > 1:
        alike = ", ".join(sorted(name for name, _one in found))
        raise UsageFault(f"--pod {asked.pod}: may be {alike}: name one, or its -n NAMESPACE")
    ((_, pod),) = found
    spec = {key: value for key, value in pod.child("spec").values.items() if key != "nodeName"}
    others = [one.values for one in every if one is not pod]
    return {**case, "objects": others, "pods": [{**pod.values, "spec": spec}]}


def _name(pod: Fields) -> str:
    metadata = pod.child("metadata")
    return f"{metadata.text('namespace') or 'default'}/{metadata.required_text('name')}"


def _is_asked(one: Fields) -> bool:
    ended = one.text("kind") == "Pod" and one.child("status").text("phase") in ENDED
    return one.text("kind") == "Pod" and not ended and not one.child("spec").has("nodeName")


def _table(pod: PodAnswer) -> "Table":
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
