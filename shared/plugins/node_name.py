"""NodeName: a pod that names its node goes nowhere else.

Who has a node waits for none, so no pod of a cluster comes to this; `muster score` does.
"""

import numpy as np

from shared.framework.layout import Mask
from shared.framework.table import NodeTable
from shared.model.objects import PodSpec


class NodeName:
    """Static filter."""

    name = "NodeName"
    message = "node(s) didn't match the requested node name"

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """All other nodes."""
        if not spec.node_name:
            return None
        others = np.ones(table.size, np.bool_)
        row = table.row_named(spec.node_name)
        if row is not None:
            others[row] = False
        return others
