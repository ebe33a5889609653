"""The pods of a DaemonSet: one for each eligible node, tied to it by name, as the DaemonSet
controller makes them (kubernetes/pkg/controller/daemon: NodeShouldRunDaemonPod, and util).
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from msgspec import structs

from shared.model.ids import NodeId
from shared.model.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Node,
    PodSpec,
    Requirement,
    SelectorTerm,
    Toleration,
)
from shared.scheduling.plugins.node_affinity import NAME_FIELD, NodeAffinity
from shared.scheduling.plugins.taint_toleration import TaintToleration
from shared.scheduling.table.table import NodeTable

_TOLERATED = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
ON_HOST_NETWORK = ("network-unavailable", NO_SCHEDULE)
_FILTERS = (NodeAffinity(), TaintToleration())


class DaemonNodes:
    """The nodes of a world; it finds those that are eligible for a DaemonSet."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    @cached_property
    def _table(self) -> NodeTable:
        """Return the table of nodes, made when the first DaemonSet needs it."""
        table = NodeTable(seed=0)
        table.set_nodes(map(NodeId, range(len(self._nodes))), self._nodes)
        return table

    def specs(self, spec: PodSpec, on_host_network: bool) -> Iterator[tuple[str, PodSpec]]:
        """Yield (node, spec) for each eligible node: one that the selector and affinity match, and
        whose taints are tolerated.
        """
        more = (*_TOLERATED, ON_HOST_NETWORK) if on_host_network else _TOLERATED
        tolerations = spec.tolerations
        added = (Toleration(f"node.kubernetes.io/{key}", "Exists", "", how) for key, how in more)
        spec = structs.replace(
            spec, tolerations=(*tolerations, *(one for one in added if one not in tolerations))
        )
        refused = np.zeros(self._table.size, np.bool_)
        for plugin in _FILTERS:
            mask = plugin.refuses(self._table, spec)
            if mask is not None:
                refused |= mask
        for node in self._nodes:
            if not refused[self._table.row_named(node.name)]:
                there = SelectorTerm(fields=(Requirement(NAME_FIELD, "In", (node.name,)),))
                yield node.name, structs.replace(spec, affinity_required=(there,))
