"""Random small clusters of devices beside an exhaustive search with rules of its own.

No device is in two allocations, each result meets its request and the claim's constraints, the
devices leave what they share at zero or more, and a claim is refused only if no choice of devices
would do.
"""

from itertools import combinations, product
from random import Random

import pytest

from shared.model.claims import (
    Allocation,
    Attribute,
    ClaimSpec,
    Constraint,
    CounterSet,
    Device,
    DeviceClass,
    DeviceResult,
    Reach,
    Request,
    ResourceClaim,
    ResourceSlice,
    Wanted,
)
from shared.scheduling.claims.pod_claims import NO_ALLOCATION, ClaimFacts
from shared.scheduling.claims.reach import NodeView

SEEDS = 400
D = "d.com"
NUMA, MODEL, SHARE = f"{D}/numa", f"{D}/model", "share"
SHARED = 2
NODE = NodeView("n", {})
SELECTORS = {
    (): lambda _: True,
    (f'device.attributes["{D}"].numa == 1',): lambda one: one[NUMA] == 1,
    (f'device.attributes["{D}"].model == "a"',): lambda one: one[MODEL] == "a",
}
VALUES = {"numa": (0, 1), "model": ("a", "b")}


def drawn(draw: Random) -> tuple[ClaimFacts, dict, list[ResourceClaim]]:
    """Facts, the attributes of each device by its identity, and the claims of a pod."""
    devices, attributes = [], {}
    shares = draw.random() < 0.5
    for number in range(draw.randint(1, 5)):
        numa, model = draw.choice(VALUES["numa"]), draw.choice(VALUES["model"])
        given = (("model", Attribute("string", model)), ("numa", Attribute("int", numa)))
        share = draw.choice((0, 1, 1, 2)) if shares else 0
        consumed = (CounterSet("g", (("m", share),)),) if share else ()
        devices.append(Device(f"d{number}", given, consumes=consumed))
        attributes[D, "p", f"d{number}"] = {NUMA: numa, MODEL: model, SHARE: share}
    half = len(devices) // 2
    counters = (CounterSet("g", (("m", SHARED),)),)
    slices = [
        ResourceSlice(f"s{at}", D, "p", 1, 3, Reach(all_nodes=True), tuple(part))
        for at, part in enumerate((devices[:half], devices[half:]))
    ]
    slices.append(ResourceSlice("s9", D, "p", 1, 3, Reach(all_nodes=True), (), counters))
    claims = [claim(draw, number) for number in range(draw.randint(1, 2))]
    return ClaimFacts([DeviceClass("c")], slices, held(draw, attributes)), attributes, claims


def held(draw: Random, attributes: dict) -> list[ResourceClaim]:
    """Claims that have a device."""
    some = draw.sample(sorted(attributes), draw.choice((0, 0, 1)))
    results = tuple(DeviceResult("r", *one) for one in some)
    return [ResourceClaim("default", "h", "uh", ClaimSpec(), allocation=Allocation(results))]


def is_shared_fairly(devices: frozenset, attributes: dict) -> bool:
    """Whether the counters bear these devices. They are only asked about for one that needs any."""
    return sum(int(attributes[one][SHARE]) for one in devices) <= SHARED


def claim(draw: Random, number: int) -> ResourceClaim:
    def wanted(name: str) -> Wanted:
        return Wanted("c", name, draw.choice((1, 1, 2)), draw.choice(list(SELECTORS)))

    requests = []
    for at in range(draw.randint(1, 2)):
        choice = draw.random() < 0.4
        found = (wanted("a"), wanted("b")) if choice else (wanted(""),)
        requests.append(Request(f"r{at}", found, has_choice=choice))
    constraints = [
        Constraint(draw.choice(((), ("r0",))), **{draw.choice(("match", "distinct")): name})
        for name in draw.sample((NUMA, MODEL), draw.choice((0, 1, 1, 2)))
    ]
    spec = ClaimSpec(tuple(requests), tuple(constraints))
    return ResourceClaim("default", f"c{number}", f"u{number}", spec)


def holds(claim: ResourceClaim, chosen: list[tuple[str, dict]]) -> bool:
    """Whether the constraints hold; `chosen` are requests and attributes."""
    for one in claim.spec.constraints:
        name = one.match or one.distinct
        values = [
            has[name] for request, has in chosen if not one.requests or request in one.requests
        ]
        if len(set(values)) != (min(len(values), 1) if one.match else len(values)):
            return False
    return True


def exists(claims: list[ResourceClaim], attributes: dict, taken: frozenset = frozenset()) -> bool:
    """Whether any choice of devices serves all claims."""
    if not is_shared_fairly(taken, attributes):
        return False
    if not claims:
        return True
    first, rest = claims[0], claims[1:]
    for wanted in product(*(one.wanted for one in first.spec.requests)):
        for chosen in choices(list(wanted), attributes, taken):
            named = [
                (request.name, attributes[device])
                for request, devices in zip(first.spec.requests, chosen, strict=True)
                for device in devices
            ]
            used = {device for devices in chosen for device in devices}
            if holds(first, named) and exists(rest, attributes, taken | used):
                return True
    return False


def choices(wanted: list[Wanted], attributes: dict, taken: frozenset):
    """Yield devices for each request."""
    if not wanted:
        yield []
        return
    fit = [
        device
        for device, has in attributes.items()
        if device not in taken and SELECTORS[wanted[0].selectors](has)
    ]
    for devices in combinations(fit, wanted[0].count or 0):
        for others in choices(wanted[1:], attributes, taken | set(devices)):
            yield [devices, *others]


@pytest.mark.parametrize("part", range(2))
def test_safety_no_device_twice_and_no_refusal_where_a_choice_exists(part):
    served = 0
    for seed in range(part, SEEDS, 2):
        facts, attributes, claims = drawn(Random(f"devices {seed}"))
        fit = facts.fit(claims, NODE)
        before = frozenset(facts.in_use)
        assert (fit.reason == "") is exists(claims, attributes, before), f"seed {seed}: {fit}"
        assert fit.reason in ("", NO_ALLOCATION)
        used = [one.id for _, has in fit.allocations for one in has.results]
        assert len({*used, *before}) == len(used) + len(before), f"seed {seed}"
        assert is_shared_fairly(before | set(used), attributes), f"seed {seed}"
        for one, has in fit.allocations:
            served += 1
            named = [
                (result.request.split("/")[0], attributes[result.id]) for result in has.results
            ]
            assert holds(one, named), f"seed {seed}"
            for request in one.spec.requests:
                mine = [has for name, has in named if name == request.name]
                assert any(
                    len(mine) == wanted.count and all(map(SELECTORS[wanted.selectors], mine))
                    for wanted in request.wanted
                ), f"seed {seed}"
    assert served > SEEDS // 8
