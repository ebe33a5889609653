"""The API for users' plugins: `from muster.plugin import Plugin` (docs/reference/plugins.md).

The names in `__all__`, their public methods and their types are stable. A plugin that works with
one minor version works with the next. A deprecated name warns for one minor version first.
Everything else in this package may change at any time.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from shared.ports.bind_plugin import BindPlugin, BoundPod
from shared.scheduling.api.custom.plugin import HIGHER, LOWER, Amounts, Node, Nodes, Plugin, Pod
from shared.scheduling.api.custom.post_filter import Evict, RefusedNodes, RunningPod, Stop

__all__ = [
    "HIGHER",
    "LOWER",
    "Amounts",
    "BindPlugin",
    "BoundPod",
    "Evict",
    "Node",
    "Nodes",
    "Plugin",
    "Pod",
    "RefusedNodes",
    "RunningPod",
    "Stop",
    "Tried",
    "try_plugin",
]


class Tried(Struct, frozen=True):
    """What the plugins of a file say of a pod, by node: why they reject nodes, and their scores of
    the other nodes (0..100 for each plugin).
    """

    rejected: dict[str, str]
    scores: dict[str, int]

    @property
    def feasible(self) -> list[str]:
        """Return the nodes that are not rejected, in the given order."""
        return list(self.scores)


def try_plugin(
    file: str | Path,
    nodes: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    pod: str | Mapping[str, Any] = "{}",
    args: Mapping[str, Any] | None = None,
) -> Tried:
    """Ask the plugins in a file about a pod, for tests. Of kube-scheduler's plugins only
    NodeResourcesFit filters, and none scores; a node without a status has room.

    `nodes` and `pod` are objects of Kubernetes as dicts or YAML; `nodes` may have pods that run
    there, with `kind: Pod`. Of each only what the plugin looks at is needed. `args` has the
    arguments of `pluginConfig` by the plugin's name. Raises RuntimeError if the plugin raises or
    gives an unusable answer; ValueError if the file or an object would be refused, or if the plugin
    gives two answers to one question.
    """
    from muster.user_plugins.trial import ask

    answer = ask(Path(file), nodes, pod, args or {})
    status, asked = answer["preFilterStatus"], answer["nodes"]
    everywhere = ", ".join(status["reasons"])
    rejected = {
        name: ", ".join(one["reasons"]) or everywhere
        for name, one in asked.items()
        if not one["feasible"]
    }
    return Tried(rejected, {name: one["total"] for name, one in asked.items() if one["feasible"]})
