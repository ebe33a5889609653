"""DynamicResources' texts at PostFilter, around DefaultPreemption's: the same for all pods, as
those with claims are not decided here.
"""

from shared.model.release import V1_37, Release

FIRST, LAST, SILENT, NOWHERE = CLAIMS = ("first", "last", "silent", "")
"""Its place among a profile's plugins: before DefaultPreemption, after it, somewhere without a text
(since 1.37), or not at all.
"""
NO_CLAIMS = "no new claims to deallocate"
NOT_FOUND = "not found"
"""Its error if PreFilter rejected the pod before its own turn; no other text follows then."""


def place_in(release: Release, claims: str) -> str:
    """Return its place in a release; `claims`: in a profile."""
    return SILENT if claims and release.version >= V1_37 else claims


def around(claims: str, *texts: str) -> tuple[str, ...]:
    """Return these texts with its own, in order."""
    before, after = (NO_CLAIMS,) * (claims == FIRST), (NO_CLAIMS,) * (claims == LAST)
    return (*before, *texts, *after)
