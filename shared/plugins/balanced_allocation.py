"""NodeResourcesBalancedAllocation: prefers nodes whose cpu and memory fill alike (1.35 form)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared.framework.layout import ALLOC, F64, USED

if TYPE_CHECKING:
    from shared.framework.signature import Signature


class BalancedAllocation:
    """Local score int((1 - |f_cpu - f_memory| / 2) * 100) with f the requested shares with the pod,
    at most 1. With one of the two resources on the node the deviation is 0.

    The float operations and their order are kube-scheduler's, so the bits are as well.
    """

    name = "NodeResourcesBalancedAllocation"

    def applies(self, sig: "Signature") -> bool:
        """Not to pods that ask for neither cpu nor memory."""
        return not sig.best_effort

    def scores(self, sig: "Signature", cols: F64, whole: bool) -> F64:
        """Whole numbers 0..100."""
        alloc = cols[ALLOC : ALLOC + 2]
        share = cols[USED : USED + 2] + sig.requests
        if whole:
            share /= alloc
            np.minimum(share, 1.0, out=share)
            score: F64 = share[0]
            score -= share[1]
        else:
            share /= np.maximum(alloc, 1.0)
            np.minimum(share, 1.0, out=share)
            score = share[0] - share[1]
            score[(alloc == 0.0).any(axis=0)] = 0.0
        np.abs(score, out=score)
        score *= 0.5
        np.subtract(1.0, score, out=score)
        score *= 100.0
        np.floor(score, out=score)
        return score

    def score(self, sig: "Signature", values: Sequence[float]) -> int:
        """The same of one node."""
        cpu, memory = values[ALLOC], values[ALLOC + 1]
        if not cpu or not memory:
            return 100
        share_cpu = (values[USED] + sig.cpu) / cpu
        share_memory = (values[USED + 1] + sig.memory) / memory
        # min() costs a call each, and this runs once for every placed pod.
        share_cpu = 1.0 if share_cpu > 1.0 else share_cpu
        share_memory = 1.0 if share_memory > 1.0 else share_memory
        return int((1.0 - abs(share_cpu - share_memory) * 0.5) * 100.0)
