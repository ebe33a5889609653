"""Batches beside kube-scheduler's OpportunisticBatching, on its favourite shape: equal pods without
rules, each of which fills a node.
"""

from dataclasses import replace

from loadtest.cluster.contestants import BATCHING, MUSTER, SINGLE, Contestant
from loadtest.cluster.load import Load
from loadtest.cluster.measure import Figures, Sizes, of_each
from loadtest.cluster.throughput import from_backlog
from tests.support.kube_server import KubeServers

WHO = (SINGLE, BATCHING, MUSTER)
CPU = "5"
"""More than half of a node: no node takes two."""


def batching(sizes: Sizes) -> Figures:
    """Measure from the first to the last bind, with five nodes for four pods at the least."""
    return of_each(replace(sizes, pods=min(sizes.pods, sizes.nodes * 4 // 5)), _full_nodes, WHO)


async def _full_nodes(servers: KubeServers, load: Load, one: Contestant, sizes: Sizes) -> Figures:
    return await from_backlog(servers, load, one, sizes, {"cpu": CPU})
