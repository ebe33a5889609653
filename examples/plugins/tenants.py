"""If no node fits a pod, only pods of the same `tenant` make room for it."""

from muster.plugin import Evict, Plugin, Pod, RefusedNodes


class Tenants(Plugin):
    """The least important pods of the same `tenant` go, on the first node where that helps."""

    reads = ("labels.tenant", "requests.cpu")
    amounts = ("cpu",)

    def post_filter(self, pod: Pod, nodes: RefusedNodes):
        free = nodes.allocatable("cpu") - nodes.requested("cpu")
        for node in nodes.may_help().nonzero()[0]:
            gone, room = [], free[node]
            for one in reversed(nodes.pods(node)):
                if room < pod["requests.cpu"] and one["labels.tenant"] == pod["labels.tenant"]:
                    gone.append(one)
                    room += one["requests.cpu"]
            if gone and room >= pod["requests.cpu"]:
                return Evict(node, gone)
        return "no pods of the same tenant can make room"
