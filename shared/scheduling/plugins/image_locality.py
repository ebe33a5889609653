"""ImageLocality: prefers nodes that have the images of the pod already, the larger the better."""

import numpy as np

from shared.model.objects import PodSpec
from shared.scheduling.table.layout import I64
from shared.scheduling.table.table import NodeTable

MIB = 1 << 20
LEAST_BYTES = 23 * MIB
MOST_BYTES = 1000 * MIB
"""Bytes per container. Smaller sums count as nothing, larger ones as the maximum."""


class ImageLocality:
    """Static score 0..100, not normalised: for every container the size of its image, times the
    share of the cluster's nodes that have it, so that pods do not all go where few images are.
    """

    name = "ImageLocality"
    reads: tuple[str, ...] = ("images", "image_volumes")
    reverse = False
    is_normalised = False

    def __init__(self, counts_volumes: bool = False, raises_most: bool = False) -> None:
        """`counts_volumes`: mounted images count as well, as since 1.36. `raises_most`: they raise
        the maximum, as since 1.37; before it is that of the containers.
        """
        self._counts_volumes, self._raises_most = counts_volumes, raises_most

    def names(self, spec: PodSpec) -> tuple[str, ...]:
        """Return the images of the pod that count."""
        return (*spec.images, *spec.image_volumes) if self._counts_volumes else spec.images

    def raw(self, table: NodeTable, spec: PodSpec) -> I64 | None:
        """Return the scores; an image that a node lacks adds nothing."""
        images, names = table.images, self.names(spec)
        if not images.stamp(names):
            return None
        most_bytes = MOST_BYTES * len(names if self._raises_most else spec.images)
        found = np.zeros(table.size, np.int64)
        for name in names:  # a repeated name counts again
            column = images.column(name)
            size_bytes = np.maximum(column.sizes, 0)
            # As in kube-scheduler: the share first, and each product cut to whole bytes. More than
            # the maximum is cut before the sum: 8,192 of the largest would exceed int64.
            found += np.minimum(size_bytes * images.share(column), most_bytes).astype(np.int64)
        found = np.clip(found, LEAST_BYTES, most_bytes) - LEAST_BYTES
        return 100 * found // (most_bytes - LEAST_BYTES)

    def applies(self, spec: PodSpec) -> bool:
        """Return True: it has no PreScore, and scores 0 where it knows nothing."""
        return True
