"""Searches that end early, under faults: the index at which they begin survives crashes, snapshots
and replays.
"""

from dataclasses import replace

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]

PROFILE = {"percentage_of_nodes_to_score": 50, "scores": []}
"""The first node that takes a pod is taken, so that every decision depends on the index."""


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_seed_is_safe_and_comes_to_rest(seed: int) -> None:
    scenario = make_scenario(seed)
    config = scenario.config | {"placement": {"profiles": [PROFILE]}}
    result = simulate(replace(scenario, config=config), redecide=True)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.pods >= 200
