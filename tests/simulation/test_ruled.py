"""Worlds with rules between pods, through every kind of fault: each decision and the end are judged
by the checker's own rules.
"""

import pytest

from muster.simulation.ruled import make_ruled_world, make_spread_scenario
from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(24))
def test_rules_between_pods_are_kept_through_faults(seed: int) -> None:
    result = simulate(make_scenario(seed, make_ruled_world(seed), 1), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(6))
def test_several_shards_refuse_what_they_cannot_keep(seed: int) -> None:
    result = simulate(make_scenario(seed, make_ruled_world(seed)), redecide=True)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(8))
def test_services_that_come_and_go_are_followed_through_faults(seed: int) -> None:
    result = simulate(make_spread_scenario(seed), redecide=seed % 2 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.seen["services"]
