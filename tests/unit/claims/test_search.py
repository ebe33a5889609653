"""How long a search for devices may take: its steps are counted, not its time."""

import pytest

from shared.model.claims import (
    Attribute,
    ClaimSpec,
    Constraint,
    Device,
    DeviceClass,
    Reach,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.model.release import V1_35, V1_36, V1_37
from shared.scheduling.claims.allocator import AllocationError
from shared.scheduling.claims.pod_claims import NO_ALLOCATION, ClaimFacts, Fit
from shared.scheduling.claims.reach import NodeView

DRIVER, NODE = "d.com", NodeView("n", {})
TIMED_OUT = "timed out trying to allocate devices"


def fit(spec: ClaimSpec, devices: int, groups: int, version: str = V1_36) -> Fit:
    """Ask for devices that have their group as an attribute."""
    published = tuple(
        Device(f"d{number:03}", (("group", Attribute("int", number % groups)),))
        for number in range(devices)
    )
    slices = [ResourceSlice("s", DRIVER, "p", 1, 1, Reach(all_nodes=True), published)]
    claim = ResourceClaim("default", "c", "u", spec)
    return ClaimFacts([DeviceClass("c")], slices, [claim], version).fit([claim], NODE)


def asking(requests: int, count: int = 1, *constraints: Constraint) -> ClaimSpec:
    wanted = (Wanted("c", count=count),)
    return ClaimSpec(tuple(Request(f"r{at}", wanted) for at in range(requests)), constraints)


def test_a_search_that_takes_too_long_ends_the_attempt():
    with pytest.raises(AllocationError, match=f"node n: {TIMED_OUT}"):
        fit(asking(16), 15, 1)
    assert fit(asking(16), 15, 1, V1_35).reason == TIMED_OUT


def test_constraints_count_as_steps():
    distinct = [Constraint((), distinct=f"{DRIVER}/group")] * 32
    assert fit(asking(1, 8, distinct[0]), 14, 7, V1_37).reason == NO_ALLOCATION
    with pytest.raises(AllocationError, match=TIMED_OUT):
        fit(asking(1, 8, *distinct), 14, 7, V1_37)


def test_groups_that_are_too_small_are_found_early():
    same = Constraint((), match=f"{DRIVER}/group")
    assert fit(asking(1, 8, same), 128, 20).reason == NO_ALLOCATION
    assert fit(asking(1, 8, same), 128, 16).reason == ""
