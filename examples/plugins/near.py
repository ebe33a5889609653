"""How far away nodes may be is said by each profile, in its `pluginConfig`."""

from msgspec import Struct

from muster.plugin import Nodes, Plugin, Pod


class Limits(Struct, frozen=True):
    """Of a profile."""

    label: str
    largest: int = 8


class Near(Plugin):
    """Nodes whose number in a label is larger than a profile allows refuse its pods."""

    args: Limits
    message = "node(s) were too far away"

    def filter(self, pod: Pod, nodes: Nodes):
        return nodes.number(self.args.label) <= self.args.largest
