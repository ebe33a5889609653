"""Users' Reserve plugins: what they hand out is a resource of nodes, like requested ones.

So it is charged and released with the pod's other amounts, in batches, for gangs, nominated pods
and victims. A node without room is refused before it is chosen, where kube-scheduler would choose
it and fail the pod's cycle.
"""

from operator import index
from typing import NamedTuple

from shared.model.objects import Node, PodSpec
from shared.scheduling.api.custom.plugin import Node as ShownNode
from shared.scheduling.api.custom.plugin import Plugin, Pod
from shared.scheduling.api.custom.steps import asked

AMOUNT_MAX = 1 << 40
NEVER = float("inf")


class Reserved(NamedTuple):
    """One plugin's answer about a pod: the amount of this column; `NEVER`: it failed."""

    plugin: str
    message: str
    column: int
    amount: float


class Reserving:
    """`reserve` and `room` of one plugin. `resource` is a name that no request can have."""

    def __init__(self, plugin: Plugin) -> None:
        self.plugin, self.name = plugin, plugin.name
        self.resource = f"{plugin.name}: reserve"
        self.message = plugin.message or f"node(s) had no room left for {plugin.name}"

    def of(self, spec: PodSpec, column: int) -> Reserved:
        """Return what a pod takes; if the plugin fails, nothing, and the pod fits nowhere."""
        plugin = self.plugin
        found, wrong = asked(
            plugin, "reserve", lambda: _amount(plugin.reserve(Pod(spec, plugin.reads)))
        )
        return Reserved(self.name, wrong or self.message, column, NEVER if wrong else found)

    def room(self, node: Node) -> float:
        """Return what a node has; nothing if the plugin fails."""
        shown = ShownNode(node.name, node.labels, node.taints, node.unschedulable)
        found, wrong = asked(self.plugin, "room", lambda: _amount(self.plugin.room(shown)))
        return 0.0 if wrong else found


def _amount(value: object) -> float:
    """Return a count. Raises TypeError or ValueError if it is none."""
    found = index(value)  # type: ignore[arg-type]  # what users give is checked here
    if not 0 <= found <= AMOUNT_MAX:
        raise ValueError(f"{found} is not within 0 and {AMOUNT_MAX}")
    return float(found)
