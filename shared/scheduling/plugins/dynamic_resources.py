"""DynamicResources: pods with resource claims fit where all their claims have devices, or can get
some. As in kube-scheduler, removing pods cannot make room.
"""

import numpy as np

from shared.model.objects import PodSpec
from shared.scheduling.claims.allocator import AllocationError
from shared.scheduling.claims.pod_claims import NotReady
from shared.scheduling.plugins.resource_scores import FULL
from shared.scheduling.table.layout import I64, Mask
from shared.scheduling.table.table import NodeTable

NAME = "DynamicResources"


class DynamicResources:
    """The rule for one pod; `rejects`: why it fits no node, whatever the node has."""

    def __init__(self, table: NodeTable, spec: PodSpec) -> None:
        self.rejects: str | None = None
        self.refusals: list[tuple[str, Mask]] = []
        self._scores: I64 | None = None
        live = table.claims
        try:
            claims = live.of_pod(spec)
            self.refusals = live.refusals(table, claims)
            self._scores = live.scores(table, claims)
        except (NotReady, AllocationError) as error:
            self.rejects = str(error)

    @property
    def apply(self) -> bool:
        """Return whether a node is refused."""
        return bool(self.rejects) or any(bool(mask.any()) for _, mask in self.refusals)

    @property
    def has_scores(self) -> bool:
        """Return whether what a node would give the pod is scored."""
        return self._scores is not None

    def scores(self, feasible: Mask) -> I64:
        """Return the scores (0..100) of all nodes, normalised over the feasible ones
        (DefaultNormalizeScore).
        """
        assert self._scores is not None
        most = int(self._scores[feasible].max(initial=0))
        if not most:
            return np.zeros(len(feasible), np.int64)
        found: I64 = self._scores * FULL // most
        return found
