"""Gangs with rules over zones, or with volumes to choose, get room in a full cluster of one shard,
and no pod is evicted in vain: whole meshes in virtual time, checked by the checker.
"""

import pytest

from muster.simulation.run import simulate
from muster.simulation.scenario import make_scenario
from tests.simulation.bugs.joint_places import BUGS
from tests.simulation.found_bugs import assert_found
from tests.simulation.full_zone_worlds import (
    RULES,
    full_world,
    make_full_zone_volume_scenario,
    make_full_zone_world,
    members,
)
from tests.simulation.planted import IS_LONG, Bug
from tests.simulation.test_gang_preemption import played

pytestmark = [pytest.mark.simulation, pytest.mark.slow]


@pytest.mark.parametrize("rule", RULES)
def test_members_evict_only_the_needed_victims(rule: str) -> None:
    count, _rules = RULES[rule]
    there, gone = played(full_world(members(rule, 4_000), g=count), 1)
    assert all(where for name, where in there.items() if name.startswith("g-member"))
    assert gone == 2 * count


@pytest.mark.parametrize("rule", RULES)
def test_with_several_shards_they_wait(rule: str) -> None:
    there, gone = played(full_world(members(rule, 4_000), g=RULES[rule][0]), 3)
    assert gone == 0
    assert not any(where for name, where in there.items() if name.startswith("g-member"))


@pytest.mark.parametrize("placements", [1, 3])
@pytest.mark.parametrize("seed", range(30 if IS_LONG else 6))
def test_they_get_room_whole_through_faults(seed: int, placements: int) -> None:
    scenario = make_scenario(seed, make_full_zone_world(seed), placements)
    result = simulate(scenario, redecide=seed % 3 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)


@pytest.mark.parametrize("seed", range(30 if IS_LONG else 5))
def test_members_with_volumes_to_choose_get_room_whole_through_faults(seed: int) -> None:
    result = simulate(make_full_zone_volume_scenario(seed), redecide=seed % 3 == 0)
    assert result.is_good, f"seed {seed}\n" + "\n".join(result.lines)
    assert result.seen["gang-room-made"]


def test_seeds_in_which_they_get_room() -> None:
    worlds = (make_scenario(seed, make_full_zone_world(seed), 1) for seed in range(4))
    assert sum(simulate(one).seen["gang-room-made"] for one in worlds)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_change_is_found_by_its_rule(bug: Bug) -> None:
    assert_found(bug, lambda seed: make_scenario(seed, make_full_zone_world(seed), 1))
