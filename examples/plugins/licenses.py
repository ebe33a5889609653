"""Licenses are handed out by node: a node has as many as its label says, and so a pod takes."""

from muster.plugin import Node, Plugin, Pod


class Licenses(Plugin):
    """The label `licenses` of a node and of its pods; without one it is 0."""

    reads = ("labels.licenses",)
    message = "node(s) had too few licenses left"

    def reserve(self, pod: Pod):
        return int(pod["labels.licenses"] or 0)

    def room(self, node: Node):
        return int(node.labels.get("licenses", "0"))
