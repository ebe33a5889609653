"""What becomes of a gang that started and of which fewer than minCount run, as its group says."""

from msgspec import Struct

WAIT, EVICT, SHRINK = "wait", "evict", "shrink"
RULES = (WAIT, EVICT, SHRINK)
GRACE_MS = 300_000


class BelowMinimum(Struct, frozen=True, omit_defaults=True, gc=False):
    """After the grace the rest is evicted (EVICT), or goes on with minCount satisfied (SHRINK).
    WAIT, the rule of other groups, is None in place of this.
    """

    rule: str
    grace_ms: int = GRACE_MS
