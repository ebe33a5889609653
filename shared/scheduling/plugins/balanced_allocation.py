"""NodeResourcesBalancedAllocation over cpu and memory: prefers nodes where these fill alike.

resource_scores.py has the same scores over any resources, slower.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared.scheduling.table.layout import ALLOC, F64, I16, USED

if TYPE_CHECKING:
    from shared.scheduling.cycle.signature import Signature


class BalancedAllocation:
    """The score until kube-scheduler 1.35: int((1 - |f_cpu - f_memory| / 2) * 100) with f the
    requested shares with the pod, at most 1. With one of the two on the node the deviation is 0.

    The float operations and their order are kube-scheduler's, so the bits are as well, except that
    halving is left out: (2 - d) * 50 has the bits of (1 - d / 2) * 100, as a factor of two changes
    the exponent alone.
    """

    name = "NodeResourcesBalancedAllocation"

    def applies(self, sig: "Signature") -> bool:
        """Return False for pods that request neither cpu nor memory."""
        return not sig.best_effort

    def scores(self, sig: "Signature", cols: F64, whole: bool, within: bool) -> I16:
        """Return the scores. Cutting to int16 equals Go's int(), as nothing is negative."""
        alloc = cols[ALLOC : ALLOC + 2]
        share = cols[USED : USED + 2] + sig.requests
        share /= alloc if whole else np.maximum(alloc, 1.0)
        if not within:
            np.minimum(share, 1.0, out=share)
        score: F64 = share[0]
        score -= share[1]
        if not whole:
            score[(alloc == 0.0).any(axis=0)] = 0.0
        np.abs(score, out=score)
        np.subtract(2.0, score, out=score)
        score *= 50.0
        return score.astype(np.int16)

    def score(self, sig: "Signature", values: Sequence[float]) -> int:
        """Return the score of one node."""
        cpu, memory = values[ALLOC], values[ALLOC + 1]
        if not cpu or not memory:
            return 100
        share_cpu = (values[USED] + sig.cpu) / cpu
        share_memory = (values[USED + 1] + sig.memory) / memory
        # min() costs a call each, and this runs once for every placed pod.
        share_cpu = 1.0 if share_cpu > 1.0 else share_cpu
        share_memory = 1.0 if share_memory > 1.0 else share_memory
        return int((2.0 - abs(share_cpu - share_memory)) * 50.0)


class BalanceGain:
    """The score since kube-scheduler 1.36: by how much a pod makes a node's cpu and memory fill
    alike. 75: it changes nothing.
    """

    def scores(self, sig: "Signature", cols: F64) -> I16:
        """Return the scores of gathered nodes, shape (m,)."""
        alloc = cols[ALLOC : ALLOC + 2]
        whole = np.maximum(alloc, 1.0)
        gained = _balance((cols[USED : USED + 2] + sig.requests) / whole)
        gained -= _balance(cols[USED : USED + 2] / whole)
        if not alloc.all():
            gained[(alloc == 0.0).any(axis=0)] = 0
        gained += 50
        gained >>= 1
        gained += 50
        return gained

    def score(self, sig: "Signature", values: Sequence[float]) -> int:
        """Return the score of one node."""
        cpu, memory = values[ALLOC], values[ALLOC + 1]
        if not cpu or not memory:
            return 75
        used_cpu, used_memory = values[USED], values[USED + 1]
        share_cpu, share_memory = used_cpu / cpu, used_memory / memory
        share_cpu = 1.0 if share_cpu > 1.0 else share_cpu
        share_memory = 1.0 if share_memory > 1.0 else share_memory
        before = int((2.0 - abs(share_cpu - share_memory)) * 50.0)
        share_cpu, share_memory = (used_cpu + sig.cpu) / cpu, (used_memory + sig.memory) / memory
        share_cpu = 1.0 if share_cpu > 1.0 else share_cpu
        share_memory = 1.0 if share_memory > 1.0 else share_memory
        return 50 + (50 + int((2.0 - abs(share_cpu - share_memory)) * 50.0) - before) // 2


def _balance(shares: F64) -> I16:
    """Return how alike the shares are, as in BalancedAllocation."""
    np.minimum(shares, 1.0, out=shares)
    score: F64 = np.abs(shares[0] - shares[1])
    np.subtract(2.0, score, out=score)
    score *= 50.0
    found: I16 = score.astype(np.int16)
    return found
