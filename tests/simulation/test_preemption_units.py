"""Worlds of groups: units, minimums and places kept, growth, falls, protection, with all faults."""

from collections.abc import Callable

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from shared.model.world import World
from tests.simulation.bugs.units import (
    BUGS,
    ELASTIC_BUGS,
    FALLING_BUGS,
    GROWING_BUGS,
    HOLDING_BUGS,
    PROTECTED_BUGS,
)
from tests.simulation.found_bugs import assert_found
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.unit_worlds import (
    make_elastic_world,
    make_falling_world,
    make_growing_world,
    make_holding_scenario,
    make_protected_world,
    make_unit_world,
)

pytestmark = [pytest.mark.simulation, pytest.mark.slow]
MakeWorld = Callable[[int], World]
SEEDS = (
    (make_unit_world, 3),
    (make_elastic_world, 3),
    (make_falling_world, 3),
    (make_growing_world, 2),
    (make_protected_world, 2),
)
"""How many seeds of each world are played, without `make seeds`."""
FOUND = (
    (make_unit_world, BUGS),
    (make_elastic_world, ELASTIC_BUGS),
    (make_falling_world, FALLING_BUGS),
    (make_growing_world, GROWING_BUGS),
    (make_protected_world, PROTECTED_BUGS),
)


@pytest.mark.parametrize(
    ("make_world", "seed"),
    [
        pytest.param(make_world, seed, id=f"{make_world.__name__}-{seed}")
        for make_world, few in SEEDS
        for seed in range(100 if IS_LONG else few)
    ],
)
def test_groups_keep_their_rules_in_every_situation(make_world: MakeWorld, seed: int) -> None:
    result = simulate(make_scenario(seed, make_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize("seed", range(60 if IS_LONG else 1))
def test_places_of_lost_members_are_kept_in_every_situation(seed: int, placements: int) -> None:
    result = simulate(make_holding_scenario(seed, placements), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.name) for bug in HOLDING_BUGS])
def test_a_change_in_what_is_kept_is_found_by_its_rule(bug: Bug) -> None:
    assert_found(bug, make_holding_scenario)


@pytest.mark.parametrize("seed", range(40 if IS_LONG else 1))
def test_units_leave_whole_from_one_shard(seed: int) -> None:
    result = simulate(make_scenario(seed, make_unit_world(seed), 1))
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize(
    ("make_world", "bug"),
    [pytest.param(make_world, bug, id=bug.name) for make_world, bugs in FOUND for bug in bugs],
)
def test_a_change_is_found_by_its_rule(make_world: MakeWorld, bug: Bug) -> None:
    assert_found(bug, lambda seed: make_scenario(seed, make_world(seed)))
