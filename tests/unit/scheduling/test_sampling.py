"""Searches that end early: how many nodes they look for, in which order, and where they stop."""

import numpy as np
import pytest

from shared.model.objects import Node
from shared.model.profile import DEFAULT_SCORES, Profile
from shared.scheduling.cycle.sampling import NodeTree, samples, search, wanted, zone_key
from tests.support.builders import model_node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"


def sampling(percent: int | None, scores: tuple[tuple[str, int], ...] = DEFAULT_SCORES) -> Profile:
    return Profile(percentage_of_nodes_to_score=percent, scores=scores)


def node(zone: str = "", **labels: str) -> Node:
    return model_node("n").labels({ZONE: zone} if zone else {}, **labels).obj()


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        *((0, 0), (1, 1), (99, 99), (100, 100), (101, 100), (200, 100), (225, 110), (500, 230)),
        *((1000, 420), (2000, 680), (3000, 780), (5000, 500), (5500, 330), (5625, 281)),
        *((15_000, 750), (20_000, 1000)),
    ],
)
def test_the_share_follows_from_the_number_of_nodes(nodes, found):
    assert wanted(sampling(0), nodes) == found


@pytest.mark.parametrize(
    ("percent", "nodes", "found"),
    [
        *((1, 99, 99), (1, 100, 100), (1, 5000, 100), (1, 20_000, 200), (30, 1000, 300)),
        *((99, 101, 100), (99, 333, 329), (100, 777, 777), (None, 777, 777)),
    ],
)
def test_a_share_that_is_given_has_no_floor_but_a_hundred_nodes(percent, nodes, found):
    assert wanted(sampling(percent), nodes) == found


def test_one_node_is_enough_where_nothing_is_scored():
    assert wanted(sampling(0, scores=()), 5000) == 1
    assert wanted(sampling(50, scores=()), 7) == 1


def test_sampling_depends_on_the_profile():
    assert [samples(sampling(one)) for one in (None, 100, 99, 0)] == [False, False, True, True]


def test_a_search_goes_round_the_zones():
    tree = NodeTree()
    tree.set((7, 3, 9, 4, 5), [node("b"), node("a"), node("b"), node(), node("b")])
    assert tree.listed().tolist() == [7, 3, 4, 9, 5]
    tree.remove((7, 99))
    assert tree.listed().tolist() == [9, 3, 4, 5]
    tree.set((7,), [node("b")])
    assert tree.listed().tolist() == [9, 3, 4, 5, 7]
    tree.remove((3,))
    tree.set((3,), [node("a")])  # its zone had gone with it
    assert tree.listed().tolist() == [9, 4, 3, 5, 7]


def test_a_node_that_changes_its_zone_comes_last_there():
    tree = NodeTree()
    tree.set((1, 2, 3), [node("a"), node("b"), node("b")])
    tree.set((1, 2), [node("b"), node("b", other="label")])
    assert tree.listed().tolist() == [2, 3, 1]


def test_an_order_survives_a_snapshot():
    tree = NodeTree()
    tree.set((7, 3, 9), [node("b"), node("a"), node("b")])
    tree.remove((7,))
    twin = NodeTree.load(tree.dump())
    assert twin.listed().tolist() == tree.listed().tolist() == [9, 3]
    for one in (tree, twin):
        one.set((8, 9), [node("b"), node("a")])
    assert twin.listed().tolist() == tree.listed().tolist() == [8, 3, 9]


def test_old_names_of_labels_count_first():
    assert zone_key(node()) == zone_key(node(**{REGION: ""})) == ""
    assert zone_key(node("a", **{OLD_ZONE: "b"})) == zone_key(node(**{OLD_ZONE: "b"}))
    assert zone_key(node("a", **{OLD_ZONE: ""})) == ""
    assert len({zone_key(node("a")), zone_key(node("a", **{REGION: "a"})), ""}) == 3


@pytest.mark.parametrize(
    ("start", "most", "found", "looked_at"),
    [
        (0, 2, [4, 1], [4, 0, 1, 3]),  # on to the one that would be too many
        (1, 2, [1, 2], [0, 1, 3, 2]),
        (8, 2, [2, 4], [3, 2, 4, 0]),  # round, from any start
        (0, 3, [4, 1, 2], [4, 0, 1, 3, 2]),
        (0, 9, [4, 1, 2], [4, 0, 1, 3, 2]),
        (0, 0, [], []),
    ],
)
def test_where_a_search_stops(start, most, found, looked_at):
    takes = np.array([False, True, True, False, True])
    one = search(np.array([4, 0, 1, 3, 2]), start, takes, most)
    assert one.found.tolist() == found
    assert one.looked_at.tolist() == looked_at


def test_nothing_to_search():
    assert search(np.zeros(0, np.int64), 3, np.ones(2, np.bool_), 1).looked_at.tolist() == []
