"""The API for users' plugins: `from muster.plugin import Plugin` (docs/reference/plugins.md).

The names in `__all__`, their public methods and their types are stable. A plugin that works with
one minor version works with the next. A deprecated name warns for one minor version first.
Everything else in this package may change at any time.
"""

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
]
