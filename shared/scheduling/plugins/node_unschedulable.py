"""NodeUnschedulable: cordoned nodes take only pods that tolerate the unschedulable taint."""

import numpy as np

from shared.model.objects import NO_SCHEDULE, UNSCHEDULABLE_TAINT, PodSpec, Taint
from shared.scheduling.plugins.tolerations import tolerated
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable

TAINT = Taint(UNSCHEDULABLE_TAINT, "", NO_SCHEDULE)


class NodeUnschedulable:
    """Static filter."""

    name = "NodeUnschedulable"
    message = "node(s) were unschedulable"
    reads: tuple[str, ...] = ("tolerations",)

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """Return the cordoned nodes."""
        cordoned = [unschedulable for _, unschedulable in table.taint_classes]
        if not any(cordoned) or tolerated(spec.tolerations, TAINT):
            return None
        return np.array(cordoned, np.bool_)[table.taint_class]
