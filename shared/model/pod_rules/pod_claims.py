"""A pod's use of resource claims (resource.k8s.io/v1): names only. What a claim asks for, and what
it has, is looked up at each decision.
"""

from msgspec import Struct


class PodClaim(Struct, frozen=True, omit_defaults=True, gc=False):
    """A use of a claim: by its name, or by a template from which one is made for the pod. `made` is
    the claim that was made; empty if none was needed, None if none is made yet. It counts only
    while it belongs to the `pod` of this name with the uid `owner`.
    """

    name: str
    claim: str = ""
    template: str = ""
    made: str | None = None
    pod: str = ""
    owner: str = ""


def of_pod(
    claims: tuple[PodClaim, ...], made: dict[str, str], pod: str, uid: str
) -> tuple[PodClaim, ...]:
    """Return a template's uses with what was made for one pod (status.resourceClaimStatuses)."""
    return tuple(
        PodClaim(one.name, one.claim, one.template, made.get(one.name), pod, uid)
        if one.template
        else one
        for one in claims
    )


def has_templates(claims: tuple[PodClaim, ...]) -> bool:
    """Return whether each pod of a template has claims of its own."""
    return any(one.template for one in claims)
