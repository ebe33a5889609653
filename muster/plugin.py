"""What a plugin of a user is written with: `from muster.plugin import Plugin` (docs/plugins.md)."""

from shared.framework.custom import HIGHER, LOWER, Amounts, Node, Nodes, Plugin, Pod

__all__ = ["HIGHER", "LOWER", "Amounts", "Node", "Nodes", "Plugin", "Pod"]
