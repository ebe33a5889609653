"""What a plugin of a user is written with: `from muster.plugin import Plugin` (docs/plugins.md)."""

from shared.framework.custom import HIGHER, LOWER, Amounts, Node, Nodes, Plugin, Pod
from shared.ports.bind_plugin import BindPlugin, BoundPod

__all__ = ["HIGHER", "LOWER", "Amounts", "BindPlugin", "BoundPod", "Node", "Nodes", "Plugin", "Pod"]
