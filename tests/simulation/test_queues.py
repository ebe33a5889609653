"""Worlds with queues, on one shard and on three, with all kinds of faults and changing trees."""

import pytest

from muster.simulation.run import simulate
from tests.parity.planted.patching import planted
from tests.simulation.bugs.queues import IN_QUEUES
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.queue_worlds import make_queue_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(200 if IS_LONG else 6))
def test_no_queue_is_ever_above_its_max(seed: int) -> None:
    shards = 1 if seed % 3 == 2 else 3
    result = simulate(make_queue_scenario(seed, shards), redecide=seed % 2 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("bug", IN_QUEUES, ids=lambda bug: bug.name)
def test_a_change_is_found_where_pods_are_in_queues(bug: Bug) -> None:
    with planted(bug):
        result = simulate(make_queue_scenario(bug.first[0], 3))
    assert bug.found_by(result.problems), result.problems[:2]
