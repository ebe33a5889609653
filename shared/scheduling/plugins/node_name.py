"""NodeName: a pod that names its node fits no other.

Pods with spec.nodeName never reach the queue; only `muster score` uses this filter.
"""

import numpy as np

from shared.model.objects import PodSpec
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable


class NodeName:
    """Static filter."""

    name = "NodeName"
    message = "node(s) didn't match the requested node name"
    reads: tuple[str, ...] = ("node_name",)

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """Return all other nodes."""
        if not spec.node_name:
            return None
        others = np.ones(table.size, np.bool_)
        row = table.row_named(spec.node_name)
        if row is not None:
            others[row] = False
        return others
