"""ImageLocality: prefers nodes that have the images of the pod already, the larger the better."""

import numpy as np

from shared.framework.layout import I64
from shared.framework.table import NodeTable
from shared.model.objects import PodSpec

MIB = 1 << 20
LEAST_BYTES = 23 * MIB
MOST_BYTES = 1000 * MIB
"""Of one container. Images that come to less count nothing, and to more no more."""


class ImageLocality:
    """Static score 0..100, not normalised: for every container the size of its image, times the
    share of the cluster's nodes that have it, so that pods do not all go where few images are.
    """

    name = "ImageLocality"
    reverse = False
    is_normalised = False

    def raw(self, table: NodeTable, spec: PodSpec) -> I64 | None:
        """The score itself; what nodes that lack an image have of it is nothing."""
        images = table.images
        if not images.stamp(spec.images):
            return None
        found = np.zeros(table.size, np.int64)
        for name in spec.images:  # a name that is there twice counts twice
            column = images.column(name)
            size_bytes = np.maximum(column.sizes, 0)
            # As kube-scheduler does it: the share first, and each product cut to whole bytes.
            found += (size_bytes * images.share(column)).astype(np.int64)
        most_bytes = MOST_BYTES * len(spec.images)
        found = np.clip(found, LEAST_BYTES, most_bytes) - LEAST_BYTES
        return 100 * found // (most_bytes - LEAST_BYTES)

    def applies(self, spec: PodSpec) -> bool:
        """Always: it has no PreScore, and scores 0 where it knows nothing."""
        return True
