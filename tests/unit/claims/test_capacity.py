"""What shares of a device consume of its capacity, by its policies."""

import pytest

from shared.model.claims import (
    CapacityPolicy,
    ClaimSpec,
    Device,
    DeviceClass,
    Reach,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.scheduling.claims.capacity import DeviceCapacity
from shared.scheduling.claims.pod_claims import NO_ALLOCATION, ClaimFacts, Fit
from shared.scheduling.claims.reach import NodeView

UNIT = 10**9
HAS = 40


def amount(units: float) -> str:
    return str(int(units * UNIT))


def policy(**fields) -> CapacityPolicy:
    return CapacityPolicy("m", **fields)


VALUES = policy(default=amount(10), values=(amount(5), amount(10), amount(20)))
RANGE = policy(default=amount(5), has_range=True, least=amount(5), step=amount(5), most=amount(30))
FREE_RANGE = policy(default=amount(1), has_range=True, least=amount(1))
HALVES = policy(default=amount(0.5), has_range=True, least=amount(0.5), step=amount(0.25))


@pytest.mark.parametrize(
    ("given", "asked", "consumed"),
    [
        (None, None, HAS),
        (None, 7, 7),
        (policy(default=amount(2)), None, 2),
        (policy(default=amount(2)), 7, 7),
        (policy(default=amount(3), values=(amount(5),)), None, 3),
        (VALUES, None, 10),
        (VALUES, 6, 10),
        (VALUES, 20, 20),
        (VALUES, 21, None),
        (RANGE, 1, 5),
        (RANGE, 5.5, 10),
        (RANGE, 6, 10),
        (RANGE, 10, 10),
        (RANGE, 30, 30),
        (RANGE, 31, None),
        (FREE_RANGE, 0.5, 1),
        (FREE_RANGE, 1.5, 1.5),
        (HALVES, None, 0.5),
        (HALVES, 0.6, 1),
    ],
)
def test_policies_round_amounts_up_or_refuse_them(given, asked, consumed):
    policies = () if given is None else (given,)
    device = Device("d", capacity=(("m", HAS * UNIT),), is_shared=True, policies=policies)
    wanted = () if asked is None else (("m", amount(asked)),)
    found = DeviceCapacity(device).consumed(wanted)
    assert found == (None if consumed is None else {"m": int(consumed * UNIT)})


def test_a_capacity_that_the_device_lacks_cannot_be_asked_for():
    assert DeviceCapacity(Device("d")).consumed((("m", "1"),)) is None


def fit(*amounts: int | tuple[int, ...]) -> Fit:
    """Ask for shares of one device that has 40; several amounts are alternatives."""
    device = Device("d", capacity=(("m", HAS * UNIT),), is_shared=True)
    one = ResourceSlice("s", "d.com", "p", 1, 1, Reach(all_nodes=True), (device,))
    requests = []
    for at, each in enumerate(amounts):
        choice = each if isinstance(each, tuple) else (each,)
        wanted = tuple(Wanted("c", f"s{one}", capacity=(("m", amount(one)),)) for one in choice)
        requests.append(Request(f"r{at}", wanted, has_choice=isinstance(each, tuple)))
    claim = ResourceClaim("default", "c", "u", ClaimSpec(tuple(requests)))
    return ClaimFacts([DeviceClass("c")], [one], [claim]).fit([claim], NodeView("n", {}))


def test_shares_fill_a_device_and_no_more():
    ((_, allocation),) = fit(10, 30).allocations
    assert [one.consumed for one in allocation.results] == [
        (("m", amount(10)),),
        (("m", amount(30)),),
    ]
    assert fit(10, 31).reason == NO_ALLOCATION


def test_a_share_is_given_back_for_the_next_alternative():
    ((_, allocation),) = fit((40, 10), 30).allocations
    assert [one.request for one in allocation.results] == ["r0/s10", "r1"]


def test_shares_have_identities_that_are_the_same_each_time():
    first, second = (
        [one.share_id for _, has in fit(10, 10).allocations for one in has.results]
        for _ in range(2)
    )
    assert first == second
    assert len(set(first)) == len(first)
