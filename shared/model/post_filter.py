"""DynamicResources' texts at PostFilter, around DefaultPreemption's: the same for all pods, as
those with claims are not decided here.
"""

FIRST, LAST, NOWHERE = CLAIMS = ("first", "last", "")
"""Its place among a profile's plugins: before DefaultPreemption, after it, or not at all."""
NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"
"""Its error if PreFilter rejected the pod before its own turn; no other text follows then."""


def around(claims: str, *texts: str) -> tuple[str, ...]:
    """Return these texts with its own, in order."""
    before, after = (NO_CLAIMS,) * (claims == FIRST), (NO_CLAIMS,) * (claims == LAST)
    return (*before, *texts, *after)
