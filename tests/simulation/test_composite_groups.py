"""Worlds with trees of CompositePodGroups, on one shard and on three, with all kinds of faults."""

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from tests.simulation.bugs.composites import BUGS
from tests.simulation.composite_worlds import make_composite_world
from tests.simulation.found_bugs import assert_found
from tests.simulation.planted import IS_LONG, Bug

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("seed", range(60 if IS_LONG else 6))
def test_trees_of_groups_start_whole_in_every_situation(seed: int, shards: int) -> None:
    scenario = make_scenario(seed, make_composite_world(seed), shards)
    result = simulate(scenario, redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_found_by_its_rule(bug: Bug) -> None:
    assert_found(bug, lambda seed: make_scenario(seed, make_composite_world(seed), 1))
