"""Queues that get their guarantees back, on one shard and on three, with all kinds of faults."""

import pytest

from muster.simulation.run import simulate
from tests.parity.planted.patching import planted
from tests.simulation.bugs.reclaims import IN_RECLAIMS
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.reclaim_worlds import make_reclaim_scenario

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


def shards(seed: int) -> int:
    return 1 if seed % 3 == 2 else 3


@pytest.mark.parametrize("seed", range(200) if IS_LONG else (1, 2))
def test_no_queue_loses_its_guarantee_and_no_claim_exceeds_one(seed: int) -> None:
    result = simulate(make_reclaim_scenario(seed, shards(seed)), redecide=seed % 2 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("bug", IN_RECLAIMS if IS_LONG else IN_RECLAIMS[:3], ids=lambda b: b.name)
def test_a_change_is_found_where_queues_reclaim(bug: Bug) -> None:
    seed = bug.first[0]
    with planted(bug):
        result = simulate(make_reclaim_scenario(seed, shards(seed)))
    assert bug.found_by(result.problems), result.problems[:2]
