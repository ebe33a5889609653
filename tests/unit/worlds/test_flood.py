"""Floods: counts, shapes, arrivals and the seed; columns for identical pods."""

import pytest

from shared.model.columns import split
from shared.worlds.flood import COLUMN_PODS_MAX, Flood, flood_world


def names(world):
    return [name for arrival in world.arrivals for name in split(arrival.pods.names)]


def test_identical_pods_are_one_signature_in_few_columns():
    world = flood_world(Flood(pods=10_000, nodes=3))
    assert names(world) == [f"flood-{number}" for number in range(10_000)]
    assert len(world.arrivals) == -(-10_000 // COLUMN_PODS_MAX)
    assert len({arrival.pods.spec for arrival in world.arrivals}) == 1
    assert len(world.nodes) == 3


def test_distinct_pods_have_a_signature_each():
    world = flood_world(Flood(pods=500, shapes="distinct"))
    assert len({arrival.pods.spec for arrival in world.arrivals}) == 500


def test_a_rate_spreads_arrivals_evenly():
    world = flood_world(Flood(pods=1_000, rate=2_500))
    assert world.arrivals[-1].at_ms == 399
    arrived = sum(len(split(a.pods.names)) for a in world.arrivals if a.at_ms < 100)
    assert arrived == 250
    assert len(set(names(world))) == 1_000


@pytest.mark.parametrize("rate", [0, 1_000])
def test_pods_can_arrive_after_a_start(rate):
    at_once = flood_world(Flood(pods=100, rate=rate))
    later = flood_world(Flood(pods=100, rate=rate, start_ms=3_000))
    assert later.nodes == at_once.nodes
    assert [a.at_ms - 3_000 for a in later.arrivals] == [a.at_ms for a in at_once.arrivals]


@pytest.mark.parametrize("rate", [0, 1_000])
def test_openb_shapes_are_seeded_and_complete(openb, rate):
    pod_file = openb / "openb_pod_list_default.csv"
    flood = Flood(pods=600, shapes="openb", rate=rate, window=100)
    world = flood_world(flood, pod_file)
    assert sorted(names(world)) == sorted(f"flood-{number}" for number in range(600))
    assert len({arrival.pods.spec for arrival in world.arrivals}) == 4
    assert flood_world(flood, pod_file) == world
    other = Flood(pods=600, shapes="openb", rate=rate, window=100, seed=2)
    assert flood_world(other, pod_file) != world


def test_openb_shapes_are_a_sixteenth(openb):
    world = flood_world(Flood(pods=50, shapes="openb"), openb / "openb_pod_list_default.csv")
    specs = {arrival.pods.spec for arrival in world.arrivals}
    assert {spec.request("cpu") for spec in specs} == {62, 31}
    assert {spec.gpu.milli for spec in specs if spec.gpu} == {62, 28, 500}


def test_window_1_keeps_strict_random_order(openb):
    flood = Flood(pods=50, shapes="openb", window=1)
    world = flood_world(flood, openb / "openb_pod_list_default.csv")
    assert names(world) == [f"flood-{number}" for number in range(50)]


def test_no_pods_is_an_empty_flood():
    assert flood_world(Flood(pods=0)).arrivals == ()
