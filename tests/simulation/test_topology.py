"""Worlds with gangs that have a topology, on one shard and on three, with all kinds of faults."""

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from tests.simulation.planted import IS_LONG
from tests.simulation.topology_worlds import make_topology_world

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(60 if IS_LONG else 12))
def test_gangs_stay_in_their_domains(seed: int) -> None:
    result = simulate(make_scenario(seed, make_topology_world(seed)), redecide=seed % 4 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(20 if IS_LONG else 4))
def test_gangs_stay_in_their_domains_on_one_shard(seed: int) -> None:
    result = simulate(make_scenario(seed, make_topology_world(seed), 1))
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
