"""What DynamicResources says at postFilter, around what DefaultPreemption says: the same for all
pods, as those with claims are not decided here.
"""

FIRST, LAST, NOWHERE = CLAIMS = ("first", "last", "")
"""Where it stands among a profile's plugins: before DefaultPreemption, after it, or not at all."""
NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"
"""Its error where PreFilter has rejected the pod before its own turn; nothing else is said then."""


def around(claims: str, *texts: str) -> tuple[str, ...]:
    """These texts with what it says, in order."""
    before, after = (NO_CLAIMS,) * (claims == FIRST), (NO_CLAIMS,) * (claims == LAST)
    return (*before, *texts, *after)
