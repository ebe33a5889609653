"""The checker of resource claims: a device is one claim's, or its shares fit it."""

import pytest

from muster.checker.filters.claims import check
from muster.checker.inputs.history import ClusterHistory
from shared.model.claims import (
    Allocation,
    ClaimSpec,
    Device,
    DeviceResult,
    Reach,
    ResourceClaim,
    ResourceSlice,
)
from shared.model.cluster_objects import ClaimObject, SliceObject

DEVICE = Device("x", capacity=(("memory", "10"),), is_shared=True)
SLICE = SliceObject(uid="s", name="s", value=ResourceSlice("s", "d", "p", 1, 1, Reach(), (DEVICE,)))


def claim(name: str, *consumed: int) -> ClaimObject:
    """Return a claim with shares that consume so much memory, or without any with the device."""
    results = [
        DeviceResult("r", "d", "p", "x", share_id=f"{number}", consumed=(("memory", str(nano)),))
        for number, nano in enumerate(consumed)
    ]
    has = Allocation(tuple(results or [DeviceResult("r", "d", "p", "x")]))
    value = ResourceClaim("a", name, name, ClaimSpec(), allocation=has)
    return ClaimObject(uid=name, name=name, namespace="a", value=value)


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ([claim("a", 4), claim("b", 3, 3)], []),
        ([claim("a", 4), claim("b", 3, 4)], ["shares-fit"]),
        ([claim("a", 4), claim("b")], ["shares-fit"]),
        ([claim("a"), claim("b", 4)], ["shares-fit"]),
        ([claim("a"), claim("b")], ["one-claim-per-device"]),
        ([claim("a", 9), None, claim("b", 9)], []),
    ],
)
def test_what_claims_have_of_a_device(claims, rules):
    changes = [(at, "a" if one is None else one.uid, one) for at, one in enumerate(claims)]
    history = ClusterHistory(objects=[SLICE], claim_changes=changes)
    assert [rule for rule, _ in check(history)] == rules
