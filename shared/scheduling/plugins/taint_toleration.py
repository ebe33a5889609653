"""TaintToleration: NoSchedule and NoExecute taints refuse, PreferNoSchedule taints cost score."""

import numpy as np

from shared.model.objects import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, PodSpec, Taint
from shared.scheduling.plugins.tolerations import tolerated
from shared.scheduling.table.layout import I64, Mask
from shared.scheduling.table.table import NodeTable


def _refused(taints: tuple[Taint, ...], spec: PodSpec) -> bool:
    return any(
        taint.effect in (NO_SCHEDULE, NO_EXECUTE) and not tolerated(spec.tolerations, taint)
        for taint in taints
    )


def _unpreferred(taints: tuple[Taint, ...], spec: PodSpec) -> int:
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not tolerated(spec.tolerations, taint)
        for taint in taints
    )


class TaintToleration:
    """Static filter, and a reversed static score over the number of untolerated taints."""

    name = "TaintToleration"
    message = "node(s) had untolerated taint(s)"
    reads: tuple[str, ...] = ("tolerations",)
    reverse = True
    is_normalised = True

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """Return the nodes with an untolerated NoSchedule or NoExecute taint."""
        refused = [_refused(taints, spec) for taints, _ in table.taint_classes]
        if not any(refused):
            return None
        return np.array(refused, np.bool_)[table.taint_class]

    def raw(self, table: NodeTable, spec: PodSpec) -> I64 | None:
        """Return the number of untolerated PreferNoSchedule taints of each node."""
        counts = [_unpreferred(taints, spec) for taints, _ in table.taint_classes]
        if not any(counts):
            return None
        return np.array(counts, np.int64)[table.taint_class]

    def applies(self, spec: PodSpec) -> bool:
        """Return True: nodes without taints score 100 even if no node has any."""
        return True
