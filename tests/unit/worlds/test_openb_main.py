"""The main job's changes to openb: gangs, late gangs, latecomers; seeded, and no pod lost."""

from collections import Counter

import pytest

from shared.model.columns import split
from shared.worlds.traces.openb import Timing
from shared.worlds.traces.openb_main import POD_FILE, MainJob, main_world


@pytest.fixture(scope="module")
def folder():
    from shared.worlds.settings import data_root
    from tests.support.required_tools import require_tool

    root = data_root()
    require_tool("traces", "export MUSTER_DATA=folder of the traces", found=root.is_dir())
    return root / "openb"


@pytest.fixture(scope="module")
def world(folder):
    return main_world(folder, POD_FILE, Timing(), MainJob())


def members(world):
    return Counter(
        arrival.pods.gang
        for arrival in world.arrivals
        for _ in split(arrival.pods.names)
        if arrival.pods.gang
    )


def test_five_percent_of_the_pods_are_in_gangs_of_2_to_16(world):
    found = members(world)
    assert len(world.gangs) >= 60
    assert found.total() == 8_152 * 5 // 100
    assert {gang.key: gang.min_count for gang in world.gangs} == found
    assert min(found.values()) >= 2
    assert max(found.values()) <= 16


def test_small_gangs_are_more_frequent(world):
    sizes = Counter(members(world).values())
    assert sizes[2] > sizes[4] > sizes[8]


def test_a_gang_has_one_priority_and_comes_at_one_time(world):
    priorities: dict[str, set] = {}
    for arrival in world.arrivals:
        if arrival.pods.gang:
            kind = (arrival.pods.spec.priority, arrival.at_ms)
            priorities.setdefault(arrival.pods.gang, set()).add(kind)
    assert {len(kinds) for kinds in priorities.values()} == {1}


def test_the_latecomers_are_above_all_and_ask_for_gpus(world):
    late = [a for a in world.arrivals if a.at_ms == MainJob().latecomers_at_ms]
    others = [a for a in world.arrivals if a.at_ms != MainJob().latecomers_at_ms]
    assert sum(len(split(a.pods.names)) for a in late) == MainJob().latecomers
    assert all(a.pods.spec.gpu is not None for a in late)
    highest = max(a.pods.spec.priority for a in others)
    assert min(a.pods.spec.priority for a in late) > highest


def test_some_gangs_come_after_the_latecomers(world):
    late = {a.pods.gang for a in world.arrivals if a.at_ms > MainJob().latecomers_at_ms}
    assert len(late) == MainJob().late_gangs
    assert "" not in late


def test_no_pod_of_the_trace_is_lost_or_doubled(world):
    names = [name for a in world.arrivals for name in split(a.pods.names)]
    assert len(names) == len(set(names)) == 8_152 + MainJob().latecomers


def test_the_seed_decides_everything(folder, world):
    assert main_world(folder, POD_FILE, Timing(), MainJob()) == world
    assert main_world(folder, POD_FILE, Timing(), MainJob(seed=2)) != world
