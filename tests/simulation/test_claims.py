"""Worlds with resource claims, through every kind of fault: each decision, every state of the
cluster's claims and the end are checked by the checker's own rules, which find planted bugs.
"""

import pytest

from muster.simulation import run
from muster.simulation.run import simulate
from tests.parity.planted.patching import planted
from tests.simulation.claim_worlds import make_claim_scenario, make_contended_scenario
from tests.simulation.planted import IS_LONG, Bug

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize("seed", range(24 if IS_LONG else 3))
def test_no_device_is_in_two_claims_through_faults(seed: int, placements: int) -> None:
    result = simulate(make_claim_scenario(seed, placements), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    # What was before a reset is not counted.
    is_quiet = (placements, seed) in QUIET
    assert result.seen["claims-given-back"] or result.seen["reset"] or is_quiet, "none given back"


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize("seed", range(24 if IS_LONG else 1))
def test_members_of_gangs_get_devices_through_faults(seed: int, placements: int) -> None:
    result = simulate(make_claim_scenario(seed, placements, for_gangs=True))
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.seen["volumes-chosen"], "no member had claims"


QUIET = ((1, 0),)
PLACEMENT, RETURNS = "services.placement.core.", "services.binding.core.claims.returns"
LIVE_CLAIMS = "shared.scheduling.claims.live_claims"
BUGS = (
    Bug(
        "nothing-is-assumed",
        PLACEMENT + "books.devices",
        ("        if one.allocation is not None:\n", "        if False:\n"),
        first=(0,),
    ),
    Bug(
        "bound-without-claims",
        "services.binding.core.binds",
        (" or pod in state.claims:\n", ":\n"),
        ("        and pod not in state.claims\n", ""),
        first=(0,),
    ),
    Bug(
        "never-given-back",
        RETURNS,
        ("    if not write.is_sent or", "    if write.is_sent:\n        return\n    if True or"),
        first=(1,),
    ),
    Bug(
        "outcomes-end-nothing",
        LIVE_CLAIMS,
        ("after.revision >= given.revision or has_fallen", "False"),
        first=(1,),
    ),
    Bug(
        "used-once-is-free",
        LIVE_CLAIMS,
        ("self._users.get(device, 0) + sign", "max(0, sign)"),
        first=(0,),
    ),
)
FOR_GANGS = (
    (
        1,
        Bug(
            "members-hold-no-devices",
            PLACEMENT + "gangs.member_choices",
            ("        devices.assume_devices(", "        (lambda *_: None)("),
            first=(0,),
        ),
    ),
    (
        1,
        Bug(
            "members-bound-without-claims",
            "services.permit.core.core",
            (" | {one.pod for one in event.claims}", ""),
            first=(0,),
        ),
    ),
    (
        3,
        Bug(
            "released-devices-are-kept",
            PLACEMENT + "gangs.member_choices",
            ("        devices.free_devices(", "        (lambda *_: None)("),
            first=(14,),
        ),
    ),
)
CONTENDED = (
    Bug(
        "unknown-is-definite",
        RETURNS,
        ("        if Answer(code) is Answer.DONE:\n", "        if True:\n"),
        first=(4,),
    ),
    Bug(
        "free-before-the-answer",
        RETURNS,
        ("    if not write.is_sent or", "    if True or"),
        first=(4,),
    ),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_noticed(bug: Bug) -> None:
    with planted(bug):
        scenarios = map(make_claim_scenario, bug.first)
        assert not all(simulate(scenario).is_good for scenario in scenarios)


SHARES = (
    Bug(
        "shares-are-not-counted",
        LIVE_CLAIMS,
        ("                self.facts.shares.add(one, sign)\n", ""),
        by=("shares-fit",),
        first=(4,),
    ),
)


@pytest.mark.parametrize("bug", SHARES, ids=lambda bug: bug.name)
def test_a_change_is_noticed_where_claims_share_devices(bug: Bug) -> None:
    with planted(bug):
        scenarios = (make_contended_scenario(seed, has_shares=True) for seed in bug.first)
        results = [simulate(scenario) for scenario in scenarios]
    assert any(bug.found_by(one.problems) for one in results)


def test_claims_share_devices_through_faults() -> None:
    result = simulate(make_contended_scenario(4, has_shares=True))
    assert result.is_good, "\n".join(result.lines)


@pytest.mark.parametrize("bug", CONTENDED, ids=lambda bug: bug.name)
def test_a_change_is_noticed_where_half_of_the_writes_fail(
    bug: Bug, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "VOLUME_FAILURE", 0.5)
    with planted(bug):
        assert not all(simulate(make_contended_scenario(seed)).is_good for seed in bug.first)


@pytest.mark.parametrize(
    ("placements", "bug"), FOR_GANGS, ids=lambda one: getattr(one, "name", one)
)
def test_a_change_is_noticed_with_gangs(placements: int, bug: Bug) -> None:
    with planted(bug):
        scenarios = (make_claim_scenario(seed, placements, for_gangs=True) for seed in bug.first)
        assert not all(simulate(scenario).is_good for scenario in scenarios)
