"""Critical pods keep off spot nodes; all pods rather go where the rack has the higher number."""

from muster.plugin import HIGHER, Nodes, Plugin, Pod


class OffSpot(Plugin):
    """`tier: critical` keeps a pod off nodes with `lifecycle: spot`."""

    reads = ("labels.tier",)
    message = "node(s) were spot instances"
    normalize = HIGHER

    def filter(self, pod: Pod, nodes: Nodes):
        if pod["labels.tier"] != "critical":
            return None
        return ~nodes.labelled("lifecycle", "spot")

    def score(self, pod: Pod, nodes: Nodes):
        return nodes.number("rack")
