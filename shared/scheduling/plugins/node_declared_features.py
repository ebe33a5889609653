"""NodeDeclaredFeatures: pods that need a feature of the kubelet fit on nodes that declare it."""

import numpy as np

from shared.model.objects import RESTART_ALL_CONTAINERS, USER_NAMESPACES_ON_HOST_NETWORK, PodSpec
from shared.model.release import V1_35, V1_36, Release
from shared.scheduling.table.layout import Mask
from shared.scheduling.table.table import NodeTable

SINCE = {RESTART_ALL_CONTAINERS: V1_35, USER_NAMESPACES_ON_HOST_NETWORK: V1_36}
UNSATISFIED = "node(s) didn't match Pod's required features"
UNSATISFIED_1_35 = (
    f"node declared features check failed - unsatisfied requirements: {RESTART_ALL_CONTAINERS}"
)


class NodeDeclaredFeatures:
    """Static filter. Each release knows some of the features that pods may need."""

    name = "NodeDeclaredFeatures"
    message = UNSATISFIED
    reads: tuple[str, ...] = ("features",)

    def __init__(self, release: Release) -> None:
        self._known = {name for name, since in SINCE.items() if since <= release.version}
        self.message = UNSATISFIED_1_35 if release.version == V1_35 else UNSATISFIED

    def refuses(self, table: NodeTable, spec: PodSpec) -> Mask | None:
        """Return the nodes that lack a feature."""
        needed = self._known.intersection(spec.features)
        if not needed:
            return None
        lacking = (not needed.issubset(node.features) for node in table.nodes)
        return np.fromiter(lacking, np.bool_, table.size)
