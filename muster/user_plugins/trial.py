"""Asks the plugins of one file about one pod. Of kube-scheduler's plugins only NodeResourcesFit
filters, as in every profile, and none scores.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.cli.errors import UsageFault
from muster.explain.case_answer import PodAnswer
from muster.explain.scoring import score_case
from muster.user_plugins.load import load
from shared.adapters import bounded_yaml
from shared.kubernetes.objects.errors import WorldError
from shared.ports.bind_plugin import BindPlugin
from shared.scheduling.api.custom.failures import failures
from shared.scheduling.api.custom.plugin import PLUGINS, QUEUE_SORT

Given = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
ROOM = {"allocatable": {"cpu": "1000", "memory": "1Pi", "pods": "1000"}}
ONE_CONTAINER = {"containers": [{"name": "main"}]}


def ask(file: Path, nodes: Given, pod: Given, args: Mapping[str, Any]) -> PodAnswer:
    """Return the answer about the pod as `score_case` gives it. Raises ValueError, RuntimeError."""
    try:
        load([file])
        for name, one in PLUGINS.items():
            if issubclass(one.kind, BindPlugin):
                raise ValueError(f"{name} acts when a pod is bound: try it with muster run")
        case = {
            "objects": [_filled(one, "Node") for one in _objects(nodes)],
            "pods": [_filled(one, "Pod") for one in _objects(pod)][:1],
            "config": _config(args),
        }
        first = score_case(case, "try_plugin")
        second = score_case(case, "try_plugin")
        if failed := [str(failure) for failure in failures()]:
            raise RuntimeError("; ".join(failed))
        if first != second:
            raise ValueError(f"{', '.join(PLUGINS)} gave two answers to one question")
    except (UsageFault, WorldError) as error:
        raise ValueError(str(error)) from error
    finally:
        PLUGINS.clear()
    return first["pods"][0]


def _objects(given: Given) -> Iterator[dict[str, Any]]:
    if isinstance(given, str):
        yield from (one for one in bounded_yaml.load_all(given) if one is not None)
    elif isinstance(given, Mapping):
        yield dict(given)
    else:
        yield from map(dict, given)


def _filled(one: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return an object with what an API server asks for and a plugin does not look at."""
    one = {"apiVersion": "v1", "kind": kind, **one}
    if one["kind"] == "Node":
        one.setdefault("status", ROOM)
    if one["kind"] == "Pod":
        one["metadata"] = {"name": "pod", **one.get("metadata", {})}
        one["spec"] = {**ONE_CONTAINER, **one.get("spec", {})}
    return one


def _config(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that enables the loaded plugins and those that every profile needs."""
    sorts = any(QUEUE_SORT in one.points for one in PLUGINS.values())
    needed = ("SchedulingGates", *(() if sorts else ("PrioritySort",)), "DefaultBinder")
    enabled = [{"name": name} for name in (*PLUGINS, *needed)]
    fits = {"enabled": [{"name": "NodeResourcesFit"}]}
    plugins = {
        "multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled},
        "preFilter": fits,
        "filter": fits,
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": plugins,
                "pluginConfig": [{"name": name, "args": one} for name, one in args.items()],
            }
        ],
    }
