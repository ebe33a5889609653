"""Worlds with groups that preemption evicts whole, with all kinds of faults."""

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from tests.parity.planted.patching import planted
from tests.simulation.bugs.units import BUGS, ELASTIC_BUGS, FALLING_BUGS, PROTECTED_BUGS
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.unit_worlds import (
    make_elastic_world,
    make_falling_world,
    make_protected_world,
    make_unit_world,
)

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(100 if IS_LONG else 3))
def test_units_leave_whole(seed: int) -> None:
    result = simulate(make_scenario(seed, make_unit_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(40 if IS_LONG else 1))
def test_units_leave_whole_from_one_shard(seed: int) -> None:
    result = simulate(make_scenario(seed, make_unit_world(seed), 1))
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(100 if IS_LONG else 3))
def test_members_above_the_minimum_leave_one_by_one(seed: int) -> None:
    result = simulate(make_scenario(seed, make_elastic_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(100 if IS_LONG else 3))
def test_gangs_below_their_minimum_wait_leave_or_go_on(seed: int) -> None:
    result = simulate(make_scenario(seed, make_falling_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(100 if IS_LONG else 2))
def test_pods_run_for_their_minimum_before_they_are_victims(seed: int) -> None:
    result = simulate(make_scenario(seed, make_protected_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("bug", PROTECTED_BUGS, ids=lambda bug: bug.name)
def test_a_change_of_protection_is_found_by_its_rule(bug: Bug) -> None:
    with planted(bug):
        scenarios = (make_scenario(seed, make_protected_world(seed)) for seed in bug.first)
        results = map(simulate, scenarios)
        found = [(bug.found_by(result.problems), result.problems[:2]) for result in results]
    assert any(by for by, _problems in found), found


@pytest.mark.parametrize("bug", FALLING_BUGS, ids=lambda bug: bug.name)
def test_a_change_below_the_minimum_is_found_by_its_rule(bug: Bug) -> None:
    with planted(bug):
        results = (simulate(make_scenario(seed, make_falling_world(seed))) for seed in bug.first)
        found = [(bug.found_by(result.problems), result.problems[:2]) for result in results]
    assert any(by for by, _problems in found), found


@pytest.mark.parametrize("bug", ELASTIC_BUGS, ids=lambda bug: bug.name)
def test_a_change_of_the_minimum_is_found_by_its_rule(bug: Bug) -> None:
    with planted(bug):
        results = (simulate(make_scenario(seed, make_elastic_world(seed))) for seed in bug.first)
        found = [(bug.found_by(result.problems), result.problems[:2]) for result in results]
    assert any(by for by, _problems in found), found


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_found_by_its_rule(bug: Bug) -> None:
    with planted(bug):
        results = (simulate(make_scenario(seed, make_unit_world(seed))) for seed in bug.first)
        found = [(bug.found_by(result.problems), result.problems[:2]) for result in results]
    assert any(by for by, _problems in found), found
